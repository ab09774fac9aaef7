//go:build browser

package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An upload that waits behind others can be stopped; it is not sent then.
func TestAnUploadThatWaitsIsStopped(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	way := newBetween(t, p)
	held := make(chan bool)
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/documents") {
			<-held
		}
		return false
	})
	tab := signedInThrough(t, way, p, "#/knowledge/"+base)
	tab.find("heading", "Handbook")
	var files []string
	for _, name := range []string{"one.txt", "two.txt", "three.txt", "four.txt"} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte("This is "+name), 0o600))
		files = append(files, file)
	}
	tab.choosesFiles("#documents", files...)
	tab.click("button", "Upload")
	tab.click("button", "Stop the upload of three.txt")
	tab.see("Stopped by you.")
	close(held)
	tab.find("link", "four.txt")
	tab.find("link", "one.txt")
	var titles []string
	for _, d := range p.send("GET", "/knowledge-bases/"+base+"/documents", nil)["documents"].([]any) {
		titles = append(titles, d.(object)["title"].(string))
	}
	assert.ElementsMatch(t, []string{"one.txt", "two.txt", "four.txt"}, titles)
}

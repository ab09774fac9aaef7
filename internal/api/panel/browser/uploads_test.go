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

// A file that is too large for a function goes where the service says, and comes back from there.
func TestALargeDocumentComesAndGoes(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases",
		object{"name": "Handbook", "chunking": object{"size": 1000, "overlap": 0}})
	content := strings.Repeat("The canteen opens at noon, and closes at two.\n", 90_000) // 4.1 MB
	file := filepath.Join(t.TempDir(), "canteen.txt")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	tab := signedIn(t, p, "#/knowledge/"+base)
	tab.find("heading", "Handbook")
	tab.choosesFiles("#documents", file)
	tab.click("button", "Upload")
	tab.find("link", "canteen.txt")
	tab.until("canteen.txt ready", rowHas(tab, "canteen.txt", "ready"))
	tab.click("link", "canteen.txt")
	tab.find("heading", "canteen.txt")
	tab.saves()
	tab.click("button", "Download")
	assert.True(t, content == tab.saved(1), "what was saved is what was uploaded")
	tab.find("region", "Text")
}

//go:build browser

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// A file that is too large for a function goes to the address that the service returns, and comes back from there.
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

// written is a file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// uploadHas reports whether the list of uploads has a text.
func uploadHas(tab *page, text string) func(context.Context) error {
	return func(context.Context) error {
		var list string
		tab.evaluate(`document.querySelector('[aria-label="Uploads"]')?.innerText ?? ""`, &list)
		if !strings.Contains(list, text) {
			return errors.New("the uploads are: " + list)
		}
		return nil
	}
}

// An upload follows its document: it is not done before the document is ready, and it shows the reason of a failure.
func TestAnUploadFollowsItsDocument(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	way := newBetween(t, p)
	held, sent := make(chan bool), atomic.Bool{}
	way.goesWrong(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/documents") && r.Method == http.MethodPost {
			sent.Store(true)
		} else if strings.HasSuffix(r.URL.Path, "/documents") && sent.Load() {
			<-held
		}
		return false
	})
	tab := signedInThrough(t, way, p, "#/knowledge/"+base)
	tab.find("heading", "Handbook")
	tab.choosesFiles("#documents", written(t, "notes.txt", "The canteen opens at noon."))
	tab.click("button", "Upload")
	tab.until("the document is under way", uploadHas(tab, "pending"))
	close(held)
	tab.until("the document is ready", uploadHas(tab, "ready"))

	tab.choosesFiles("#documents", written(t, "again.txt", "The canteen opens at noon."),
		written(t, "broken.pdf", "%PDF-1.7 and nothing more"))
	tab.click("button", "Upload")
	tab.until("the document is there", uploadHas(tab, "already exists"))
	tab.until("the other one has failed", uploadHas(tab, "failed"))
	tab.until("it says why", uploadHas(tab, "save it again"))
}

// Several documents are chosen and changed together; a refused one shows the reason.
func TestSeveralDocumentsAreChosen(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	path := "/knowledge-bases/" + base + "/documents"
	ids := map[string]string{}
	for _, title := range []string{"One", "Two", "Three", "Four"} {
		ids[title] = p.makes("document_id", path, object{"title": title, "text": "the text of " + title})
		ready(p, base, ids[title])
	}
	tab := signedIn(t, p, "#/knowledge/"+base)
	for _, title := range []string{"One", "Two", "Three"} {
		tab.click("checkbox", "Choose "+title)
	}
	tab.see("3 documents chosen")
	tab.fill("Language of the chosen", "xx")
	tab.click("button", "Set language")
	tab.see("must be auto or a code of ISO 639-1")
	tab.see("3 documents chosen")
	tab.fill("Language of the chosen", "de")
	tab.see("German (de)")
	tab.click("button", "Set language")
	tab.gone("chosen")
	for title, id := range ids {
		d := p.send("GET", path+"/"+id, nil)
		assert.Equal(t, title != "Four", d["language"] == "de", title)
	}

	tab.click("checkbox", "Choose all in the list")
	tab.see("4 documents chosen")
	tab.click("button", "Try again: the chosen")
	tab.gone("chosen")
	ready(p, base, ids["One"])
	tab.evaluate(`['One', 'Two', 'Three'].forEach((t) =>
		document.querySelector('[aria-label="Choose ' + t + '"]').click())`, nil)
	tab.click("button", "Delete the chosen")
	tab.see("Delete 3 documents?")
	tab.click("button", "Confirm")
	tab.gone("Three")
	tab.find("link", "Four")
	assert.Len(t, p.send("GET", path, nil)["documents"], 1)
}

// The language of a base and of a document is shown, and set.
func TestLanguagesAreShownAndSet(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	document := p.makes("document_id", "/knowledge-bases/"+base+"/documents", object{"title": "Leave", "text": "days"})
	ready(p, base, document)
	tab := signedIn(t, p, "#/knowledge/"+base)
	tab.until("no language is set", factIs(tab, "Language", "auto"))
	tab.fill("Language", "sv")
	tab.click("button", "Save")
	tab.until("the language is set", factIs(tab, "Language", "Swedish (sv)"))
	tab.visit("#/knowledge/" + base + "/" + document)
	tab.until("it has the language of its base", factIs(tab, "Language", "Swedish (sv)"))
	tab.fill("Language", "de")
	tab.click("button", "Save")
	tab.until("the language is set", factIs(tab, "Language", "German (de)"))
	assert.Equal(t, "de", p.send("GET", "/knowledge-bases/"+base+"/documents/"+document, nil)["language"])
}

// The warnings of a document are shown with it.
func TestWarningsAreShown(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	path := "/knowledge-bases/" + base + "/documents"
	document := p.makes("document_id", path, object{"title": "Scan", "text": "days"})
	ready(p, base, document)
	way := newBetween(t, p)
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path+"/"+document) {
			return false
		}
		d := p.send("GET", path+"/"+document, nil)
		d["warnings"] = []object{{"code": "pages_without_text", "message": "They have pictures alone.",
			"pages": []int{2, 5}, "count": 2}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d)
		return true
	})
	tab := signedInThrough(t, way, p, "#/knowledge/"+base+"/"+document)
	tab.find("heading", "Scan")
	tab.find("list", "Warnings of Scan")
	tab.see("Pages 2, 5: They have pictures alone.")
}

// The content of a document is replaced by a file or a text; the same content again changes nothing.
func TestTheContentOfADocumentIsReplaced(t *testing.T) {
	t.Parallel()
	p := start(t)
	base := p.makes("knowledge_base_id", "/knowledge-bases", object{"name": "Handbook"})
	path := "/knowledge-bases/" + base + "/documents"
	document := p.makes("document_id", path, object{"title": "Prices", "text": "A cup costs two euros."})
	ready(p, base, document)
	tab := signedIn(t, p, "#/knowledge/"+base+"/"+document)
	tab.see("two euros")
	tab.click("button", "Replace content")
	tab.find("dialog", "Replace the content of Prices")
	tab.choosesFiles("#replacement", written(t, "prices.txt", "A cup costs three euros."))
	tab.clickInDialog("Replace content")
	tab.see("three euros")
	tab.gone("two euros")
	tab.until("it has another source", factIs(tab, "From", "prices.txt"))

	tab.click("button", "Replace content")
	tab.choosesFiles("#replacement", written(t, "prices.txt", "A cup costs three euros."))
	tab.clickInDialog("Replace content")
	tab.see("The document has this content already.")
	tab.choose("From", "a text")
	tab.fill("Text", "A cup costs four euros.")
	tab.clickInDialog("Replace content")
	tab.see("four euros")
	tab.find("heading", "Prices")
	assert.Equal(t, 3.0, p.send("GET", path+"/"+document, nil)["version"])
}

package knowledge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/blob/memblob"
)

// The list of all documents goes through the bases, newest first, and leaves out documents that the filter excludes.
// Pages of any size have each document once.
func TestDocumentsOfAllBasesArePaged(t *testing.T) {
	l := libraryOver(t, &memblob.Store{})
	var want []string
	for base, n := range []int{2, 0, 3, 1, 0, 4} {
		w := l.Send("POST", "/knowledge-bases", `{"name":"b"}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		var inside []string
		for i := range n {
			made := l.Send("POST", "/knowledge-bases/"+at(t, w, "knowledge_base_id")+"/documents",
				fmt.Sprintf(`{"title":"%d of %d","text":"text %d of %d"}`, i, base, i, base))
			require.Equal(t, http.StatusCreated, made.Code, made.Body)
			inside = append([]string{at(t, made, "document_id")}, inside...)
		}
		want = append(inside, want...)
	}
	pages := func(query string, limit int) (found []string) {
		cursor := ""
		for range 50 {
			path := fmt.Sprintf("/documents?%s&limit=%d&cursor=%s", query, limit, url.QueryEscape(cursor))
			w := l.Send("GET", path, "")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var list struct {
				Documents []struct {
					ID string `json:"document_id"`
				} `json:"documents"`
				Next *string `json:"next_cursor"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
			require.LessOrEqual(t, len(list.Documents), limit)
			for _, d := range list.Documents {
				found = append(found, d.ID)
			}
			if list.Next == nil {
				return found
			}
			cursor = *list.Next
		}
		require.Fail(t, "the list has no end")
		return nil
	}
	for _, limit := range []int{1, 2, 3, 10, 100} {
		assert.Equal(t, want, pages("", limit), limit)
		assert.Equal(t, want, pages("status=pending", limit), limit)
		assert.Empty(t, pages("status=failed", limit), limit)
		assert.Len(t, pages("q=0+of", limit), 4, limit)
	}
	wrong(t, l.Send("GET", "/documents?cursor=x", ""), "query.cursor")
	w := l.Send("GET", "/documents?limit=1", "")
	require.Equal(t, http.StatusNoContent, l.Send("DELETE", "/knowledge-bases/"+
		at(t, w, "documents.0.knowledge_base_id"), "").Code)
	next := l.Send("GET", "/documents?limit=1&cursor="+url.QueryEscape(at(t, w, "next_cursor")), "")
	assert.Equal(t, want[4], at(t, next, "documents.0.document_id"), "behind a base that is gone come the others")
}

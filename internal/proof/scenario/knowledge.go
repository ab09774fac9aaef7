package scenario

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// base makes a knowledge base and returns its id.
func (x *Actor) base(members ...any) string {
	x.Helper()
	body := object{"name": "Handbook"}
	for i := 0; i+1 < len(members); i += 2 {
		body[members[i].(string)] = members[i+1]
	}
	return x.post("/knowledge-bases", body).is(201).text("knowledge_base_id")
}

// document adds a document to a base, waits until it is ready, and returns its id.
func (x *Actor) document(base string, body object) string {
	x.Helper()
	return x.settled(base, x.post("/knowledge-bases/"+base+"/documents", body).is(201).text("document_id"), "ready")
}

// settled waits until a document's ingestion has ended, and checks its status.
func (x *Actor) settled(base, id, status string) string {
	x.Helper()
	var a reply
	x.eventually("the end of the ingestion", func() bool {
		a = x.get("/knowledge-bases/" + base + "/documents/" + id + "?wait_ms=2000").is(200)
		return a.text("status") == "ready" || a.text("status") == "failed"
	})
	require.Equal(x, status, a.text("status"), a.raw)
	return id
}

// upload sends files to a base in one form.
func (x *Actor) upload(base string, pairs ...string) reply {
	x.Helper()
	body, kind := form(pairs...)
	return x.do(x.request(http.MethodPost, "/knowledge-bases/"+base+"/documents", body, "Content-Type", kind))
}

// find searches bases, and returns the ids of the documents of the hits, each once.
func (x *Actor) find(query string, more ...any) (documents []string) {
	x.Helper()
	body := object{"query": query}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	seen := map[string]bool{}
	for _, hit := range x.post("/search", body).is(200).list("hits") {
		id := hit.(object)["document_id"].(string)
		if !seen[id] {
			documents = append(documents, id)
		}
		seen[id] = true
	}
	return documents
}

// Knowledge bases and their documents.
func knowledgeScenarios() []Story {
	return []Story{
		{Name: "knowledge/a base has its defaults, is changed, listed and deleted", Run: func(x *Actor) {
			a := x.post("/knowledge-bases", object{"name": "Handbook"}).is(201)
			assert.Equal(x, "builtin", a.text("embedding_model", "provider"))
			assert.InDelta(x, 220, a.number("chunking", "size"), 0)
			assert.InDelta(x, 40, a.number("chunking", "overlap"), 0)
			assert.Empty(x, a.list("group_ids"))
			assert.Equal(x, "ready", a.text("index", "state"))
			path := "/knowledge-bases/" + a.text("knowledge_base_id")
			x.patch(path, object{"name": "Other", "description": "d"}, "If-Match", "\"99\"").
				problem(412, "precondition_failed")
			x.patch(path, object{"name": "Other", "description": "d"}, "If-Match", a.header.Get("ETag")).is(200)
			assert.Equal(x, "Other", x.get(path).is(200).text("name"))
			assert.Len(x, x.get("/knowledge-bases").is(200).list("knowledge_bases"), 1)
			x.delete(path).is(204)
			x.get(path).problem(404, "not_found")
			assert.Empty(x, x.get("/knowledge-bases").is(200).list("knowledge_bases"))
		}},
		{Name: "knowledge/what is wrong with a base is named", Run: func(x *Actor) {
			for field, body := range map[string]object{
				"body.name":             {"name": ""},
				"body.chunking.size":    {"name": "a", "chunking": object{"size": 10}},
				"body.chunking.overlap": {"name": "a", "chunking": object{"size": 100, "overlap": 50}},
				"body.embedding_model":  {"name": "a", "embedding_model": object{"provider": "nobody", "name": "x"}},
				"body.group_ids[0]":     {"name": "a", "group_ids": []string{"0123456789abcdef01234567"}},
			} {
				x.post("/knowledge-bases", body).names(field)
			}
		}},
		{Name: "knowledge/a text becomes a document that is found and read back", Run: func(x *Actor) {
			base := x.base()
			a := x.post("/knowledge-bases/"+base+"/documents", object{
				"title": "Travel", "text": "Trips are booked by the office.\n\nMeals cost at most forty euros.",
				"metadata": object{"year": 2026, "kind": "policy", "draft": false},
			}).is(201)
			assert.Contains(x, []string{"pending", "processing"}, a.text("status"))
			id := x.settled(base, a.text("document_id"), "ready")
			path := "/knowledge-bases/" + base + "/documents/" + id
			d := x.get(path).is(200)
			assert.Equal(x, "text", d.text("source", "kind"))
			assert.InDelta(x, 1, d.number("version"), 0)
			assert.Nil(x, d.at("error"))
			assert.Nil(x, d.at("stage"))
			assert.NotEmpty(x, d.text("ready_at"))
			assert.InDelta(x, 2026, d.number("metadata", "year"), 0)
			x.get(path, "If-None-Match", d.header.Get("ETag")).is(304)
			assert.Contains(x, x.get(path+"/text").is(200).raw, "Meals cost at most forty euros.")
			content := x.get(path + "/content").is(200)
			assert.Contains(x, content.header.Get("Content-Disposition"), "attachment")
			assert.Contains(x, content.raw, "Trips are booked")
			chunks := x.get(path + "/chunks").is(200)
			assert.Len(x, chunks.list("chunks"), int(d.number("chunk_count")))
			assert.Equal(x, []string{id}, x.find("what do meals cost"))
			n := x.get("/knowledge-bases/" + base).is(200)
			assert.InDelta(x, 1, n.number("documents", "ready"), 0)
			assert.InDelta(x, d.number("chunk_count"), n.number("chunk_count"), 0)
			assert.InDelta(x, d.number("size"), n.number("bytes"), 0)
		}},
		{Name: "knowledge/files of a form become documents, whatever the order of its parts", Run: func(x *Actor) {
			base := x.base()
			one := x.upload(base, "file", "file:# Rules\n\nNo smoking.", "title", "House rules", "metadata",
				`{"a":"b"}`).is(201)
			assert.Equal(x, "House rules", one.text("title"))
			assert.Equal(x, "b", one.text("metadata", "a"))
			assert.Equal(x, "upload", one.text("source", "kind"))
			several := x.upload(base, "file", "file:first", "file", "file:second").is(201)
			require.Len(x, several.list("documents"), 2)
			for i := range 2 {
				x.settled(base, several.text("documents", i, "document_id"), "ready")
			}
			x.upload(base, "title", "x").names("file")
			x.upload(base, "file", "file:x", "metadata", "{").names("metadata")
			assert.Len(x, x.get("/knowledge-bases/"+base+"/documents").is(200).list("documents"), 3)
		}},
		{Name: "knowledge/the same content is one document", Run: func(x *Actor) {
			base := x.base()
			id := x.document(base, object{"title": "One", "text": "the same words"})
			again := x.post("/knowledge-bases/"+base+"/documents", object{"title": "Two",
				"text": "the same words"}).is(200)
			assert.Equal(x, id, again.text("document_id"))
			assert.Equal(x, true, again.at("duplicate"))
			assert.Equal(x, "One", again.text("title"))
			group := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
			other := x.document(base, object{"text": "the same words", "group_ids": []string{group}})
			assert.NotEqual(x, id, other, "it is for others")
			x.delete("/knowledge-bases/" + base + "/documents/" + id).is(204)
			assert.NotEqual(x, id, x.document(base, object{"text": "the same words"}), "the first is gone")
		}},
		{Name: "knowledge/a file that was sent before becomes a document with bytes of its own",
			Run: func(x *Actor) {
				base, file := x.base(), x.file("swordfish is the word")
				id := x.document(base, object{"file_id": file})
				d := x.get("/knowledge-bases/" + base + "/documents/" + id).is(200)
				assert.Equal(x, "file", d.text("source", "kind"))
				assert.Contains(x, x.get("/knowledge-bases/"+base+"/documents/"+id+"/content").is(200).raw, "swordfish")
				x.post("/knowledge-bases/"+base+"/documents", object{"file_id": "0123456789abcdef01234567"}).
					problem(404, "not_found")
				x.post("/knowledge-bases/"+base+"/documents", object{"file_id": file, "text": "x"}).names("body")
				x.post("/knowledge-bases/"+base+"/documents", object{}).names("body")
			}},
		{Name: "knowledge/what cannot be read fails, says why, and is tried again", Run: func(x *Actor) {
			base := x.base()
			for want, content := range map[string]string{
				"empty": "file:  \n ", "unsupported_type": "file:\x00\x01\x02\x7fELF\x00",
				"unreadable": "file:%PDF-1.7 nothing",
			} {
				id := x.settled(base, x.upload(base, "file", content).is(201).text("document_id"), "failed")
				d := x.get("/knowledge-bases/" + base + "/documents/" + id).is(200)
				assert.Equal(x, want, d.text("error_code"), d.raw)
				assert.Equal(x, "extracting", d.text("stage"))
				assert.NotEmpty(x, d.text("error"))
			}
			failed := x.get("/knowledge-bases/" + base + "/documents?status=failed").is(200)
			assert.Len(x, failed.list("documents"), 3)
			a := x.post("/knowledge-bases/"+base+"/reprocess", object{"status": "failed"}).is(202)
			assert.InDelta(x, 3, a.number("count"), 0)
			for i := range 3 {
				x.settled(base, failed.text("documents", i, "document_id"), "failed")
			}
		}},
		{Name: "knowledge/a document from an address, which is fetched anew", Run: func(x *Actor) {
			var mu sync.Mutex
			text, requests := "<title>News</title><h1>Today</h1><p>The word is swordfish.</p>", 0
			address := x.publish("news", func(w http.ResponseWriter, q *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				requests++
				w.Header().Set("ETag", fmt.Sprintf("%q", text))
				if q.Header.Get("If-None-Match") == fmt.Sprintf("%q", text) {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, text)
			})
			moved := x.publish("moved", func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, address, http.StatusFound)
			})
			inside := x.publish("inside", func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, "http://169.254.169.254/latest", http.StatusFound)
			})
			base := x.base()
			path := "/knowledge-bases/" + base + "/documents"
			a := x.post(path, object{"url": moved}).is(201)
			assert.Equal(x, "url", a.text("source", "kind"))
			id := x.settled(base, a.text("document_id"), "ready")
			assert.Equal(x, "News", x.get(path+"/"+id).is(200).text("title"), "as the page says")
			assert.Equal(x, []string{id}, x.find("swordfish"))
			x.post(path+"/"+id+"/reprocess", nil).is(202)
			x.settled(base, id, "ready")
			assert.InDelta(x, 1, x.get(path+"/"+id).is(200).number("version"), 0, "nothing is new")
			mu.Lock()
			text = "<title>News</title><p>The word is marlin.</p>"
			mu.Unlock()
			x.post(path+"/"+id+"/reprocess", nil).is(202)
			x.settled(base, id, "ready")
			assert.InDelta(x, 2, x.get(path+"/"+id).is(200).number("version"), 0)
			assert.Equal(x, []string{id}, x.find("marlin", "mode", "keyword"))
			assert.Empty(x, x.find("swordfish", "mode", "keyword"))

			for name, want := range map[string]string{"nowhere": "fetch_failed", "inside": "url_forbidden"} {
				failed := x.post(path, object{"url": strings.Replace(inside, "inside", name,
					1)}).is(201).text("document_id")
				x.settled(base, failed, "failed")
				d := x.get(path + "/" + failed).is(200)
				assert.Equal(x, []string{want, "fetching"}, []string{d.text("error_code"), d.text("stage")})
			}
			for _, bad := range []string{"http://169.254.169.254/latest", "http://127.0.0.1:1/", "http://[::1]/"} {
				x.post(path, object{"url": bad}).problem(400, "url_forbidden")
			}
			x.post(path, object{"url": "ftp://example.com"}).names("body.url")
		}},
		{Name: "knowledge/documents are listed by status and title, and their edits are merged",
			Run: func(x *Actor) {
				base := x.base()
				id := x.document(base, object{"title": "Annual Report", "text": "a", "metadata": object{"a": 1,
					"b": 2}})
				x.document(base, object{"title": "Other", "text": "b"})
				list := func(query string) int {
					return len(x.get("/knowledge-bases/" + base + "/documents?" + query).is(200).list("documents"))
				}
				assert.Equal(x, []int{2, 1, 2, 0}, []int{list(""), list("q=annual"), list("status=ready"),
					list("status=failed")})
				first := x.get("/knowledge-bases/" + base + "/documents?limit=1").is(200)
				second := x.get("/knowledge-bases/" + base + "/documents?limit=1&cursor=" +
					first.text("next_cursor")).is(200)
				assert.NotEqual(x, first.text("documents", 0, "document_id"), second.text("documents", 0,
					"document_id"))
				assert.Nil(x, second.at("next_cursor"))
				path := "/knowledge-bases/" + base + "/documents/" + id
				d := x.patch(path, object{"title": "Zebra crossing", "metadata": object{"a": nil, "c": "d"}}).is(200)
				assert.Equal(x, object{"b": 2.0, "c": "d"}, d.at("metadata"))
				assert.Equal(x, "ready", d.text("status"), "a new title is indexed in the background")
				x.eventually("the new title is found", func() bool {
					return len(x.find("zebra", "mode",
						"keyword")) == 1
				})
				x.patch(path, object{"metadata": object{"e": []int{1}}}).names("body.metadata.e")
				x.patch(path, object{"title": ""}).names("body.title")
				assert.InDelta(x, 1, x.get(path).is(200).number("version"), 0)
			}},
		{Name: "knowledge/a deleted document is found by nobody from the answer on", Run: func(x *Actor) {
			base := x.base()
			gone := x.document(base, object{"text": "the word is swordfish"})
			stays := x.document(base, object{"text": "the other word is swordfish too"})
			assert.Len(x, x.find("swordfish"), 2)
			path := "/knowledge-bases/" + base + "/documents/" + gone
			x.delete(path).is(204)
			assert.Equal(x, []string{stays}, x.find("swordfish"))
			for _, what := range []string{"", "/content", "/text", "/chunks"} {
				x.get(path+what).problem(404, "not_found")
			}
			x.delete(path).problem(404, "not_found")
			x.delete("/knowledge-bases/" + base).is(204)
			assert.Empty(x, x.find("swordfish"))
			x.get("/knowledge-bases/"+base+"/documents/"+stays).problem(404, "not_found")
		}},
		{Name: "knowledge/other settings rebuild a base, which is searched meanwhile", Run: func(x *Actor) {
			base := x.base("chunking", object{"size": 50, "overlap": 0})
			path := "/knowledge-bases/" + base
			id := x.document(base, object{"text": strings.Repeat("The swordfish is a fast fish. ", 60)})
			other := x.document(base, object{"text": "Another swordfish."})
			both := func() bool { return assert.ElementsMatch(x, []string{id, other}, x.find("swordfish")) }
			a := x.patch(path, object{"chunking": object{"size": 100, "overlap": 0}, "embedding_model": object{
				"provider": "builtin", "dimensions": 256}}).is(200)
			assert.InDelta(x, 100, a.number("chunking", "size"), 0, "the wanted one")
			assert.InDelta(x, 256, a.number("embedding_model", "dimensions"), 0)
			if a.text("index", "state") == "rebuilding" {
				assert.InDelta(x, 50, a.number("index", "settings", "chunking", "size"), 0, "the one in force")
				assert.InDelta(x, 2, a.number("index", "total"), 0)
			}
			x.eventually("the end of the rebuild", func() bool {
				a = x.get(path).is(200)
				return both() && a.text("index", "state") == "ready"
			})
			both()
			assert.InDelta(x, 100, a.number("index", "settings", "chunking", "size"), 0)
			assert.InDelta(x, 256, a.number("index", "settings", "embedding_model", "dimensions"), 0)
			d := x.get(path + "/documents/" + id).is(200)
			assert.Equal(x, []any{"ready", 1.0, 4.0}, []any{d.text("status"), d.number("version"),
				d.number("chunk_count")})
			x.delete(path + "/rebuild").is(204)
			x.patch(path, object{"chunking": object{"size": 200}}).is(200)
			x.delete(path + "/rebuild").is(204)
			a = x.get(path).is(200)
			assert.Equal(x, "ready", a.text("index", "state"))
			assert.Equal(x, a.number("chunking", "size"), a.number("index", "settings", "chunking", "size"))
			both()
			x.patch(path, object{"embedding_model": object{"provider": "nobody", "name": "x"}}).
				names("body.embedding_model")
			x.delete("/knowledge-bases/0123456789abcdef01234567/rebuild").problem(404, "not_found")
		}},
		{Name: "knowledge/reprocessing replaces a document at once", Run: func(x *Actor) {
			base := x.base()
			id := x.document(base, object{"text": "swordfish"})
			path := "/knowledge-bases/" + base + "/documents/" + id
			a := x.post(path+"/reprocess", nil).is(202)
			assert.Equal(x, "pending", a.text("status"))
			assert.Equal(x, []string{id}, x.find("swordfish"), "the version before is found meanwhile")
			x.settled(base, id, "ready")
			assert.InDelta(x, 2, x.get(path).is(200).number("version"), 0)
			hits := x.post("/search", object{"query": "swordfish"}).is(200).list("hits")
			assert.Len(x, hits, 1, "each chunk once")
		}},
		{Name: "knowledge/new content replaces a document once it is ready", Run: func(x *Actor) {
			base, file := x.base(), x.file("the word is tuna")
			id := x.document(base, object{"title": "Prices", "text": "the word is swordfish"})
			path := "/knowledge-bases/" + base + "/documents/" + id
			seen := x.get(path).is(200).header.Get("ETag")
			words := []string{"swordfish", "marlin", "tuna", "shark"}
			only := func(word string) {
				for _, w := range words {
					var want []string
					if w == word {
						want = []string{id}
					}
					assert.Equal(x, want, x.find(w, "mode", "keyword"), w)
				}
			}
			put := func(body object, header ...string) reply {
				return x.send(http.MethodPut, path+"/content", body, header...)
			}
			a := put(object{"text": "the word is marlin"}, "If-Match", seen).is(202)
			assert.Equal(x, "Prices", a.text("title"))
			assert.Contains(x, x.get(path+"/content").is(200).raw, "marlin", "from the answer on")
			x.settled(base, id, "ready")
			only("marlin")
			assert.Contains(x, x.get(path+"/text").is(200).raw, "marlin")
			same := put(object{"text": "the word is marlin"}).is(200)
			assert.InDelta(x, 2, same.number("version"), 0, "nothing is ingested")
			put(object{"text": "late"}, "If-Match", seen).problem(412, "precondition_failed")
			put(object{"text": "x", "title": "y"}).names("body.title")

			put(object{"file_id": file}).is(202)
			x.settled(base, id, "ready")
			only("tuna")
			body, kind := form("file", "file:the word is shark")
			x.do(x.request(http.MethodPut, path+"/content", body, "Content-Type", kind)).is(202)
			x.settled(base, id, "ready")
			only("shark")

			broken, kind := form("file", "file:%PDF-1.7 nothing")
			x.do(x.request(http.MethodPut, path+"/content", broken, "Content-Type", kind)).is(202)
			x.settled(base, id, "ready")
			assert.Equal(x, "unreadable", x.get(path).is(200).text("last_error", "error_code"))
			only("shark")
			n := x.get("/knowledge-bases/" + base).is(200)
			assert.InDelta(x, 1, n.number("document_count"), 0)
			assert.NotEqual(x, id, x.document(base, object{"text": "the word is swordfish"}), "the old bytes are free")
		}},
	}
}

// Search.
func searchScenarios() []Story {
	return []Story{
		{Name: "search/finds by words and by likeness, and says where", Run: func(x *Actor) {
			base := x.base()
			id := x.document(base, object{
				"title": "Fire drill",
				"text": "Leave the building by the stairs. " + strings.Repeat("Nothing else is said here. ", 100) +
					"Meet at the oak.",
			})
			x.document(base, object{"title": "Menu", "text": "Soup on Monday, fish on Friday."})
			for _, mode := range []string{"hybrid", "semantic", "keyword"} {
				a := x.post("/search", object{"query": "Where do we meet? The oak!", "mode": mode, "limit": 1}).is(200)
				require.Len(x, a.list("hits"), 1, mode)
				hit := a.at("hits", 0).(object)
				assert.Equal(x, id, hit["document_id"], mode)
				assert.Equal(x, mode, a.text("mode"))
				assert.Nil(x, a.at("degraded"))
				text := x.get("/knowledge-bases/" + base + "/documents/" + id + "/text").is(200).raw
				from, to := int(a.number("hits", 0, "chunk", "start")), int(a.number("hits", 0, "chunk", "end"))
				assert.Equal(x, a.text("hits", 0, "text"), string([]rune(text)[from:to]))
				assert.True(x, a.number("hits", 0, "score") > 0 && a.number("hits", 0, "score") <= 1)
				if mode != "semantic" {
					var words []string
					for i := range a.list("hits", 0, "highlights") {
						at := []int{int(a.number("hits", 0, "highlights", i, 0)), int(a.number("hits", 0,
							"highlights", i, 1))}
						words = append(words, string([]rune(a.text("hits", 0, "text"))[at[0]:at[1]]))
					}
					assert.Contains(x, words, "oak", mode)
				}
			}
		}},
		{Name: "search/by filters", Run: func(x *Actor) {
			base := x.base()
			ids := map[int]string{}
			for year := 2020; year < 2025; year++ {
				ids[year] = x.document(base, object{
					"text":     fmt.Sprint("the swordfish report of ", year),
					"metadata": object{"year": year, "name": fmt.Sprint("r", year), "even": year%2 == 0},
				})
			}
			x.document(base, object{"text": "a swordfish without metadata"})
			for want, metadata := range map[string]object{
				"2020 2022 2024": {"even": true},
				"2021":           {"year": 2021},
				"2022 2023":      {"year": object{"gte": 2022, "lte": 2023}},
				"2020 2024":      {"name": object{"in": []string{"r2020", "r2024", "r9"}}},
				"2023 2024":      {"name": object{"gte": "r2023"}},
				"":               {"year": object{"in": []int{}}},
			} {
				var expected []string
				for _, year := range strings.Fields(want) {
					var n int
					_, _ = fmt.Sscan(year, &n)
					expected = append(expected, ids[n])
				}
				found := x.find("swordfish", "filter", object{"metadata": metadata})
				assert.ElementsMatch(x, expected, found, "%v", metadata)
			}
			assert.Equal(x, []string{ids[2020]}, x.find("swordfish", "filter",
				object{"document_ids": []string{ids[2020]}}))
			x.post("/search", object{"query": "x", "filter": object{"metadata": object{"a": object{"b": 1}}}}).
				names("body.filter.metadata.a.b")
		}},
		{Name: "search/shows nobody what is not theirs", Run: func(x *Actor) {
			group := x.post("/groups", object{"name": "g"}).is(201).text("group_id")
			member, outsider := x.colleague("member", "run"), x.colleague("member", "run")
			x.post("/groups/"+group+"/members", object{"user_id": member.User}).is(201)
			open, closed := x.base(), x.base("group_ids", []string{group})
			free := x.document(open, object{"text": "swordfish for everybody"})
			narrow := x.document(open, object{"text": "swordfish for the group", "group_ids": []string{group}})
			hidden := x.document(closed, object{"text": "swordfish of the closed base"})
			assert.ElementsMatch(x, []string{free, narrow, hidden}, x.find("swordfish"))
			assert.ElementsMatch(x, []string{free, narrow, hidden}, member.find("swordfish"))
			assert.Equal(x, []string{free}, outsider.find("swordfish"))
			outsider.post("/search", object{"query": "swordfish", "knowledge_base_ids": []string{closed}}).
				problem(403, "insufficient_permission")
			outsider.get("/knowledge-bases/"+open+"/documents/"+narrow).problem(403, "insufficient_permission")
			assert.Len(x, outsider.get("/knowledge-bases").is(200).list("knowledge_bases"), 1)
			assert.Len(x, outsider.get("/knowledge-bases/"+open+"/documents").is(200).list("documents"), 1)
			x.patch("/knowledge-bases/"+open+"/documents/"+free, object{"group_ids": []string{group}}).is(200)
			assert.Empty(x, outsider.find("swordfish"))
			x.delete("/groups/" + group).is(204)
			x.eventually("the group's end", func() bool { return len(member.find("swordfish")) == 0 })
			assert.Len(x, x.find("swordfish"), 3, "an admin's are all")
		}},
		{Name: "search/what is wrong is named", Run: func(x *Actor) {
			for field, body := range map[string]object{
				"body.knowledge_base_id":  {"query": "x", "knowledge_base_id": "0123456789abcdef01234567"},
				"body.filter.document_id": {"query": "x", "filter": object{"document_id": []string{}}},
				"body.query":              {"query": ""}, "body.mode": {"query": "x", "mode": "telepathy"},
				"body.limit": {"query": "x", "limit": 51}, "body.min_score": {"query": "x", "min_score": 2},
			} {
				x.post("/search", body).names(field)
			}
			x.post("/search", object{"query": "x", "knowledge_base_ids": []string{"0123456789abcdef01234567"}}).
				problem(404, "not_found")
			assert.Empty(x, x.find("x"), "without a base nothing is found")
		}},
	}
}

package scenario

import (
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The owners of files' bytes, and the time of their removal.
func fileScenarios() []Story {
	return []Story{
		{Name: "files/a user lists its files, and deletes those that nothing has", Run: func(x *Actor) {
			member := x.colleague("member", "run")
			before := x.get("/me").is(200)
			held, unused := member.file("mine"), member.file("mine")
			a := member.chat("message", "/ask x", "file_ids", held).is(202)
			me := member.get("/me").is(200)
			assert.Equal(x, []any{2.0, 8.0}, []any{me.number("files", "count"), me.number("files", "bytes")})
			assert.Positive(x, me.number("files", "limit", "bytes"))
			after := x.get("/me").number("files", "count")
			assert.Equal(x, before.number("files", "count"), after, "a user's are its own")
			list := member.get("/files").is(200)
			assert.Len(x, list.list("files"), 2)
			listed := []any{list.text("files", 0, "file_id"), list.text("files", 1, "file_id")}
			assert.Equal(x, []any{unused, held}, listed)
			list = member.get("/files?unused=true").is(200)
			assert.Len(x, list.list("files"), 1)
			assert.NotEmpty(x, list.text("files", 0, "expires_at"))
			member.delete("/files/"+held).problem(409, "conflict")
			x.colleague("manager", "manage").delete("/files/"+unused).problem(403, "insufficient_permission")
			member.delete("/files/" + unused).is(204)
			member.delete("/files/"+unused).problem(404, "not_found")
			member.delete("/chats/" + a.text("chat_id")).is(204)
			x.eventually("the files' ends", func() bool { return member.get("/me").number("files", "count") == 0 })
			assert.Empty(x, member.get("/files").is(200).list("files"))
		}},
		{Name: "files/one that two chats share goes with the second of them", Run: func(x *Actor) {
			file := x.file("the word is swordfish")
			last := x.file("of the first chat alone")
			x.chat("message", "one", "file_ids", file+","+last, "chat_id", "one").is(200)
			x.chat("message", "two", "file_ids", file, "chat_id", "two").is(200)
			x.forget("one", last)
			assert.Equal(x, "the word is swordfish", x.get("/files/"+file).is(200).raw)
			x.forget("two", file)
		}},
		{Name: "files/one that two turns of a chat share, and one that stands twice in a message",
			Run: func(x *Actor) {
				file := x.file("twice")
				a := x.chat("message", "one", "file_ids", file+","+file, "chat_id", "c").is(200)
				last := x.file("of the second turn alone")
				x.chat("message", "two", "file_ids", file+","+last, "chat_id", "c").is(200)
				list := x.get("/chats/" + a.text("chat_id") + "/messages").is(200)
				assert.Len(x, list.list("messages", 0, "files"), 1)
				x.chat("message", "x", "file_ids", file, "chat_id", "other").is(200)
				x.forget("c", last)
				assert.Equal(x, "twice", x.get("/files/"+file).is(200).raw)
				x.forget("other", file)
			}},
		{Name: "files/one that another user uses outlives the user who sent it", Run: func(x *Actor) {
			y := x.colleague("member", "run")
			file, unused := y.file("shared"), y.file("unused")
			last := y.file("of the user's run alone")
			y.chat("message", "mine", "file_ids", file+","+last).is(200)
			x.chat("message", "ours", "file_ids", file, "chat_id", "ours").is(200)
			x.delete("/users/" + y.User).is(204)
			x.eventually("the end of what the user's runs used", func() bool { return x.gone("/files/" + last) })
			x.eventually("the end of what nobody uses", func() bool { return x.gone("/files/" + unused) })
			assert.Equal(x, "shared", x.get("/files/"+file).is(200).raw)
			x.forget("ours", file)
		}},
		{Name: "files/of a parked message that is taken back", Run: func(x *Actor) {
			file, alone := x.file("shared"), x.file("of the parked message alone")
			x.chat("message", "keep", "file_ids", file, "chat_id", "keep").is(200)
			run := x.startLongRun("chat_id", "busy")
			parked := x.chat("message", "later", "file_ids", file+","+alone, "chat_id", "busy", "on_conflict",
				"enqueue").is(202).text("parked", "parked_id")
			x.delete("/runs/" + run + "/parked/" + parked).is(204)
			x.eventually("the end of what nobody uses", func() bool { return x.gone("/files/" + alone) })
			assert.Equal(x, "shared", x.get("/files/"+file).is(200).raw)
			x.stop(run)
		}},
		{Name: "files/of parked messages go with their chat, and of cancelled turns with theirs",
			Run: func(x *Actor) {
				shared := x.file("shared")
				x.chat("message", "keep", "file_ids", shared, "chat_id", "keep").is(200)
				run := x.startLongRun("chat_id", "busy")
				var alone []string
				for i := range 5 {
					pairs := []string{"message", "later", "chat_id", "busy", "on_conflict", "enqueue"}
					for range 9 {
						file := x.file("of parked message " + string(rune('0'+i)))
						alone = append(alone, file)
						pairs = append(pairs, "file_ids", file)
					}
					x.chat(append(pairs, "file_ids", shared)...).is(202)
				}
				x.forget("busy", alone[0])
				for _, file := range alone {
					x.eventually("the file's end", func() bool { return x.gone("/files/" + file) })
				}
				assert.Equal(x, "shared", x.get("/files/"+shared).is(200).raw)
				x.get("/runs/"+run).problem(404, "not_found")

				run = x.startLongRun("chat_id", "again")
				last := x.file("of the cancelled turn alone")
				parked := x.chat("message", "/sleep 1m", "file_ids", shared+","+last, "chat_id", "again", "on_conflict",
					"enqueue").is(202).text("parked", "parked_id")
				x.stop(run)
				x.eventually("the parked turn", func() bool { return x.get("/runs/"+parked).status == 200 })
				x.stop(parked)
				x.forget("again", last)
				assert.Equal(x, "shared", x.get("/files/"+shared).is(200).raw)
				x.forget("keep", shared)
			}},
		{Name: "files/a message that is refused or replayed takes nothing that others use", Run: func(x *Actor) {
			file := x.file("shared")
			x.chat("message", "one", "file_ids", file, "chat_id", "c", "idempotency_key", "k").is(200)
			x.chat("message", "one", "file_ids", file, "chat_id", "c", "idempotency_key", "k").is(200)
			run := x.startLongRun("chat_id", "busy")
			x.chat("message", "two", "file_ids", file, "chat_id", "busy").problem(409, "chat_busy")
			x.chat("message", "two", "file_ids", file, "chat_id", "not a name").names("chat_id")
			x.stop(run)
			assert.Equal(x, "shared", x.get("/files/"+file).is(200).raw)
			x.forget("c", file)
			a := x.chat("message", "x", "file_ids", file).problem(404, "not_found")
			assert.Equal(x, "file_ids[0]", a.text("errors", 0, "location"))
		}},
		{Name: "files/the address to send one to gives no key away", Run: func(x *Actor) {
			a := x.post("/files", object{"name": "a.txt", "content_type": "text/plain"}).is(201)
			assert.NotContains(x, a.raw, x.Key)
			assert.Equal(x, object{"Content-Type": "text/plain"}, a.at("upload", "headers"))
			x.put(a.text("file_id"), strings.NewReader("hello")).is(200)
			assert.Equal(x, "hello", x.get("/files/"+a.text("file_id")).is(200).raw)
			x.put(a.text("file_id"), strings.NewReader("again")).problem(409, "conflict")
			assert.Equal(x, "hello", x.get("/files/"+a.text("file_id")).is(200).raw)
		}},
		{Name: "files/the address to send one to is good for its file and size alone", Run: func(x *Actor) {
			send := func(url, bytes string) reply {
				r, err := http.NewRequestWithContext(x.Context(), http.MethodPut, url, strings.NewReader(bytes))
				require.NoError(x, err)
				return x.do(r)
			}
			announce := func(about object) (id, url string) {
				a := x.post("/files", about).is(201)
				return a.text("file_id"), a.text("upload", "url")
			}
			id, url := announce(object{"name": "a.txt"})
			other, _ := announce(object{"name": "b.txt"})
			path, token, found := strings.Cut(url, "?")
			require.True(x, found)
			for _, wrong := range []string{path, path + "?", strings.Replace(url, id, other, 1), url[:len(url)-1],
				url + "x", path + "?token=x&" + token, path + "/../../" + other + "/content?" + token} {
				assert.Contains(x, []int{401, 404}, send(wrong, "EVIL").status, wrong)
			}
			send(url, "good").is(200)
			send(url, "again").problem(409, "conflict")
			assert.Equal(x, "good", x.get("/files/"+id).is(200).raw)
			x.get("/files/"+other).problem(404, "not_found")
			nobody := x.with("")
			nobody.get("/files/"+id+"?"+token).problem(401, "missing_api_key")
			nobody.post("/files?"+token, object{"name": "c"}).problem(401, "missing_api_key")
			_, secret, _ := strings.Cut(token, "=")
			bearer := x.with(secret)
			bearer.get("/me").problem(403, "insufficient_permission")
			bearer.get("/files/"+id).problem(403, "insufficient_permission")
		}},
		{Name: "files/one that was announced with its size has that size", Run: func(x *Actor) {
			a := x.post("/files", object{"name": "a.txt", "size": 5}).is(201)
			if !strings.Contains(a.text("upload", "url"), "/content?token=") {
				return // a bucket's address: the bucket's own tests hold its size
			}
			send := func(body io.Reader) reply {
				r, err := http.NewRequestWithContext(x.Context(), http.MethodPut, a.text("upload", "url"), body)
				require.NoError(x, err)
				return x.do(r)
			}
			for _, wrong := range []string{"", "four", "sixsix"} {
				send(strings.NewReader(wrong)).names("body")
				send(io.MultiReader(strings.NewReader(wrong))).names("body") // of no known length
			}
			send(io.MultiReader(strings.NewReader("fives"))).is(200)
			assert.Equal(x, "fives", x.get("/files/"+a.text("file_id")).is(200).raw)
		}},
		{Name: "files/what says of itself that it is no media type", Run: func(x *Actor) {
			for _, kind := range []string{"6", "text/plain\r\nX-A: b"} {
				x.post("/files", object{"name": "a", "content_type": kind}).names("body.content_type")
			}
			id := x.post("/files", object{"name": "a"}).is(201).text("file_id")
			x.put(id, strings.NewReader("bytes")).is(200)
			assert.Equal(x, "application/octet-stream", x.get("/files/"+id).is(200).header.Get("Content-Type"))
		}},
		{Name: "files/one that was announced is filled by its user alone", Run: func(x *Actor) {
			user, colleague := x.colleague("member", "run"), x.colleague("member", "run")
			operator := x.operator().Actor
			id := user.post("/files", object{"name": "a.txt", "content_type": "text/plain"}).is(201).text("file_id")
			for _, other := range []*Actor{colleague, x, operator} {
				other.put(id, strings.NewReader("EVIL")).problem(403, "insufficient_permission")
			}
			user.put(id, strings.NewReader("good")).is(200)
			colleague.put(id, strings.NewReader("EVIL")).problem(403, "insufficient_permission")
			user.put(id, strings.NewReader("late")).problem(409, "conflict")
			assert.Equal(x, "good", user.get("/files/"+id).is(200).raw)
		}},
		{Name: "files/a body that stalls cannot change what another has sent", Run: func(x *Actor) {
			for _, good := range []string{"the good one, which is longer", "short"} {
				id := x.post("/files", object{"name": "a.txt", "content_type": "text/plain"}).is(201).text("file_id")
				body, stalled := io.Pipe()
				late := make(chan reply)
				go func() { late <- x.put(id, body) }()
				_, err := io.WriteString(stalled, "a body ")
				require.NoError(x, err)
				sent := x.put(id, strings.NewReader(good)).is(200)
				assert.Equal(x, float64(len(good)), sent.number("size"))
				_, _ = io.WriteString(stalled, "that comes late")
				require.NoError(x, stalled.Close())
				(<-late).problem(409, "conflict")
				read := x.get("/files/" + id).is(200)
				assert.Equal(x, good, read.raw)
				assert.Equal(x, float64(len(good)),
					x.get("/files/"+id, "Accept", "application/json").is(200).number("size"))
			}
		}},
	}
}

// file uploads a file and returns its id.
func (x *Actor) file(content string) string {
	x.Helper()
	body, kind := form("file", "file:"+content)
	return x.do(x.request(http.MethodPost, "/files", body, "Content-Type", kind)).is(201).text("file_id")
}

// put uploads the bytes of an announced file.
func (x *Actor) put(file string, body io.Reader) reply {
	x.Helper()
	return x.do(x.request(http.MethodPut, "/files/"+file+"/content", body, "Content-Type", "application/octet-stream"))
}

// forget deletes a chat and waits until its runs are removed. last is a file that only they use, which is removed last.
func (x *Actor) forget(chat, last string) {
	x.Helper()
	x.delete("/chats/" + chat).is(204)
	x.eventually("the chat's end", func() bool { return x.gone("/files/" + last) })
}

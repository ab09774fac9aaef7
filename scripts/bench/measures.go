package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// each calls do n times from several parallel clients, and returns the duration of each call. The first error ends it.
func each(clients, n int, do func(i int) error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(clients)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		group.Go(func() error {
			began := time.Now()
			defer func() { took[i] = time.Since(began) }()
			return do(i)
		})
	}
	return took, group.Wait()
}

// quantiles formats the median and the 99th percentile.
func quantiles(took []time.Duration) string {
	slices.Sort(took)
	at := func(percent int) time.Duration {
		return took[min(len(took)-1, len(took)*percent/100)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s", at(50), at(99))
}

// firstEvent measures the time from POST to the first line of NDJSON, with one client on an idle system.
func (s *server) firstEvent() error {
	took := make([]time.Duration, 500)
	for i := range took {
		began := time.Now()
		response, err := s.chat("hello", "streaming", "true")
		if err != nil {
			return err
		}
		lines := bufio.NewReader(response.Body)
		if _, err = lines.ReadString('\n'); err == nil {
			took[i] = time.Since(began)
			_, err = io.Copy(io.Discard, lines)
		}
		_ = response.Body.Close()
		if err != nil {
			return err
		}
	}
	row("POST to first streamed event, idle", "%s", quantiles(took))
	return nil
}

// complete posts a message and waits until its run has ended (status 200) or waits for a person (202). It returns the
// run's id.
func (s *server) complete(message string, status int) (string, error) {
	response, err := s.chat(message, "wait", "true")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		ID string `json:"run_id"`
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("a message was answered with %s: %.500s", response.Status, text)
	}
	return answer.ID, err
}

// openStreams measures the memory with many open streams, each of a run that waits for a person.
func (s *server) openStreams() error {
	ids, open := make([]string, *streams), make([]io.Closer, *streams)
	_, err := each(*clients, *streams, func(i int) (err error) {
		ids[i], err = s.complete("/ask Which?", http.StatusAccepted)
		return err
	})
	if err != nil {
		return err
	}
	took, err := each(1, *streams, func(i int) error {
		response, err := s.do(http.MethodGet, "/runs/"+ids[i]+"/stream", "", nil)
		if err == nil {
			open[i] = response.Body
		}
		return err
	})
	if err != nil {
		return err
	}
	rest()
	row(fmt.Sprintf("%d open streams", *streams), "%s; opened in %s each", s.memory(), quantiles(took))
	for _, stream := range open {
		_ = stream.Close()
	}
	return nil
}

// fill completes many runs, and measures each tenth of them.
func (s *server) fill() error {
	tenth := max(1, *runs/10)
	for done := 0; done < *runs; done += tenth {
		used, began := s.stat().CPUTime(), time.Now()
		took, err := each(*clients, tenth, func(int) error {
			_, err := s.complete("hello there", http.StatusOK)
			return err
		})
		if err != nil {
			return err
		}
		row(fmt.Sprintf("%d clients, runs up to %d", *clients, done+tenth),
			"%.0f runs/s, %s, %.2f ms of processor each; %s", float64(tenth)/time.Since(began).Seconds(),
			quantiles(took), 1e3*(s.stat().CPUTime()-used)/float64(tenth), s.memory())
	}
	return nil
}

// filesOfForm is how many documents are uploaded in one form, the most that one may have.
const filesOfForm = 20

// documents measures the time from the upload of documents, by four clients, until search finds them, and the time of
// a search.
func (s *server) documents() error {
	base, err := s.newBase(wordsOfChunk)
	if err != nil {
		return err
	}
	began := time.Now()
	if err = s.fillBase(base, 4, *documents); err != nil {
		return err
	}
	row(fmt.Sprintf("%d small documents until all are found", *documents), "%s; %s",
		time.Since(began).Round(time.Millisecond), s.memory())
	return s.searches("searches of one client", base, nil)
}

// search sends one search.
func (s *server) search(base string, n int) error {
	query := fmt.Sprintf(`{"query":"which light has the keeper of boat %d","knowledge_base_ids":[%q]}`, n, base)
	return s.send(http.MethodPost, "/search", "application/json", strings.NewReader(query), nil)
}

// upload uploads the small documents of a form.
func (s *server) upload(base string, form int) error {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for n := form * filesOfForm; n < (form+1)*filesOfForm; n++ {
		part, err := w.CreateFormFile("file", "note.txt")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(part, "Note %d. The keeper of light number %d writes: the lamp was lit at dusk, the "+
			"wind came from the west, and boat %d lay at the pier all night.", n, n%97, n); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return s.send(http.MethodPost, "/knowledge-bases/"+base+"/documents", w.FormDataContentType(), &b, nil)
}

// ingested waits until all documents of a base can be found. It fails if one failed, and after ten minutes.
func (s *server) ingested(base string) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n, err := s.counts(base)
		switch {
		case err != nil:
			return err
		case n.Failed > 0:
			return s.failed(base)
		case n.Pending+n.Processing == 0:
			return nil
		}
	}
	return fmt.Errorf("the ingestions of base %s did not end", base)
}

// counts returns the number of documents of a base in each status.
func (s *server) counts(base string) (documentCounts, error) {
	var answer struct{ Documents documentCounts }
	err := s.send(http.MethodGet, "/knowledge-bases/"+base, "", nil, &answer)
	return answer.Documents, err
}

// documentCounts is the number of documents in each status.
type documentCounts struct{ Pending, Processing, Ready, Failed int }

// failed returns the error of the first document of a base that has failed.
func (s *server) failed(base string) error {
	var list struct {
		Documents []struct{ Title, Error string }
	}
	if err := s.send(http.MethodGet, "/knowledge-bases/"+base+"/documents?status=failed", "", nil, &list); err != nil {
		return err
	}
	return fmt.Errorf("documents failed: %+v", list.Documents)
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The documents that are ingested.
const (
	smallDocuments = 10_000
	filesOfForm    = 20 // as many as one form may have
	pagesOfLarge   = 100
)

// ingest measures how long documents take from their upload until search finds them: many small ones together, and a
// PDF of many pages on an idle system, before and after what reads PDFs is compiled for the machine.
func (s *server) ingest() error {
	base, err := s.newBase()
	if err != nil {
		return err
	}
	large := largePDF()
	for _, when := range []string{"first", "second"} {
		began := time.Now()
		err := s.upload(base, "large.pdf", [][]byte{append(large, "% "+when...)})
		if err == nil {
			err = s.settled(base)
		}
		if err != nil {
			return err
		}
		row(fmt.Sprintf("a PDF of %d pages until it is ready, %s", pagesOfLarge, when), "%s",
			time.Since(began).Round(time.Millisecond))
	}
	if base, err = s.newBase(); err != nil {
		return err
	}
	began := time.Now()
	if err := s.uploadSmall(base); err != nil {
		return err
	}
	row(fmt.Sprintf("%d small documents until all are accepted", smallDocuments), "%s",
		time.Since(began).Round(time.Millisecond))
	if err := s.settled(base); err != nil {
		return err
	}
	row(fmt.Sprintf("%d small documents until all are ready", smallDocuments), "%s",
		time.Since(began).Round(time.Millisecond))
	row("memory of the process", "%.1f MB", float64(s.resident())/1e6)
	return nil
}

func (s *server) newBase() (string, error) {
	var made struct {
		ID string `json:"knowledge_base_id"`
	}
	err := s.send(http.MethodPost, "/knowledge-bases", "application/json", strings.NewReader(`{"name":"b"}`), &made)
	return made.ID, err
}

// uploadSmall sends all small documents, in forms, by four clients.
func (s *server) uploadSmall(base string) error {
	forms := make(chan [][]byte)
	errs := make(chan error, 4)
	var wg sync.WaitGroup
	for range cap(errs) {
		wg.Go(func() {
			var failed error
			for files := range forms {
				if failed == nil {
					failed = s.upload(base, "note.txt", files)
				}
			}
			errs <- failed
		})
	}
	for n := 0; n < smallDocuments; n += filesOfForm {
		var files [][]byte
		for i := range filesOfForm {
			files = append(files, fmt.Appendf(nil, "Note %d. The keeper of light number %d writes: the lamp was lit "+
				"at dusk, the wind came from the west, and boat %d lay at the pier all night.", n+i, (n+i)%97, n+i))
		}
		forms <- files
	}
	close(forms)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *server) upload(base, name string, files [][]byte) error {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, f := range files {
		part, err := form.CreateFormFile("file", name)
		if err != nil {
			return err
		}
		if _, err := part.Write(f); err != nil {
			return err
		}
	}
	if err := form.Close(); err != nil {
		return err
	}
	return s.send(http.MethodPost, "/knowledge-bases/"+base+"/documents", form.FormDataContentType(), &b, nil)
}

// settled waits until all ingestions of a base have ended, each well.
func (s *server) settled(base string) error {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var told struct {
			Documents struct{ Pending, Processing, Failed int }
		}
		if err := s.send(http.MethodGet, "/knowledge-bases/"+base, "", nil, &told); err != nil {
			return err
		}
		switch n := told.Documents; {
		case n.Failed > 0:
			return fmt.Errorf("%d documents failed", n.Failed)
		case n.Pending+n.Processing == 0:
			return nil
		}
	}
	return fmt.Errorf("the ingestions of base %s did not end", base)
}

// send makes a request that must succeed and reads its answer.
func (s *server) send(method, path, kind string, body io.Reader, into any) error {
	r, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	if s.acting != "" {
		r.Header.Set("X-Organization", s.acting)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %d %s %w", method, path, response.StatusCode, answer, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// largePDF is a PDF of many pages of prose.
func largePDF() []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	kids := ""
	for page := range pagesOfLarge {
		var text strings.Builder
		for line := range 45 {
			fmt.Fprintf(&text, "BT /F 11 Tf 50 %d Td (On page %d, line %d, the keeper of the lighthouse tells of "+
				"wind, weather and boat %d.) Tj ET\n", 780-16*line, page+1, line+1, page*45+line)
		}
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "+
			"/Resources << /Font << /F 3 0 R >> >> >>", len(objects)+2),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", text.Len(), text.String()))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, pagesOfLarge)
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	var table strings.Builder
	for i, o := range objects {
		fmt.Fprintf(&table, "%010d 00000 n \n", b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF\n",
		len(objects)+1, table.String(), len(objects)+1, at)
	return b.Bytes()
}

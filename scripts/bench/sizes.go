package main

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
)

// wordsOfChunk is the default. With it a text of 20 million characters has more chunks than a document may have.
const wordsOfChunk, wordsOfLargeChunk = 220, 300

// poll is the interval at which the sizes measure reads the memory of children and checks whether documents are ready.
const poll = 20 * time.Millisecond

// sizes measures large and many documents, and how bases of one organization share the ingesters. With named files it
// measures only these. Each measure has a new data folder.
func sizes(binary, dir string, files []string) error {
	text, err := prose()
	if err != nil {
		return err
	}
	measures := []func(s *server) error{
		func(s *server) error { return s.large("PDF, 100 pages", "a.pdf", wordsOfChunk, pdf(text, 100)) },
		func(s *server) error { return s.large("PDF, 1,000 pages", "a.pdf", wordsOfChunk, pdf(text, 1000)) },
		func(s *server) error {
			return s.large("text, 20 million characters", "a.txt", wordsOfLargeChunk, cycle(text, 20_000_000))
		},
		(*server).many, (*server).besideMany, (*server).besideHuge,
	}
	if len(files) > 0 {
		measures = nil
	}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // who measures names it
		if err != nil {
			return err
		}
		measures = append(measures, func(s *server) error {
			return s.large(filepath.Base(file), file, wordsOfChunk, content)
		})
	}
	for n, measure := range measures {
		s, err := start(binary, filepath.Join(dir, strconv.Itoa(n)))
		if err != nil {
			return err
		}
		err = measure(s)
		s.stop(os.Interrupt)
		if err != nil {
			return err
		}
	}
	return nil
}

// prose returns the text of this project's documents, in ASCII.
func prose() (string, error) {
	files, err := filepath.Glob("docs/*.md")
	var all strings.Builder
	for _, file := range files {
		content, wrong := os.ReadFile(file) //nolint:gosec // a name that was found
		if wrong != nil {
			return "", wrong
		}
		for _, r := range string(content) {
			if r == '\n' || r >= ' ' && r <= '~' {
				_, _ = all.WriteRune(r)
			}
		}
	}
	return all.String(), err
}

// cycle repeats a text up to a number of bytes.
func cycle(text string, most int) []byte {
	return []byte(strings.Repeat(text, most/len(text)+1)[:most])
}

// pdf makes a PDF with 45 lines of the words of a text on each page.
func pdf(text string, pages int) []byte {
	const lines, wordsOfLine = 45, 10
	words := strings.Fields(strings.NewReplacer(`\`, " ", "(", " ", ")", " ").Replace(text))
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		_, _ = fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), fmt.Sprintf(format, args...))
	}
	_, _ = b.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	kids := make([]string, pages)
	for n := range kids {
		kids[n] = fmt.Sprintf("%d 0 R", 4+2*n)
	}
	object("<< /Type /Pages /Count %d /Kids [%s] >>", pages, strings.Join(kids, " "))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for n := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "+
			"/Resources << /Font << /F1 3 0 R >> >> >>", 5+2*n)
		var page strings.Builder
		_, _ = fmt.Fprintf(&page, "BT /F1 9 Tf 40 800 Td 16 TL (Page %d) Tj T*", n+1)
		for line := range lines {
			first := (n*lines + line) * wordsOfLine % (len(words) - wordsOfLine)
			_, _ = fmt.Fprintf(&page, " (%s) Tj T*", strings.Join(words[first:first+wordsOfLine], " "))
		}
		_, _ = page.WriteString(" ET")
		object("<< /Length %d >>\nstream\n%s\nendstream", page.Len(), page.String())
	}
	xref := b.Len()
	_, _ = fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		_, _ = fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	_, _ = fmt.Fprintf(&b, "trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

// used has the resources that the process and its children have used since it was made.
type used struct {
	s       *server
	began   time.Time
	cpu     procfs.ProcStat
	done    chan struct{}
	waiting sync.WaitGroup
	child   uint64 // bytes
}

// use begins to measure. The peak of the process counts from now on.
func (s *server) use() *used {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid), []byte("5"), 0)
	u := &used{s: s, began: time.Now(), cpu: s.stat(), done: make(chan struct{})}
	u.waiting.Go(func() {
		for {
			select {
			case <-u.done:
				return
			case <-time.After(poll):
				u.child = max(u.child, peakOfChildren(s.command.Process.Pid))
			}
		}
	})
	return u
}

// end ends the measure and returns its summary.
func (u *used) end() string {
	took := time.Since(u.began)
	close(u.done)
	u.waiting.Wait()
	const ticks = 100 // of /proc in a second
	now := u.s.stat()
	children := float64(now.CUTime+now.CSTime-u.cpu.CUTime-u.cpu.CSTime) / ticks
	return fmt.Sprintf("%.2f s, processor %.2f s and children %.2f s; peak %.0f MB, child %.0f MB",
		took.Seconds(), now.CPUTime()-u.cpu.CPUTime(), children, float64(peak(u.s.command.Process.Pid))/1e6,
		float64(u.child)/1e6)
}

// peak returns the most memory that a process had resident, in bytes.
func peak(pid int) uint64 {
	if p, err := procfs.NewProc(pid); err == nil {
		if status, err := p.NewStatus(); err == nil {
			return status.VmHWM
		}
	}
	return 0
}

// peakOfChildren returns the highest peak of the present children of a process, in bytes.
func peakOfChildren(pid int) (most uint64) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		content, _ := os.ReadFile(list) //nolint:gosec // a thread may have ended: then it has none
		for _, child := range strings.Fields(string(content)) {
			var id int
			_, _ = fmt.Sscan(child, &id)
			most = max(most, peak(id))
		}
	}
	return most
}

// newBase makes a knowledge base with chunks of the given number of words.
func (s *server) newBase(chunk int) (string, error) {
	var base struct {
		ID string `json:"knowledge_base_id"`
	}
	body := fmt.Sprintf(`{"name":"b","chunking":{"size":%d,"overlap":40}}`, chunk)
	err := s.send(http.MethodPost, "/knowledge-bases", "application/json", strings.NewReader(body), &base)
	return base.ID, err
}

// put uploads one file.
func (s *server) put(base, name string, content []byte) error {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", filepath.Base(name))
	if err != nil {
		return err
	}
	_, _ = part.Write(content)
	_ = w.Close()
	return s.send(http.MethodPost, "/knowledge-bases/"+base+"/documents", w.FormDataContentType(), &b, nil)
}

// large measures one document from its upload until it is ready.
func (s *server) large(what, name string, words int, content []byte) error {
	if filepath.Ext(name) == ".pdf" { // the first PDF of a process has to find the compiled reader
		first, err := s.newBase(words)
		if err == nil {
			err = s.put(first, "first.pdf", pdf(strings.Repeat("word ", 20), 1))
		}
		if err == nil {
			err = s.ingested(first)
		}
		if err != nil {
			return err
		}
	}
	base, err := s.newBase(words)
	if err != nil {
		return err
	}
	u := s.use()
	if err := s.put(base, name, content); err != nil {
		return err
	}
	d, stages, err := s.follow(base)
	if err != nil {
		return err
	}
	row(what, "%.1f MB, %d pages, %d chunks: %s", float64(len(content))/1e6, d.Pages, d.Chunks, u.end())
	row("  its stages", "%s", stages)
	return nil
}

// oneDocument has the fields of a document that the measures read.
type oneDocument struct {
	Status, Stage, Error string
	Pages                int `json:"page_count"`
	Chunks               int `json:"chunk_count"`
}

// follow waits until the only document of a base is ready. It also returns the time in each stage.
func (s *server) follow(base string) (d oneDocument, stages string, err error) {
	took, last := map[string]time.Duration{}, time.Now()
	for d.Status != "ready" {
		time.Sleep(poll)
		var list struct{ Documents []oneDocument }
		if err := s.send(http.MethodGet, "/knowledge-bases/"+base+"/documents", "", nil, &list); err != nil {
			return d, "", err
		}
		if d = list.Documents[0]; d.Status == "failed" {
			return d, "", errors.New(d.Error)
		}
		now := time.Now()
		took[d.Stage] += now.Sub(last)
		last = now
	}
	for _, stage := range []string{"extracting", "chunking", "embedding", "indexing"} {
		stages += fmt.Sprintf("%s %.2f s  ", stage, took[stage].Seconds())
	}
	return d, stages, nil
}

// fillBase uploads small documents from several parallel clients, and waits until all are ready.
func (s *server) fillBase(base string, clients, documents int) error {
	_, err := each(clients, documents/filesOfForm, func(form int) error { return s.upload(base, form) })
	if err != nil {
		return err
	}
	return s.ingested(base)
}

// many measures many small documents, and the size of their data.
func (s *server) many() error {
	base, err := s.newBase(wordsOfChunk)
	if err != nil {
		return err
	}
	before, u := sizeOf(s.data), s.use()
	if err := s.fillBase(base, 8, *documents); err != nil {
		return err
	}
	row(fmt.Sprintf("%d small documents, 8 clients", *documents), "%s; %.0f MB on disk", u.end(),
		float64(sizeOf(s.data)-before)/1e6)
	return nil
}

// besideMany measures 240 small documents of a base, alone and while another base of the organization imports 6,000,
// and searches of both.
func (s *server) besideMany() error {
	const few, many = 240, 6000
	b, aloneUpload, alone, err := s.few(few)
	if err != nil {
		return err
	}
	if err := s.searches("searches in 240 documents, idle", b, nil); err != nil {
		return err
	}
	a, err := s.newBase(wordsOfChunk)
	if err != nil {
		return err
	}
	var group errgroup.Group
	ended := make(chan struct{})
	began := time.Now()
	var all time.Duration
	group.Go(func() error {
		defer close(ended)
		err := s.fillBase(a, 8, many)
		all = time.Since(began)
		return err
	})
	time.Sleep(3 * time.Second) // the import is well under way
	before, err := s.counts(a)
	if err != nil {
		return err
	}
	b, besideUpload, beside, err := s.few(few)
	if err != nil {
		return err
	}
	after, err := s.counts(a)
	if err != nil {
		return err
	}
	if err := s.searches("searches in 240 documents, during the import", b, ended); err != nil {
		return err
	}
	if err := group.Wait(); err != nil {
		return err
	}
	row("240 small documents", "alone %.2f s, uploads %.2f s; during an import of 6,000 in %.1f s: %.2f s, "+
		"uploads %.2f s (%.1f times)", alone.Seconds(), aloneUpload.Seconds(), all.Seconds(), beside.Seconds(),
		besideUpload.Seconds(), beside.Seconds()/alone.Seconds())
	row("  meanwhile ready of the import", "%d", after.Ready-before.Ready)
	return nil
}

// few makes a base of small documents, and returns it with the time until all are uploaded, and until all are ready.
func (s *server) few(documents int) (base string, upload, took time.Duration, err error) {
	base, err = s.newBase(wordsOfChunk)
	if err != nil {
		return base, 0, 0, err
	}
	began := time.Now()
	_, err = each(1, documents/filesOfForm, func(form int) error { return s.upload(base, form) })
	upload = time.Since(began)
	if err == nil {
		err = s.ingested(base)
	}
	return base, upload, time.Since(began), err
}

// searches measures searches of one client in a base: 500, or until something has ended.
func (s *server) searches(what, base string, ended chan struct{}) error {
	var took []time.Duration
	for range 500 {
		select {
		case <-ended:
			row(what, "%d: %s", len(took), quantiles(took))
			return nil
		default:
		}
		one, err := each(1, 1, func(int) error { return s.search(base, len(took)) })
		if err != nil {
			return err
		}
		took = append(took, one...)
	}
	row(what, "%d: %s", len(took), quantiles(took))
	return nil
}

// besideHuge measures 20 small documents while another base of the organization ingests four of 6,000 chunks.
func (s *server) besideHuge() error {
	_, _, alone, err := s.few(filesOfForm)
	if err != nil {
		return err
	}
	text, err := prose()
	if err != nil {
		return err
	}
	a, err := s.newBase(wordsOfChunk)
	if err != nil {
		return err
	}
	u := s.use()
	for n := range 4 {
		if err := s.put(a, "a.txt", append(fmt.Appendf(nil, "Copy %d\n", n), cycle(text, 5_100_000)...)); err != nil {
			return err
		}
	}
	var worst time.Duration
	for range 3 {
		time.Sleep(2 * time.Second)
		_, _, took, err := s.few(filesOfForm)
		if err != nil {
			return err
		}
		worst = max(worst, took)
	}
	if err := s.ingested(a); err != nil {
		return err
	}
	row("20 small documents", "alone %.2f s; beside 4 huge ones at most %.2f s", alone.Seconds(), worst.Seconds())
	row("  the huge ones", "%s", u.end())
	return nil
}

package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"
)

// A PDF is a program, and its reader trusts it: a few bytes may ask for any amount of memory and time. So it is read by a process of
// its own, this very program with nothing in its environment but apart, which is ended when it takes too much of either.
const (
	apart      = "AGENTPLATFORM_READS_A_PDF"
	pdfTime    = 10 * time.Second
	pdfMemory  = 256 << 20 // bytes on top of what the process begins with
	pdfsAtOnce = 2         // in the whole process, whoever sent them
	pdfWait    = time.Minute
)

// reading has a place for each PDF that is being read.
var reading = make(chan struct{}, pdfsAtOnce)

func init() {
	if os.Getenv(apart) != "" {
		readApart()
	}
}

// readApart is the other process: a PDF comes in, its text goes out, or why there is none.
func readApart() {
	runtime.GOMAXPROCS(1)
	debug.SetMemoryLimit(pdfMemory / 2) // the collector is in no hurry otherwise
	err := limitMemory(pdfMemory)
	var data []byte
	if err == nil {
		data, err = io.ReadAll(os.Stdin)
	}
	var text string
	if err == nil {
		text, err = pages(data)
	}
	if err == nil {
		_, err = io.WriteString(os.Stdout, text)
	}
	if err != nil {
		_, _ = fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ofPDF reads the text of a PDF's pages.
func ofPDF(ctx context.Context, data []byte) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("extract: %w", err)
	}
	wait, stop := context.WithTimeout(ctx, pdfWait)
	defer stop()
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-wait.Done():
		return "", errors.Join(errors.New("extract: too many PDFs are being read"), ctx.Err())
	}
	limited, cancel := context.WithTimeout(ctx, pdfTime)
	defer cancel()
	reader := exec.CommandContext(limited, program)
	reader.Env = []string{apart + "=1"}
	reader.Stdin = bytes.NewReader(data)
	out, err := reader.Output()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return string(out), nil
	case ctx.Err() != nil: // whoever asked has given up
		return "", fmt.Errorf("extract: %w", ctx.Err())
	case limited.Err() != nil:
		return "", fmt.Errorf("extract: the PDF takes more than %s to read", pdfTime)
	case !errors.As(err, &ended):
		return "", fmt.Errorf("extract: %w", err)
	case ended.ExitCode() == 1:
		return "", fmt.Errorf("extract: the PDF cannot be read: %s", ended.Stderr)
	default: // what the runtime says of its end goes on for pages
		return "", fmt.Errorf("extract: the PDF takes more than %d MiB to read, or breaks its reader", pdfMemory>>20)
	}
}

// pages reads page after page until there is enough.
func pages(data []byte) (text string, err error) {
	defer func() {
		if broken := recover(); broken != nil { // as the library tells faults of a document
			err = fmt.Errorf("%v", broken)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	var c collector
	for i := 1; i <= r.NumPage() && !c.full; i++ {
		if i > 1 {
			c.add("\n\n")
		}
		c.add(page(r.Page(i).Content().Text))
	}
	if strings.TrimSpace(c.String()) == "" {
		return "", errors.New("it has no text, perhaps it was scanned")
	}
	return c.text(), nil
}

// page puts glyphs together, in the order in which the document draws them: another height is another line, a gap is a space, a wide
// one a tab.
func page(glyphs []pdf.Text) string {
	var b strings.Builder
	var last pdf.Text
	for _, g := range glyphs {
		if g.S == "\n" || g.S == "\uFFFD" {
			continue // the library ends pieces so
		}
		size := math.Abs(g.FontSize)
		if last.S != "" {
			gap := g.X - (last.X + last.W)
			switch {
			case math.Abs(g.Y-last.Y) > size/2:
				b.WriteString("\n")
			case gap > 3*size:
				b.WriteString("\t")
			case last.W > 0 && gap > size/5 && last.S != " " && g.S != " ":
				b.WriteString(" ")
			}
		}
		b.WriteString(g.S)
		last = g
	}
	return b.String()
}

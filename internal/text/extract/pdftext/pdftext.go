// Package pdftext reads the text of PDFs, page by page, with PDFium compiled to WebAssembly. The sandbox bounds the
// memory of PDFium, and a broken file breaks nothing outside of it.
//
// The module takes seconds to compile for a machine, and 20 MiB once it is. [Load] keeps the result in a folder, from
// which it takes it in a fraction of a second.
//
// It must not know who calls it, in which process it runs or how time is limited there. It imports document, for
// the kinds of parts, PDFium's wrapper and the WebAssembly runtime wazero.
package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// The errors.
var (
	ErrPassword = errors.New("pdftext: the document has a password")
	ErrInvalid  = errors.New("pdftext: it is no PDF, or a broken one")
	ErrPage     = errors.New("pdftext: the page is broken")
	ErrTooMuch  = errors.New("pdftext: it takes too much memory, or breaks the reader")
)

// wait is for an instance, of which there is one for each document.
const wait = time.Minute

// sandbox is the memory of an instance: all that it may have, of which the machine gives what is used. What grew would
// be copied, and be there twice meanwhile.
type sandbox []byte

// Allocate makes a sandbox the memory of an instance, of which there is one.
func (s sandbox) Allocate(_, _ uint64) experimental.LinearMemory { return s }

// Reallocate returns the first size bytes; nil: it may not have as many.
func (s sandbox) Reallocate(size uint64) []byte {
	if size > uint64(len(s)) {
		return nil
	}
	return s[:size]
}

// Free leaves the memory to who reserved it.
func (sandbox) Free() {}

// reserve maps memory outside of the heap: Go's takes up to 128 MiB more of a process's addresses for it, and its
// garbage collector would run the more often.
func reserve(bytes int) (sandbox, error) {
	return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

func (s sandbox) release() error { return syscall.Munmap(s) }

// instance is PDFium in a sandbox.
type instance struct {
	pdfium.Pdfium
	pool pdfium.Pool
}

func open(ctx context.Context, folder string) (instance, error) {
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return instance{}, fmt.Errorf("pdftext: %w", err)
	}
	config := wazero.NewRuntimeConfig().WithCompilationCache(cache).
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling)
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MinIdle: 1, MaxIdle: 1, MaxTotal: 1, ReuseWorkers: true, RuntimeConfig: config,
		FSConfig: wazero.NewFSConfig(), // without any file
		Stdout:   io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return instance{}, fmt.Errorf("pdftext: %w", err)
	}
	in, err := pool.GetInstance(wait)
	if err != nil {
		return instance{}, errors.Join(fmt.Errorf("pdftext: %w", err), pool.Close())
	}
	return instance{in, pool}, nil
}

func (in instance) close() error { return in.pool.Close() }

// Document is a PDF, or a place for one. It is used by one goroutine.
type Document struct {
	Title, Language string // as the document says itself; empty: it says nothing
	Pages           int

	in     instance
	inside sandbox
	doc    references.FPDF_DOCUMENT
}

// Load makes PDFium ready for one document, for which it takes up to so many bytes of memory, in addition to the
// document's own. The module is compiled into a folder unless it is there, which takes some seconds of all CPUs and
// about 400 MiB. What is broken there is an error; an empty folder ends that. The caller closes what is returned.
func Load(folder string, memory int) (*Document, error) {
	inside, err := reserve(memory)
	if err != nil {
		return nil, fmt.Errorf("pdftext: %w", err)
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.NumCPU())
	in, err := open(experimental.WithMemoryAllocator(ctx, inside), folder)
	if err != nil {
		return nil, errors.Join(err, inside.release())
	}
	return &Document{in: in, inside: inside}, nil
}

// Open opens a PDF, once. The error is [ErrPassword], [ErrInvalid] or [ErrTooMuch].
func (d *Document) Open(data []byte) error {
	if len(data) == 0 {
		return ErrInvalid
	}
	opened, err := d.in.OpenDocument(&requests.OpenDocument{
		FileReader: bytes.NewReader(data), FileReaderSize: int64(len(data)),
	})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return ErrPassword
	case errors.Is(err, pdfiumerrors.ErrFile), errors.Is(err, pdfiumerrors.ErrFormat),
		errors.Is(err, pdfiumerrors.ErrPage), errors.Is(err, pdfiumerrors.ErrUnknown),
		errors.Is(err, pdfiumerrors.ErrSuccess): // it has failed, and PDFium does not say how
		return ErrInvalid
	case err != nil:
		return ErrTooMuch
	}
	d.doc = opened.Document
	count, err := d.in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: d.doc})
	if err != nil {
		return ErrTooMuch
	}
	d.Pages = count.PageCount
	// What a document says of itself may be missing.
	if said, err := d.in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: d.doc, Tag: "Title"}); err == nil {
		d.Title = strings.ToValidUTF8(said.Value, "")
	}
	var said *responses.FPDFCatalog_GetLanguage
	if said, err = d.in.FPDFCatalog_GetLanguage(&requests.FPDFCatalog_GetLanguage{Document: d.doc}); err == nil {
		d.Language = strings.ToValidUTF8(said.Language, "")
	}
	return nil
}

// Close gives the memory of PDFium back.
func (d *Document) Close() error { return errors.Join(d.in.close(), d.inside.release()) }

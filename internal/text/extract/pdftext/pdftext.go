// Package pdftext reads the text of PDFs, page by page, with PDFium compiled to WebAssembly. The sandbox bounds the
// memory of PDFium, and a broken file breaks nothing outside of it.
//
// The module takes seconds to compile for a machine, and has 20 MiB after that. [Compile] keeps the result in a folder.
// [Open] loads it from there in a fraction of a second.
//
// It must not know who calls it, in which process it runs or how time is limited there. It imports document, for the
// kinds of parts, PDFium's wrapper and the WebAssembly runtime wazero.
package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
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
	ErrPassword   = errors.New("pdftext: the document has a password")
	ErrInvalid    = errors.New("pdftext: it is no PDF, or a broken one")
	ErrPage       = errors.New("pdftext: the page is broken")
	ErrTooMuch    = errors.New("pdftext: it takes too much memory, or breaks the reader")
	ErrUncompiled = errors.New("pdftext: the reader has not been compiled, or is broken")
)

const (
	wait      = time.Minute // for an instance, of which there is one for each document
	minModule = 1 << 20     // bytes of a compiled module; a host module has less
)

// Compile compiles the module into a folder, unless it is there. It takes some seconds of several CPUs and about 400
// MiB. A broken module in the folder is an error; compile into an empty folder then.
func Compile(ctx context.Context, folder string, workers int) error {
	in, err := open(experimental.WithCompilationWorkers(ctx, workers), folder)
	if err != nil {
		return err
	}
	return in.close()
}

// Compiled reports whether a module was compiled into a folder. Only [Compile] finds out whether it fits this machine.
func Compiled(folder string) bool {
	found := false
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".tmp") {
			return nil //nolint:nilerr // what cannot be read is not there
		}
		if info, err := d.Info(); err == nil && info.Size() >= minModule {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// sandbox is the memory of an instance. It has its full size from the start, and the machine allocates the used part.
// Memory that grew would be copied, and would meanwhile exist twice.
type sandbox []byte

// Allocate makes a sandbox the memory of an instance. Each instance has one memory.
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

// Document is a PDF that is open. It is used by one goroutine.
type Document struct {
	Title, Language string // as the document gives it; may be empty
	Pages           int

	in     instance
	inside sandbox
	doc    references.FPDF_DOCUMENT
}

// Open opens a PDF; PDFium takes up to so many bytes of memory for it, in addition to data. Its caller closes it.
//
// The error is [ErrPassword], [ErrInvalid] or [ErrTooMuch] for faults of the data. It is [ErrUncompiled] if the module
// in folder is missing or broken.
func Open(ctx context.Context, data []byte, folder string, memory int) (*Document, error) {
	if !Compiled(folder) {
		return nil, ErrUncompiled
	}
	if len(data) == 0 {
		return nil, ErrInvalid
	}
	inside, err := reserve(memory)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooMuch, err)
	}
	in, err := open(experimental.WithMemoryAllocator(ctx, inside), folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUncompiled, err), inside.release())
	}
	d := &Document{in: in, inside: inside}
	if err := d.load(data); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Document) load(data []byte) error {
	opened, err := d.in.OpenDocument(&requests.OpenDocument{
		FileReader: bytes.NewReader(data), FileReaderSize: int64(len(data)),
	})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return ErrPassword
	case errors.Is(err, pdfiumerrors.ErrFile), errors.Is(err, pdfiumerrors.ErrFormat),
		errors.Is(err, pdfiumerrors.ErrPage), errors.Is(err, pdfiumerrors.ErrUnknown),
		errors.Is(err, pdfiumerrors.ErrSuccess): // it has failed, and PDFium gives no reason
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
	// Title and language may be missing.
	if title, err := d.in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: d.doc, Tag: "Title"}); err == nil {
		d.Title = strings.ToValidUTF8(title.Value, "")
	}
	var language *responses.FPDFCatalog_GetLanguage
	if language, err = d.in.FPDFCatalog_GetLanguage(&requests.FPDFCatalog_GetLanguage{Document: d.doc}); err == nil {
		d.Language = strings.ToValidUTF8(language.Language, "")
	}
	return nil
}

// Close gives the memory of PDFium back.
func (d *Document) Close() error { return errors.Join(d.in.close(), d.inside.release()) }

package extract

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"agentplatform/internal/text/extract/pdftext"
)

// What reads PDFs is compiled for this machine once, which takes a child some seconds and half a GiB. It is kept in a
// folder of the user's cache (where there is none, of the temporary files), where later processes find it.
const (
	compiledFolder = "agentplatform-pdf" // in the user's folder for what can be made again
	maxCompile     = 5 * time.Minute     // of elapsed time: seconds, but of a CPU that may be busy or a fraction of one
)

// errUncompiled is not a fault of the file.
var errUncompiled = errors.New("what reads PDFs cannot be compiled")

// pdfFolder makes the folder.
var pdfFolder = privateFolder

// compiling is held by a PDF that may be the first, until compiled is true: else two would compile at the same time.
var (
	compiling = semaphore.NewWeighted(1)
	compiled  atomic.Bool
)

// loadPDFium gives a child the reader of a PDF, from the folder or compiled into it. A broken one is removed first.
// Then the child is like others: it has one CPU, and no memory of the compiler.
func loadPDFium(folder string, memory int) (*pdftext.Document, error) {
	d, err := pdftext.Load(folder, memory)
	if err != nil {
		if err = errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err == nil {
			d, err = pdftext.Load(folder, memory)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUncompiled, err)
	}
	runtime.GOMAXPROCS(1)
	debug.FreeOSMemory()
	return d, nil
}

// privateFolder makes a folder in which only this user can have put something: what lies there is executed.
func privateFolder() (string, error) {
	cache, _ := os.UserCacheDir() // empty: there is none
	var wrong error
	for _, in := range []string{cache, os.TempDir()} {
		folder := filepath.Join(in, compiledFolder)
		err := os.MkdirAll(in, 0o700)
		if err == nil {
			err = makePrivate(folder)
		}
		if err == nil {
			return folder, nil
		}
		wrong = errors.Join(wrong, err)
	}
	return "", wrong
}

func makePrivate(folder string) error {
	if err := os.Mkdir(folder, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwn(info) {
		return fmt.Errorf("%s is not a folder of this user alone", folder)
	}
	return nil
}

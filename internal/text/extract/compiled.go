package extract

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"agentplatform/internal/text/extract/pdftext"
)

// compiling is the format of the job that reads no file: it compiles the module that reads PDFs.
const compiling format = "compiling"

const (
	compiledFolder = "agentplatform-pdf" // in the user's folder for what can be made again
	maxCompile     = 5 * time.Minute     // of elapsed time: seconds, but of a CPU that may be busy or a fraction of one
	uncompiled     = 3                   // the exit code of a child that did not find what reads PDFs
)

// pdfReader is the compiled module that reads PDFs in the children of this process. It is compiled for this machine
// once, which takes a child process some seconds and half a GiB. It is kept in a folder of the user's cache, or of the
// temporary files if there is no cache. Later processes find it there.
var pdfReader = newCompiled(privateFolder)

// compiled knows whether what reads PDFs has been compiled.
type compiled struct {
	in     func() (string, error) // makes the folder
	turn   chan struct{}          // holds one value while nobody compiles
	folder string                 // of who has the turn; empty: not known to be ready
}

func newCompiled(in func() (string, error)) *compiled {
	c := &compiled{in: in, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// ready returns the folder, after the module has been compiled into it. The first caller compiles, the others wait.
// With again it is compiled once more, because a child found it missing or broken. The error is that of ctx, of the
// folder, or of the child.
func (c *compiled) ready(ctx context.Context, again bool) (string, error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	if c.folder != "" && !again {
		return c.folder, nil
	}
	folder, err := c.in()
	if err != nil {
		return "", fmt.Errorf("extract: %w", err)
	}
	if err := compileInChild(ctx, folder); err != nil {
		return "", err
	}
	c.folder = folder
	return folder, nil
}

// known returns the folder if it is known to be ready. It does not wait.
func (c *compiled) known() string {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
		return c.folder
	default:
		return ""
	}
}

// compileInChild compiles into a folder in a child process: when the process ends, all of that memory is free again.
func compileInChild(ctx context.Context, folder string) error {
	limited, cancel := context.WithTimeout(ctx, maxCompile)
	defer cancel()
	stderr := &bounded{most: maxNotes}
	child, err := job{Format: compiling, Compiled: folder}.command(limited)
	if err != nil {
		return fmt.Errorf("extract: %w", err)
	}
	child.Stderr = stderr
	if err := child.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("extract: %w", ctx.Err())
		}
		return fmt.Errorf("extract: what reads PDFs cannot be compiled: %w: %s", err, stderr.text())
	}
	return nil
}

// compileMain is the main function of that child. It first removes broken files from the folder.
func compileMain(folder string) {
	time.AfterFunc(2*maxCompile, func() { os.Exit(2) })
	err := pdftext.Compile(context.Background(), folder, runtime.NumCPU())
	if err != nil {
		err = errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700))
		if err == nil {
			err = pdftext.Compile(context.Background(), folder, runtime.NumCPU())
		}
	}
	if err != nil {
		_, _ = fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// privateFolder makes a folder in which only this user can have put files: the files in it are executed.
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

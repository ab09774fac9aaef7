//go:build !unix

package pdftext

func reserve(bytes int) (sandbox, error) { return make(sandbox, bytes), nil }

func (sandbox) release() error { return nil }

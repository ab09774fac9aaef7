package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Failure is why a server could not be reached, in words that name neither it nor any address or resolver on the way: those who
// read it may be strangers to the network that we are in.
type Failure struct {
	Why   string
	cause error
}

func (f *Failure) Error() string { return f.Why }
func (f *Failure) Unwrap() error { return f.cause }

// reasons are the causes that are told apart, first those that others may be wrapped in.
var reasons = []struct {
	is  func(error) bool
	why string
}{
	{one(ErrForbidden), "this address may not be reached"},
	{one(context.DeadlineExceeded, os.ErrDeadlineExceeded), "no answer came in time"},
	{one(context.Canceled), "it was given up"},
	{a[*net.DNSError], "its name cannot be resolved"},
	{one(syscall.ECONNREFUSED), "the connection was refused"},
	{one(syscall.ENETUNREACH, syscall.EHOSTUNREACH), "there is no way to it"},
	{one(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed), "the connection broke off"},
	{a[x509.HostnameError], "its certificate is for another name"},
	{a[x509.UnknownAuthorityError], "its certificate is of an unknown authority"},
	{a[x509.CertificateInvalidError], "its certificate is not valid"},
	{a[*tls.CertificateVerificationError], "its certificate cannot be verified"},
	{a[tls.RecordHeaderError], "it speaks no TLS"},
	{a[tls.AlertError], "it speaks no TLS that we do"},
	{one(http.ErrSchemeMismatch), "it speaks no TLS"},
	{func(err error) bool { timed, ok := errors.AsType[net.Error](err); return ok && timed.Timeout() }, "no answer came in time"},
	{a[*net.OpError], "the connection failed"},
	{a[*net.AddrError], "its address is none"},
}

func one(of ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range of {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func a[T error](err error) bool {
	_, is := errors.AsType[T](err)
	return is
}

// Plain says why a request failed. What is no failure of a network it does not know: ok is false, and the words say no more than
// that it failed.
func Plain(err error) (failure *Failure, ok bool) {
	for _, r := range reasons {
		if r.is(err) {
			return &Failure{r.why, err}, true
		}
	}
	return &Failure{"the request failed", err}, false
}

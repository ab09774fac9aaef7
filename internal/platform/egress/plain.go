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
	"slices"
	"syscall"
)

// Failure is the reason why a server could not be reached. Its text names no server, address or resolver, because users
// see it, and they may not know our network. It wraps the cause.
type Failure struct {
	Why   string
	cause error
}

func (f *Failure) Error() string { return f.Why }
func (f *Failure) Unwrap() error { return f.cause }

// reasons are the recognized causes; causes that wrap others come later.
var reasons = []struct {
	is  func(error) bool
	why string
}{
	{isAny(ErrForbidden), "this address is not allowed"},
	{isAny(context.DeadlineExceeded, os.ErrDeadlineExceeded), "no answer came in time"},
	{isAny(context.Canceled), "the request was cancelled"},
	{isType[*net.DNSError], "the host name cannot be resolved"},
	{isAny(syscall.ECONNREFUSED), "the connection was refused"},
	{isAny(syscall.ENETUNREACH, syscall.EHOSTUNREACH), "no route leads to the server"},
	{isAny(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed),
		"the connection was closed early"},
	{isType[x509.HostnameError], "the server's certificate is for another name"},
	{isType[x509.UnknownAuthorityError], "the server's certificate is from an unknown authority"},
	{isType[x509.CertificateInvalidError], "the server's certificate is not valid"},
	{isType[*tls.CertificateVerificationError], "the server's certificate cannot be verified"},
	{isType[tls.RecordHeaderError], "the server does not support TLS"},
	{isType[tls.AlertError], "the server and this service have no common TLS version or cipher"},
	{isAny(http.ErrSchemeMismatch), "the server does not support TLS"},
	{func(err error) bool { timed, ok := errors.AsType[net.Error](err); return ok && timed.Timeout() },
		"no answer came in time"},
	{isType[*net.OpError], "the connection failed"},
	{isType[*net.AddrError], "the address is not valid"},
}

func isAny(of ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(of, func(target error) bool { return errors.Is(err, target) })
	}
}

func isType[T error](err error) bool {
	_, is := errors.AsType[T](err)
	return is
}

// Plain returns the failure of a request, for users. ok is false if err is not a network failure: then the text is only
// that the request failed.
func Plain(err error) (failure *Failure, ok bool) {
	for _, r := range reasons {
		if r.is(err) {
			return &Failure{r.why, err}, true
		}
	}
	return &Failure{"the request failed", err}, false
}

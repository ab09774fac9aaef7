package model

import (
	"errors"
	"net/http"

	"agentplatform/internal/providerhttp"
)

// Redact returns a failure whose text may be shown to whoever waits for the run: [providerhttp.Redact] says what is
// removed. The log gets the text with addresses but without credentials; see [Unredacted]. The result has the kind and
// the wait of err. An error that is no [Error] is returned as it is.
func Redact(err error, address string, sent http.Header) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	shown, whole := providerhttp.Redact(err.Error(), address, sent)
	return &Error{Kind: e.Kind, Wait: e.Wait, Err: errors.New(shown), whole: whole}
}

// Unredacted is the text of a failure for the log.
func Unredacted(err error) string {
	var e *Error
	if errors.As(err, &e) && e.whole != "" {
		return e.whole
	}
	return err.Error()
}

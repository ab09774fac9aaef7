package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"agentplatform/internal/platform/problem"
)

// IdempotencyKey is the header with a request's idempotency key.
const IdempotencyKey = "Idempotency-Key"

// KeyOf is the idempotency key of the request of a context: that of its header, or own, the value of its field in the
// body. Blank values count as absent. It returns a problem of kind Invalid that names both where they differ. It also
// returns the error of check for the header.
func KeyOf(
	ctx context.Context, field, own string, check func(field, key string) error,
) (string, error) {
	if strings.TrimSpace(own) == "" { // as of a header, where HTTP drops it
		own = ""
	}
	location := "header." + IdempotencyKey
	headers := slices.DeleteFunc(slices.Clone(callOf(ctx).keys), func(key string) bool { return key == "" })
	if headers = slices.Compact(headers); len(headers) > 1 {
		return "", problem.InvalidField(location, "is repeated with different values")
	}
	if len(headers) == 0 {
		return own, nil
	}
	if err := check(location, headers[0]); err != nil {
		return "", err
	}
	if own == "" || own == headers[0] {
		return headers[0], nil
	}
	err := problem.InvalidField(field, "must be the same as the header %s, or be left out", IdempotencyKey)
	err.Fields = append(err.Fields, problem.Field{Location: location, Message: "must be the same as " + field +
		", or be left out"})
	return "", err
}

// Replayed sets the headers of an answer to a request whose idempotency key belongs to an earlier request.
func Replayed(w http.ResponseWriter, replayed, mismatch bool) {
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if mismatch {
		w.Header().Set("Idempotent-Mismatch", "true")
	}
}

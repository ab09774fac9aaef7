package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Answer is the output of most operations. Status and ETag are filled in when it is settled, over any values of a
// handler. They are exported only because the framework below reads them so.
type Answer[T any] struct {
	Status  int
	ETag    string `header:"ETag"`
	Body    T
	version int64 // of the resource in the body, for If-Match; 0: none
}

// Versioned is an answer that shows a resource in a version.
func Versioned[T any](version int64, body T) *Answer[T] {
	return &Answer[T]{Body: body, version: version}
}

// Body is an answer that shows no version.
func Body[T any](body T) *Answer[T] { return &Answer[T]{Body: body} }

// Shows returns a function that answers with the view of a resource, with its version, or returns the error with which
// the resource was read.
func Shows[T, V any](view func(T) V) func(record.Entity[T], error) (*Answer[V], error) {
	return func(e record.Entity[T], err error) (*Answer[V], error) {
		if err != nil {
			return nil, err
		}
		return Versioned(e.Version(), view(e.Value)), nil
	}
}

// settle completes an answer with its ETag. A client that reads the body that it has already (If-None-Match) receives
// 304 without a body.
func (a *Answer[T]) settle(status int, reads bool, ifNoneMatch []string) (err error) {
	a.Status = status
	if a.ETag, err = TagOf(a.version, a.Body); err == nil && reads && Matches(ifNoneMatch, a.ETag) {
		a.Status = http.StatusNotModified
	}
	return err
}

// TagOf is the ETag of a body: its digest, after the version of its resource, if it has one. The version alone is not
// enough: an answer also has data that is stored elsewhere, like counts and the last use of a key.
func TagOf(version int64, body any) (string, error) {
	shown, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(shown)
	if version > 0 {
		return fmt.Sprintf(`"%d.%x"`, version, sum[:12]), nil
	}
	return fmt.Sprintf(`"%x"`, sum[:12]), nil
}

// WriteRead writes the answer to a read as an [Answer] is written: with its ETag, and without a body where the client
// has the body already. It returns an error when the body cannot be written as JSON.
func WriteRead(w http.ResponseWriter, c *Call, body any) error {
	tag, err := TagOf(0, body)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", tag)
	if Matches(c.ifNoneMatch, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return WriteJSON(w, http.StatusOK, body)
}

// Conditional completes the description of a read: it may be repeated at the price of a few bytes. Its answer gets an
// ETag, if it is described.
func Conditional(o huma.Operation) huma.Operation {
	text := &huma.Schema{Type: huma.TypeString}
	o.Parameters = append(o.Parameters, &huma.Param{
		Name: "If-None-Match", In: "header", Schema: text,
		Description: "ETags that the client has: if one matches, the response is 304 without a body",
	})
	headers := map[string]*huma.Param{"ETag": {Schema: text}}
	if ok := o.Responses["200"]; ok != nil {
		maps.Copy(headers, ok.Headers)
		ok.Headers["ETag"] = headers["ETag"]
	} else {
		o.Responses = map[string]*huma.Response{}
	}
	o.Responses["304"] = &huma.Response{Description: "The client has this version", Headers: headers}
	return o
}

// NotModified reports whether If-None-Match of the request names a body, which has no version. It is true without
// If-None-Match, too.
func NotModified(ctx context.Context, body any) (bool, error) {
	tag, err := TagOf(0, body)
	ifNoneMatch := callOf(ctx).ifNoneMatch
	return len(ifNoneMatch) == 0 || Matches(ifNoneMatch, tag), err
}

// Matches reports whether the lines of an If-None-Match header name an ETag.
func Matches(ifNoneMatch []string, etag string) bool {
	for _, line := range ifNoneMatch {
		for tag := range strings.SplitSeq(line, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// Match is the If-Match header.
type Match struct {
	IfMatch string `header:"If-Match" doc:"Apply only if the resource still has this ETag"`
}

// Precondition is the version in the header, in the form of record: 0 for any version, -1 for a version that nothing
// has.
func (m Match) Precondition() record.Match {
	v := strings.Trim(strings.TrimPrefix(m.IfMatch, "W/"), `"`)
	if v == "" || v == "*" {
		return 0
	}
	v, _, _ = strings.Cut(v, ".") // see TagOf
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 {
		return -1
	}
	return record.Match(n)
}

// IDPath is the path of a resource.
type IDPath struct {
	ID string `path:"id"`
}

// Check returns a problem not_found when the id in the path is not an identifier: then there is no such thing.
func (in IDPath) Check(what string) error {
	if !host.ValidID(in.ID) {
		return problem.Missing(what + " " + in.ID)
	}
	return nil
}

// OptionalTime is a time in the form of answers; nil for none.
func OptionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := events.Time(t)
	return &s
}

// OptionalOwner is the organization that owns something; nil for none.
func OptionalOwner(organization string) *string {
	if organization == record.NoOrganization {
		return nil
	}
	return &organization
}

// Optional is a value; nil for none: an empty text, zero.
func Optional[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Views are the rows of a list as clients see them; without rows an empty list, not nil.
func Views[T, V any](rows []record.Entity[T], view func(T) V) []V {
	return Each(rows, func(e record.Entity[T]) V { return view(e.Value) })
}

// Each returns the results of a function for each value of a list. Without values it is an empty list, not nil.
func Each[T, V any](list []T, of func(T) V) []V {
	made := make([]V, 0, len(list))
	for _, one := range list {
		made = append(made, of(one))
	}
	return made
}

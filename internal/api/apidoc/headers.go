package apidoc

import (
	"maps"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const headerPrefix = "#/components/headers/"

func header(name string) *huma.Param { return &huma.Param{Ref: headerPrefix + name} }

func text(description, example string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
}

func number(description string, example int) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeInteger}, Example: example}
}

// sharedHeaders are those that answers have, each described once.
func sharedHeaders() map[string]*huma.Header {
	return map[string]*huma.Header{
		"RequestID": text("The request's id, by which the service's log knows it.", exampleID),
		"RunID": text("The run that the request concerns: for reattaching when the connection breaks.",
			exampleID),
		"RetryAfter": number("Whole seconds to wait before another try.", 1),
		"ETag": text("What the answer shows, and in which version: for If-None-Match and If-Match.",
			`"3.5d41402abc4b2a76b9719d91"`),
		"IdempotentReplayed": text("true: the request had been made before with this idempotency key, and is "+
			"answered as it stands now. Absent otherwise.", "true"),
		"IdempotentMismatch": text("true: the earlier request with this idempotency key asked for something else. "+
			"Absent otherwise.", "true"),
		"RateLimitLimit":     number("Requests a minute that the key may make.", 600),
		"RateLimitRemaining": number("Requests that it may still make at once.", 99),
		"RateLimitReset":     number("Seconds until it may make as many as ever.", 1),
	}
}

func (d *document) headers() {
	d.Components.Headers = sharedHeaders()
	for _, o := range d.operations() {
		for status, r := range o.Responses {
			if r.Ref != "" {
				continue
			}
			had := r.Headers
			r.Headers = map[string]*huma.Param{"X-Request-Id": header("RequestID")}
			maps.Copy(r.Headers, had)
			for name, of := range map[string]string{
				"ETag": "ETag", "Idempotent-Replayed": "IdempotentReplayed",
				"Idempotent-Mismatch": "IdempotentMismatch", "X-Agent-Run-Id": "RunID",
			} {
				if own := r.Headers[name]; own != nil && own.Description == "" {
					r.Headers[name] = header(of)
				}
			}
			if o.open() {
				continue
			}
			limited(r.Headers)
			if strings.Contains(o.path, "{run_id}") && status < "400" {
				r.Headers["X-Agent-Run-Id"] = header("RunID")
			}
		}
	}
	for _, r := range d.Components.Responses {
		limited(r.Headers)
	}
}

// limited adds the headers of all that counts against a key's limit.
func limited(headers map[string]*huma.Param) {
	headers["RateLimit-Limit"] = header("RateLimitLimit")
	headers["RateLimit-Remaining"] = header("RateLimitRemaining")
	headers["RateLimit-Reset"] = header("RateLimitReset")
}

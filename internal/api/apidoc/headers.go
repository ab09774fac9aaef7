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
		"RequestID": text("The request's id, which the service's log also contains.", exampleID),
		"RunID": text("The run of the request. Use it to reconnect if the connection breaks.",
			exampleID),
		"RetryAfter": number("Seconds to wait before the next attempt.", 1),
		"ETag": text("The version of the resource, for If-None-Match and If-Match.",
			`"3.5d41402abc4b2a76b9719d91"`),
		"IdempotentReplayed": text("true: an earlier request has this idempotency key, and this is its "+
			"present state. Absent otherwise.", "true"),
		"IdempotentMismatch": text("true: the earlier request with this idempotency key had other content. "+
			"Absent otherwise.", "true"),
		"RateLimitLimit":     number("Requests that the key may send in a minute.", 600),
		"RateLimitRemaining": number("Requests that the key may still send immediately.", 99),
		"RateLimitReset":     number("Seconds until the full number of requests is available again.", 1),
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

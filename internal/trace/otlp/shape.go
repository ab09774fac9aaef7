package otlp

import (
	"encoding/json"
	"strconv"
	"time"

	"agentplatform/internal/trace"
)

// The shapes of ExportTraceServiceRequest (opentelemetry-proto 1.x) in OTLP's JSON: names in lowerCamelCase, ids in
// hexadecimal digits, numbers of 64 bits as texts, enums as numbers.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Flags      uint32      `json:"flags"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      nanoseconds `json:"startTimeUnixNano"`
		End        nanoseconds `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Links      []link      `json:"links,omitempty"`
		Status     *status     `json:"status,omitempty"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code int `json:"code"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}
	nanoseconds time.Time
)

// MarshalJSON writes nanoseconds since 1970.
func (n nanoseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatInt(time.Time(n).UnixNano(), 10))
}

const (
	sampled     = 1 // the flag of W3C Trace Context
	failed      = 2 // STATUS_CODE_ERROR
	instrument  = "agentplatform"
	errorTypeOf = "error.type"
)

func requestOf(from []trace.Attribute, ended []trace.Ended) request {
	spans := make([]span, 0, len(ended))
	for _, e := range ended {
		s := span{
			TraceID: e.Trace.String(), SpanID: e.Span.String(), Flags: sampled, Name: e.Name, Kind: int(e.Kind),
			Start: nanoseconds(e.Start), End: nanoseconds(e.End), Attributes: attributes(e.Attributes),
		}
		if e.Parent != (trace.SpanID{}) {
			s.ParentID = e.Parent.String()
		}
		for _, l := range e.Links {
			s.Links = append(s.Links, link{l.Trace.String(), l.Span.String()})
		}
		if e.Error != "" {
			s.Status = &status{failed}
			s.Attributes = append(s.Attributes, attributes([]trace.Attribute{{Key: errorTypeOf, Value: e.Error}})...)
		}
		spans = append(spans, s)
	}
	return request{[]resourceSpans{{
		Resource: resource{attributes(from)}, ScopeSpans: []scopeSpans{{Scope: scope{instrument}, Spans: spans}},
	}}}
}

func attributes(list []trace.Attribute) []attribute {
	out := make([]attribute, 0, len(list))
	for _, a := range list {
		out = append(out, attribute{a.Key, valueOf(a.Value)})
	}
	return out
}

// valueOf is an AnyValue.
func valueOf(v any) any {
	switch v := v.(type) {
	case string:
		return map[string]any{"stringValue": v}
	case bool:
		return map[string]any{"boolValue": v}
	case int64:
		return map[string]any{"intValue": strconv.FormatInt(v, 10)}
	case float64:
		return map[string]any{"doubleValue": v}
	case []string:
		values := make([]any, 0, len(v))
		for _, text := range v {
			values = append(values, valueOf(text))
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	default:
		return map[string]any{}
	}
}

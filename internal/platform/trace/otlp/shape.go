package otlp

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The shapes of ExportTraceServiceRequest (opentelemetry-proto 1.x) in OTLP's JSON. Names are in lowerCamelCase, ids in
// hexadecimal digits, numbers of 64 bits are texts, enums numbers.
type (
	object = map[string]any
	span   struct {
		TraceID    oteltrace.TraceID  `json:"traceId"`
		SpanID     oteltrace.SpanID   `json:"spanId"`
		ParentID   oteltrace.SpanID   `json:"parentSpanId,omitzero"`
		Flags      uint32             `json:"flags"`
		Name       string             `json:"name"`
		Kind       oteltrace.SpanKind `json:"kind"` // its numbers are those of the protocol
		Start      int64              `json:"startTimeUnixNano,string"`
		End        int64              `json:"endTimeUnixNano,string"`
		Attributes []keyValue         `json:"attributes,omitempty"`
		Links      []link             `json:"links,omitempty"`
		Status     status             `json:"status,omitzero"`
	}
	link struct {
		TraceID oteltrace.TraceID `json:"traceId"`
		SpanID  oteltrace.SpanID  `json:"spanId"`
	}
	status struct {
		Code int `json:"code"`
	}
	keyValue struct {
		Key   attribute.Key `json:"key"`
		Value object        `json:"value"`
	}
)

const (
	sampled    = 1 // the flag of W3C Trace Context
	failed     = 2 // STATUS_CODE_ERROR
	instrument = "agentplatform"
	maxName    = 256 // bytes of a span's name; the SDK limits attributes only
)

// requestOf has only the allowed parts of spans: no events, no text of a status and no state of a trace.
func requestOf(from []attribute.KeyValue, ended []sdktrace.ReadOnlySpan) object {
	spans := make([]span, 0, len(ended))
	for _, e := range ended {
		at, name := e.SpanContext(), e.Name()
		s := span{
			TraceID: at.TraceID(), SpanID: at.SpanID(), ParentID: e.Parent().SpanID(), Flags: sampled,
			Name: name[:min(len(name), maxName)], Kind: e.SpanKind(),
			Start: e.StartTime().UnixNano(), End: e.EndTime().UnixNano(), Attributes: attributes(e.Attributes()),
		}
		for _, l := range e.Links() {
			s.Links = append(s.Links, link{l.SpanContext.TraceID(), l.SpanContext.SpanID()})
		}
		if e.Status().Code == codes.Error {
			s.Status = status{failed}
		}
		spans = append(spans, s)
	}
	return object{"resourceSpans": []object{{
		"resource":   object{"attributes": attributes(from)},
		"scopeSpans": []object{{"scope": object{"name": instrument}, "spans": spans}},
	}}}
}

// attributes leaves out those that are an empty text.
func attributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, 0, len(list))
	for _, a := range list {
		if a.Value.Type() != attribute.STRING || a.Value.AsString() != "" {
			out = append(out, keyValue{a.Key, valueOf(a.Value)})
		}
	}
	return out
}

// valueOf is an AnyValue. Types that our spans do not use become texts.
func valueOf(v attribute.Value) object {
	switch v.Type() {
	case attribute.BOOL:
		return object{"boolValue": v.AsBool()}
	case attribute.INT64:
		return object{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return object{"doubleValue": v.AsFloat64()}
	case attribute.STRINGSLICE:
		values := []object{}
		for _, text := range v.AsStringSlice() {
			values = append(values, valueOf(attribute.StringValue(text)))
		}
		return object{"arrayValue": object{"values": values}}
	default:
		return object{"stringValue": v.String()}
	}
}

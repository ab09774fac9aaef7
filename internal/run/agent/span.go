package agent

import (
	"context"
	"errors"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/trace"
)

// The spans of calls follow OpenTelemetry's conventions for generative AI. They have names, counts and codes, but no
// text of the conversation.

// spanOfModel begins the span of one attempt of a model call.
func (s *session) spanOfModel(ctx context.Context, r model.Request) (context.Context, oteltrace.Span) {
	ctx, span := trace.Start(ctx, oteltrace.SpanKindClient, "chat", r.Name)
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", trace.Provider(s.Agent.Spec.Model.Provider)),
		attribute.String("gen_ai.request.model", r.Name),
		trace.RunID.String(s.Run), attribute.Int("agentplatform.model.try", r.Attempt+1))
	if r.Temperature != nil {
		span.SetAttributes(attribute.Float64("gen_ai.request.temperature", *r.Temperature))
	}
	if r.MaxTokens != nil {
		span.SetAttributes(attribute.Int("gen_ai.request.max_tokens", *r.MaxTokens))
	}
	return ctx, span
}

// isName matches a plausible name of a model. The provider sets the name in a reply, so that a name of another form is
// left out.
var isName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$`)

// endOfModel ends the span of a model call. ctx is that of the work.
func endOfModel(ctx context.Context, span oteltrace.Span, reply model.Reply, streamed int, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if err == nil || reply.InputTokens+reply.OutputTokens > 0 {
		span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", reply.InputTokens),
			attribute.Int64("gen_ai.usage.output_tokens", reply.OutputTokens))
	}
	switch {
	case err == nil:
		if reply.Finish != "" {
			span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{reply.Finish}))
		}
		if isName.MatchString(reply.Model) {
			span.SetAttributes(attribute.String("gen_ai.response.model", reply.Model))
		}
	case ctx.Err() != nil:
		trace.Fail(span, "stopped")
	case streamed > maxReply:
		trace.Fail(span, "too_large")
	case errors.Is(err, context.DeadlineExceeded):
		trace.Fail(span, "timeout")
	default:
		trace.Fail(span, string(model.KindOf(err)))
	}
}

// spanOfTool begins the span of a call of a tool, or of a search.
func (s *session) spanOfTool(ctx context.Context, j *job) (context.Context, oteltrace.Span) {
	ctx, span := trace.Start(ctx, oteltrace.SpanKindInternal, "execute_tool", j.Name)
	if !span.IsRecording() {
		return ctx, span
	}
	kind := "function"
	if j.Name == model.Search {
		kind = "datastore"
	}
	span.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", j.Name), attribute.String("gen_ai.tool.type", kind),
		attribute.String("gen_ai.tool.call.id", j.key), trace.RunID.String(s.Run))
	return ctx, span
}

package agent

import (
	"context"
	"errors"
	"regexp"

	"agentplatform/internal/model"
	"agentplatform/internal/trace"
)

// The spans of calls, by OpenTelemetry's conventions for generative AI. They have names, counts and codes, and nothing
// of what was said.

// spanOfModel begins the span of one try of a model call.
func (s *session) spanOfModel(ctx context.Context, r model.Request) (context.Context, *trace.Span) {
	ctx, span := trace.Start(ctx, trace.Client, "chat", r.Name)
	if span == nil {
		return ctx, nil
	}
	span.Set("gen_ai.operation.name", "chat")
	span.Set("gen_ai.provider.name", trace.Provider(s.Agent.Spec.Model.Provider))
	span.Set("gen_ai.request.model", r.Name)
	span.SetFloat("gen_ai.request.temperature", r.Temperature)
	if r.MaxTokens != nil {
		span.SetInt("gen_ai.request.max_tokens", int64(*r.MaxTokens))
	}
	span.Set(trace.RunID, s.Run)
	span.SetInt("agentplatform.model.try", int64(r.Try+1))
	return ctx, span
}

// isName matches what may be a model's name: that of a reply is the provider's word, which is not shown where it may be
// anything else.
var isName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$`)

// endOfModel ends it; ctx is that of the work.
func endOfModel(ctx context.Context, span *trace.Span, reply model.Reply, said int, err error) {
	if span == nil {
		return
	}
	defer span.End()
	if err == nil || reply.InputTokens+reply.OutputTokens > 0 {
		span.SetInt("gen_ai.usage.input_tokens", reply.InputTokens)
		span.SetInt("gen_ai.usage.output_tokens", reply.OutputTokens)
	}
	switch {
	case err == nil:
		span.SetList("gen_ai.response.finish_reasons", reply.Finish)
		if isName.MatchString(reply.Model) {
			span.Set("gen_ai.response.model", reply.Model)
		}
	case ctx.Err() != nil:
		span.Fail("stopped")
	case said > maxReply:
		span.Fail("too_large")
	case errors.Is(err, context.DeadlineExceeded):
		span.Fail("timeout")
	default:
		span.Fail(string(model.KindOf(err)))
	}
}

// spanOfTool begins the span of a call of a tool, or of a search.
func (s *session) spanOfTool(ctx context.Context, j *job) (context.Context, *trace.Span) {
	ctx, span := trace.Start(ctx, trace.Internal, "execute_tool", j.Name)
	if span == nil {
		return ctx, nil
	}
	kind := "function"
	if j.Name == model.Search {
		kind = "datastore"
	}
	span.Set("gen_ai.operation.name", "execute_tool")
	span.Set("gen_ai.tool.name", j.Name)
	span.Set("gen_ai.tool.type", kind)
	span.Set("gen_ai.tool.call.id", j.key)
	span.Set(trace.RunID, s.Run)
	return ctx, span
}

// Package bedrockmodel implements the model port with Amazon Bedrock's ConverseStream.
//
// One call of the port is one request; retries are the caller's. A model's name is a model id or the id of an
// inference profile. The package must not know runs. It imports its port and the AWS SDK.
package bedrockmodel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// Guardrail is a Bedrock guardrail that is applied to every call; the zero value means none.
type Guardrail struct{ ID, Version string }

// Model calls Bedrock in one Region. It is safe for concurrent use.
type Model struct {
	client    *bedrockruntime.Client
	guardrail Guardrail
}

// New makes the model from the configuration of an AWS account.
func New(account aws.Config, g Guardrail) *Model {
	client := bedrockruntime.NewFromConfig(account, func(o *bedrockruntime.Options) { o.Retryer = aws.NopRetryer{} })
	return &Model{client, g}
}

// Converse makes one streamed request. Every error is a [model.Error] whose text may be shown to clients.
func (m *Model) Converse(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
	in, err := m.input(r)
	if err != nil {
		return model.Reply{}, err
	}
	sending, sent := providerhttp.Sending(ctx)
	out, err := m.client.ConverseStream(sending, in)
	if err != nil {
		return model.Reply{}, failure(err, sent())
	}
	stream := out.GetStream()
	defer func() { _ = stream.Close() }()
	reply := received{Draft: model.Draft{Emit: emit}}
	for event := range stream.Events() {
		if reply.take(event); reply.Full() {
			break
		}
	}
	if err := stream.Err(); err != nil {
		return reply.Done(failure(err, true))
	}
	reply.RequestID, _ = awsmiddleware.GetRequestIDMetadata(out.ResultMetadata)
	return reply.Done(nil)
}

func (m *Model) input(r model.Request) (*bedrockruntime.ConverseStreamInput, error) {
	r = r.Sendable()
	in := &bedrockruntime.ConverseStreamInput{ModelId: &r.Name, Messages: messages(r.Messages)}
	if r.Instructions != "" {
		in.System = []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: r.Instructions}}
	}
	if r.MaxTokens != nil || r.Temperature != nil || r.Options.TopP != nil {
		in.InferenceConfig = &types.InferenceConfiguration{}
		if r.MaxTokens != nil {
			//nolint:gosec // bounded just here
			in.InferenceConfig.MaxTokens = aws.Int32(int32(min(*r.MaxTokens, 1<<30)))
		}
		if r.Temperature != nil {
			in.InferenceConfig.Temperature = aws.Float32(float32(min(*r.Temperature, 1)))
		}
		if r.Options.TopP != nil {
			in.InferenceConfig.TopP = aws.Float32(float32(*r.Options.TopP))
		}
	}
	if m.guardrail.ID != "" {
		in.GuardrailConfig = &types.GuardrailStreamConfiguration{GuardrailIdentifier: &m.guardrail.ID,
			GuardrailVersion: &m.guardrail.Version, Trace: types.GuardrailTraceEnabled}
	}
	for _, t := range r.Declared() {
		var schema any
		if err := json.Unmarshal(t.PlainNames(), &schema); err != nil {
			return nil, model.Fail(model.BadRequest, "the parameters of the tool %s are not a JSON schema: %w", t.Name,
				err)
		}
		if in.ToolConfig == nil {
			in.ToolConfig = &types.ToolConfiguration{}
		}
		in.ToolConfig.Tools = append(in.ToolConfig.Tools, &types.ToolMemberToolSpec{Value: types.ToolSpecification{
			Name: aws.String(t.Name), Description: aws.String(cmp.Or(t.Description, t.Name)),
			InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(schema)},
		}})
	}
	switch {
	case !r.Forced():
	case r.Options.Tool != "":
		in.ToolConfig.ToolChoice = &types.ToolChoiceMemberTool{Value: types.SpecificToolChoice{Name: &r.Options.Tool}}
	default:
		in.ToolConfig.ToolChoice = &types.ToolChoiceMemberAny{}
	}
	return in, nil
}

// messages converts a conversation. Converse requires user and assistant messages to alternate, so neighbours of one
// role are merged.
func messages(conversation []model.Message) []types.Message {
	var list []types.Message
	for _, m := range conversation {
		role := types.ConversationRoleUser
		if m.Role == model.Assistant {
			role = types.ConversationRoleAssistant
		}
		blocks := blocksOf(m)
		switch last := len(list) - 1; {
		case len(blocks) == 0:
		case last >= 0 && list[last].Role == role:
			list[last].Content = append(list[last].Content, blocks...)
		default:
			list = append(list, types.Message{Role: role, Content: blocks})
		}
	}
	return list
}

func blocksOf(m model.Message) (blocks []types.ContentBlock) {
	if text := m.FullText(); text != "" {
		blocks = append(blocks, &types.ContentBlockMemberText{Value: text})
	}
	for _, i := range m.Images {
		blocks = append(blocks, &types.ContentBlockMemberImage{Value: types.ImageBlock{
			Format: types.ImageFormat(strings.TrimPrefix(i.ContentType, "image/")),
			Source: &types.ImageSourceMemberBytes{Value: i.Data},
		}})
	}
	for _, c := range m.Calls {
		blocks = append(blocks, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
			ToolUseId: aws.String(c.ID), Name: aws.String(c.Name), Input: document.NewLazyDocument(c.Object()),
		}})
	}
	for _, r := range m.Results {
		status := types.ToolResultStatusSuccess
		if r.Outcome == model.Failed {
			status = types.ToolResultStatusError
		}
		blocks = append(blocks, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
			ToolUseId: aws.String(r.CallID), Status: status,
			Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: r.ForModel()}},
		}})
	}
	return blocks
}

// received is what a stream has sent so far.
type received struct {
	model.Draft

	last *model.PartialCall // blocks arrive one after another
}

func (h *received) take(event types.ConverseStreamOutput) {
	switch e := event.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		if use, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			h.last = h.Begin()
			h.Add(h.last, aws.ToString(use.Value.ToolUseId), aws.ToString(use.Value.Name), "")
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		switch d := e.Value.Delta.(type) {
		case *types.ContentBlockDeltaMemberText:
			h.AddText(d.Value)
		case *types.ContentBlockDeltaMemberToolUse:
			h.Add(h.last, "", "", aws.ToString(d.Value.Input))
		}
	case *types.ConverseStreamOutputMemberMessageStop:
		h.Stop = string(e.Value.StopReason)
	case *types.ConverseStreamOutputMemberMetadata:
		if u := e.Value.Usage; u != nil {
			h.InputTokens, h.OutputTokens = sum(u.InputTokens, u.CacheReadInputTokens, u.CacheWriteInputTokens),
				sum(u.OutputTokens)
		}
		if masked(e.Value.Trace) {
			h.Stop = "end_turn"
		}
	}
}

func sum(counts ...*int32) (total int64) {
	for _, c := range counts {
		total += int64(aws.ToInt32(c))
	}
	return total
}

// masked reports whether a guardrail only masked parts of texts. The stop reason of the reply is the same as where it
// blocks.
func masked(t *types.ConverseStreamTrace) bool {
	if t == nil || t.Guardrail == nil {
		return false
	}
	done, _ := json.Marshal(t.Guardrail) // actions stand at many places of it
	return bytes.Contains(done, []byte(`"Action":"ANONYMIZED"`)) && !bytes.Contains(done, []byte(`"Action":"BLOCKED"`))
}

// failure turns an SDK error into a [model.Error] whose text may be shown to clients. begun: the request was sent.
func failure(err error, begun bool) error {
	var answered *awshttp.ResponseError
	isAnswer := errors.As(err, &answered) && answered.Response != nil && answered.HTTPStatusCode() != 0
	var api smithy.APIError
	named := errors.As(err, &api)
	switch {
	case !isAnswer && !named:
		if err = model.Unreachable(err); begun {
			err = model.Begin(err)
		}
		return err
	case !isAnswer: // an exception within the stream
		err = model.BrokeOff(providerhttp.NewTrouble(api.ErrorMessage(), api.ErrorCode()))
	default:
		trouble := providerhttp.NewTrouble(answered.Err.Error())
		if named {
			trouble = providerhttp.NewTrouble(api.ErrorMessage(), api.ErrorCode())
		}
		trouble.Wait = cmp.Or(providerhttp.RetryAfter(answered.Response.Header), trouble.Wait)
		err = model.FromHTTP(answered.HTTPStatusCode(), trouble)
	}
	if !isAnswer {
		return model.Redact(model.Begin(err), "", nil)
	}
	address, sent := providerhttp.Signed(answered.Response.Request)
	return model.Redact(err, address, sent)
}

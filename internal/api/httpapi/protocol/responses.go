package protocol

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/responses"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
)

const (
	responsesPath = "/responses"
	responsePath  = "/responses/{response_id}"

	maxSequence = 1 << 53 // of an event: the largest that every client's numbers can tell from the next
)

// responsesRoutes let clients of Open Responses in. What they say is the server's of the protocol; here is who may, and
// how answers travel.
func (h *handlers) responsesRoutes() {
	response, event := httpapi.SchemaOf[responses.Response](h.Server), httpapi.SchemaOf[responses.ResponseEvent](
		h.Server,
	)
	of := func(schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	either := of(response)
	either["text/event-stream"] = &huma.MediaType{Schema: event}
	text := &huma.Schema{Type: huma.TypeString}
	ofRun := map[string]*huma.Param{"X-Agent-Run-Id": {}}
	id := &huma.Param{Name: "response_id", In: "path", Required: true, Schema: text}
	httpapi.SchemaOf[responses.ResponseContentParam](h.Server) // of items
	httpapi.SchemaOf[responses.ResponseItemParam](h.Server)    // of the input
	httpapi.SchemaOf[responses.PlainFormat](h.Server)          // of the answer
	httpapi.SchemaOf[responses.SchemaFormat](h.Server)
	h.Describe(huma.Operation{
		Method: http.MethodPost, Path: responsesPath, OperationID: "create-response", Tags: []string{"protocols"},
		Summary: "Send a message to an agent, by Open Responses",
		Description: "Starts a durable run, or goes on with one that waits for the client. Without stream and " +
			"background " +
			"it answers when the run has ended or waits, or after a while with status in_progress. Needs level `run`.",
		Parameters: []*huma.Param{{
			Name: "Idempotency-Key", In: "header", Schema: text,
			Description: "a request with the same key gets the response of the first",
		}},
		RequestBody: &huma.RequestBody{
			Required: true, Content: of(httpapi.SchemaOf[responses.CreateResponse](h.Server)),
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "The response. With stream: its events, then [DONE]", Content: either,
			Headers: map[string]*huma.Param{"X-Agent-Run-Id": {}, "Idempotent-Replayed": {}},
		}},
	})
	h.Describe(httpapi.Conditional(huma.Operation{
		Method: http.MethodGet, Path: responsePath, OperationID: "read-response", Tags: []string{"protocols"},
		Summary: "Read a response, or follow it", Description: "Needs level `read`.",
		Parameters: []*huma.Param{
			id,
			{Name: "stream", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean},
				Description: "true: answer with Server-Sent Events"},
			{
				Name:        "starting_after",
				In:          "query",
				Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64)},
				Description: "sequence_number of the last event that the client has seen",
			},
		},
		Responses: map[string]*huma.Response{
			"200": {
				Description: "The response. With stream: its events, then [DONE]",
				Content:     either,
				Headers:     maps.Clone(ofRun),
			},
		},
	}))
	h.Describe(huma.Operation{
		Method: http.MethodPost, Path: responsePath + "/cancel", OperationID: "cancel-response",
		Tags: []string{"protocols"}, Parameters: []*huma.Param{id},
		Summary: "Cancel a response", Description: "One that has ended stays as it is. Needs level `run`.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The response as it is then", Content: of(response), Headers: maps.Clone(ofRun)},
		},
	})
	h.Describe(huma.Operation{
		Method: http.MethodDelete, Path: responsePath, OperationID: "delete-response", Tags: []string{"protocols"},
		Summary: "Delete a response with its conversation", Parameters: []*huma.Param{id},
		Description: "409 when the conversation has other responses. Needs level `run`.",
		Responses: map[string]*huma.Response{"200": {
			Description: "It is deleted", Content: of(httpapi.SchemaOf[responses.DeletedResponse](h.Server)),
		}},
	})
	httpapi.Register(h.Server, httpapi.Operation{
		Method: http.MethodGet, Path: responsePath + "/input_items", Level: tenant.LevelRead,
		ID: "list-input-items", Tag: "protocols", Summary: "What a response was given",
	}, h.inputItems)
	h.Handle("POST", responsesPath, tenant.LevelRun, h.createResponse)
	h.Handle("GET", responsePath, tenant.LevelRead, h.readResponse)
	h.Handle("POST", responsePath+"/cancel", tenant.LevelRun, h.cancelResponse)
	h.Handle("DELETE", responsePath, tenant.LevelRun, h.deleteResponse)
}

func (h *handlers) createResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	if err := h.Hold(w, r, c); err != nil {
		return err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var asked responses.CreateResponse
	r.Body = http.NoBody // which a wait would keep
	if len(body) == 0 {
		return problem.InvalidField("body", "is required")
	}
	if err := httpapi.Decode("body", body, &asked); err != nil {
		return err
	}
	ctx := r.Context()
	if asked.Stream {
		if err := h.TakeSlot(ctx, c); err != nil {
			return err
		}
	}
	begun, err := h.Responses.Create(ctx, c.Principal, asked, responses.Origin{
		Key: r.Header.Get("Idempotency-Key"), Request: c.ID(),
	})
	if err != nil {
		return err
	}
	id := begun.ID
	c.Run = responses.RunOf(id)
	c.Release()
	if begun.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if asked.Stream {
		return h.followResponse(ctx, w, c, id, -1)
	}
	var v responses.Response
	if !asked.Background {
		err = h.WhileAllowed(ctx, c.Principal, begun.Agent, func(waits context.Context) (err error) {
			v, err = h.Responses.Wait(waits, c.Principal, id, func() error { return h.TakeSlot(ctx, c) })
			return err
		})
	}
	if err == nil && v.ID == "" { // in the background, or the server stops
		v, err = h.Responses.Response(ctx, c.Principal, id)
	}
	return h.answerResponse(w, c, v, err)
}

// answerResponse answers with a response, unless it could not be read.
func (h *handlers) answerResponse(w http.ResponseWriter, c *httpapi.Call, v responses.Response, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("X-Agent-Run-Id", c.Run)
	return httpapi.WriteJSON(w, http.StatusOK, v)
}

func (h *handlers) readResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	id, query := r.PathValue("response_id"), r.URL.Query()
	c.Run = responses.RunOf(id)
	streamed, err := strconv.ParseBool(orFalse(query.Get("stream")))
	if err != nil {
		return problem.InvalidField("query.stream", "must be true or false")
	}
	after := int64(-1)
	if text := query.Get("starting_after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 || after > maxSequence {
			return problem.InvalidField("query.starting_after", "must be the sequence_number of an event")
		}
	}
	if streamed {
		return h.followResponse(r.Context(), w, c, id, after)
	}
	v, err := h.Responses.Response(r.Context(), c.Principal, id)
	if err != nil {
		return err
	}
	w.Header().Set("X-Agent-Run-Id", c.Run)
	return httpapi.WriteRead(w, c, v)
}

func orFalse(text string) string {
	if text == "" {
		return "false"
	}
	return text
}

func (h *handlers) cancelResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	id := r.PathValue("response_id")
	c.Run = responses.RunOf(id)
	v, err := h.Responses.Cancel(r.Context(), c.Principal, id)
	return h.answerResponse(w, c, v, err)
}

func (h *handlers) deleteResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	id := r.PathValue("response_id")
	c.Run = responses.RunOf(id)
	job, err := h.Responses.Delete(r.Context(), c.Principal, id)
	if err != nil {
		return err
	}
	h.Wake(r.Context(), events.NudgeJob, job, c.Principal.Organization)
	return httpapi.WriteJSON(w, http.StatusOK, responses.DeletedResponse{ID: id, Object: "response", Deleted: true})
}

func (h *handlers) inputItems(ctx context.Context, p tenant.Principal, in *struct {
	ResponseID string `path:"response_id"`
	Limit      int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	After      string `query:"after" doc:"last_id of the page before"`
	Order      string `query:"order" enum:"asc,desc" default:"desc"`
}) (*httpapi.Answer[responses.ResponseItems], error) {
	list, err := h.Responses.Inputs(ctx, p, in.ResponseID, in.After, in.Limit, in.Order == "asc")
	if err != nil {
		return nil, err
	}
	return &httpapi.Answer[responses.ResponseItems]{Body: list}, nil
}

// followResponse answers with the events of a response behind a number. One that ends earlier says so, without [DONE]:
// an end of the connection is no error to the clients' loops. (To break the connection off would be one, but the SDKs
// raise it as an error of the network, and proxies may hide it.) The client comes back with the last number that it has
// seen.
func (h *handlers) followResponse(
	ctx context.Context, w http.ResponseWriter, c *httpapi.Call, id string, after int64,
) error {
	followed, err := h.Responses.Open(ctx, c.Principal, id, after) // before anything is written
	if err != nil {
		return err
	}
	follow := func(ctx context.Context, out *httpapi.Sink) error {
		emit := func(e responses.ResponseEvent) error { return out.Named(e.Type, e) }
		if err := followed.Follow(ctx, h.Heartbeat, emit, out.Heartbeat); err != nil {
			return err
		}
		return out.End()
	}
	short := func(out *httpapi.Sink) { _ = out.Named("error", followed.Short()) }
	return h.Stream(ctx, w, c, httpapi.Stream{
		ContentType: "text/event-stream", Agent: followed.Agent, Bounded: true, Follow: follow,
		Final: short, Short: short,
	})
}

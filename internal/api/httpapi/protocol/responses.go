package protocol

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/responses"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
)

// maxSequence bounds the number of an event. It is the largest integer that every client's numbers represent exactly.
const maxSequence = 1 << 53

// responsesRoutes admit clients of Open Responses. The protocol's server reads their messages. This package decides who
// may send them, and how answers travel.
func (h *handlers) responsesRoutes() {
	const responsePath = "/responses/{response_id}"
	response := content(httpapi.SchemaOf[responses.Response](h.Server), asJSON)
	either := content(httpapi.SchemaOf[responses.ResponseEvent](h.Server), asEvents)
	maps.Copy(either, response)
	text := &huma.Schema{Type: huma.TypeString}
	httpapi.SchemaOf[responses.ResponseContentParam](h.Server) // of items
	httpapi.SchemaOf[responses.ResponseItemParam](h.Server)    // of the input
	httpapi.SchemaOf[responses.PlainFormat](h.Server)          // of the answer
	httpapi.SchemaOf[responses.SchemaFormat](h.Server)
	h.add(tenant.LevelRun, h.createResponse, huma.Operation{
		Method: http.MethodPost, Path: "/responses", OperationID: "create-response",
		Summary: "Send a message to an agent by Open Responses",
		Description: "Starts a durable run, or continues one that waits for the client. Without stream and " +
			"background it responds when the run ends or waits, or later with status in_progress. " +
			"Needs level `run`.",
		Parameters: []*huma.Param{{
			Name: httpapi.IdempotencyKey, In: "header", Schema: text,
			Description: "a request with the same key gets the response of the first",
		}},
		RequestBody: &huma.RequestBody{
			Required: true, Content: content(httpapi.SchemaOf[responses.CreateResponse](h.Server), asJSON),
		},
		Responses: answers("The response. With stream: its events, then [DONE]", either, runHeader,
			"Idempotent-Replayed", "Idempotent-Mismatch"),
	})
	h.add(tenant.LevelRead, h.readResponse, httpapi.Conditional(huma.Operation{
		Method: http.MethodGet, Path: responsePath, OperationID: "read-response",
		Summary: "Read a response, or follow it", Description: "Needs level `read`.",
		Parameters: append(inPath("response_id"),
			&huma.Param{Name: "stream", In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean},
				Description: "true: respond with Server-Sent Events"},
			&huma.Param{Name: "starting_after", In: "query",
				Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64)},
				Description: "sequence_number of the last event that the client received"},
		),
		Responses: answers("The response. With stream: its events, then [DONE]", either, runHeader),
	}))
	h.add(tenant.LevelRun, h.cancelResponse, huma.Operation{
		Method: http.MethodPost, Path: responsePath + "/cancel", OperationID: "cancel-response",
		Parameters: inPath("response_id"), Summary: "Cancel a response",
		Description: "A response that has ended stays unchanged. Needs level `run`.",
		Responses:   answers("The response after the cancel", response, runHeader),
	})
	h.add(tenant.LevelRun, h.deleteResponse, huma.Operation{
		Method: http.MethodDelete, Path: responsePath, OperationID: "delete-response",
		Parameters: inPath("response_id"), Summary: "Delete a response with its conversation",
		Description: "409 when the conversation has other responses. Needs level `run`.",
		Responses: answers("It is deleted",
			content(httpapi.SchemaOf[responses.DeletedResponse](h.Server), asJSON)),
	})
	r := httpapi.Routes{Server: h.Server, Tag: "protocols", Read: tenant.LevelRead}
	httpapi.Route(r, "GET "+responsePath+"/input_items", "list-input-items",
		"List the input items of a response", h.inputItems)
}

func (h *handlers) createResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	var request responses.CreateResponse
	if err := h.read(w, r, c, &request); err != nil {
		return err
	}
	ctx := r.Context()
	if request.Stream {
		if err := h.TakeSlot(ctx, c); err != nil {
			return err
		}
	}
	key, err := httpapi.KeyOf(ctx, "", "", intake.CheckKey)
	if err != nil {
		return err
	}
	begun, err := h.Responses.Create(ctx, c.Principal, request, key, c.ID())
	if err != nil {
		return err
	}
	id := begun.ID
	c.Run = responses.RunOf(id)
	c.Release()
	httpapi.Replayed(w, begun.Replayed, begun.Mismatch)
	if request.Stream {
		return h.followResponse(ctx, w, c, id, -1)
	}
	var v responses.Response
	if !request.Background {
		err = h.Responses.WhileSeen(ctx, c.Principal, c.Run, func(waits context.Context) (err error) {
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
	w.Header().Set(runHeader, c.Run)
	return httpapi.WriteJSON(w, http.StatusOK, v)
}

func (h *handlers) readResponse(w http.ResponseWriter, r *http.Request, c *httpapi.Call) error {
	id, query := r.PathValue("response_id"), r.URL.Query()
	c.Run = responses.RunOf(id)
	streamed, err := strconv.ParseBool(cmp.Or(query.Get("stream"), "false"))
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
	w.Header().Set(runHeader, c.Run)
	return httpapi.WriteRead(w, c, v)
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
	h.Wake(r.Context(), events.WakeupJob, job, c.Principal.Organization)
	return httpapi.WriteJSON(w, http.StatusOK, responses.DeletedResponse{ID: id, Object: "response", Deleted: true})
}

func (h *handlers) inputItems(ctx context.Context, p tenant.Principal, in *struct {
	ResponseID string `path:"response_id"`
	Limit      int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	After      string `query:"after" doc:"last_id of the previous page"`
	Order      string `query:"order" enum:"asc,desc" default:"desc"`
}) (*httpapi.Answer[responses.ResponseItems], error) {
	list, err := h.Responses.Inputs(ctx, p, in.ResponseID, in.After, in.Limit, in.Order == "asc")
	if err != nil {
		return nil, err
	}
	return &httpapi.Answer[responses.ResponseItems]{Body: list}, nil
}

// followResponse answers with the events of a response after a sequence number. A stream that ends early ends with an
// error and without [DONE]: the clients' loops do not treat the end of a connection as an error. (A connection that is
// broken off is an error to them. But the SDKs raise it as an error of the network, and proxies may hide it.) The
// client comes back with the last number that it has received.
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
		ContentType: asEvents, Of: followed.Whose(), Bounded: true, Follow: follow,
		Final: short, Short: short,
	})
}

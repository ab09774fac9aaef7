package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"agentplatform/internal/ai/providerhttp"
)

const (
	maxEvent  = MaxText + 2<<20 // bytes of one event: it may carry a whole reply
	maxValues = 100_000         // in one event
)

// Stream sends a request as JSON and calls event with the data of each server-sent event, until event returns
// false or an error, or the answer ends. It returns the response's header. Its error is event's or an
// [Error], in a text that may be shown to clients.
func Stream(
	ctx context.Context, e providerhttp.Endpoint, request any, event func(data []byte) (goOn bool, err error),
) (_ http.Header, err error) {
	defer func() { err = Redact(err, e.URL, e.Header) }()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, Fail(BadRequest, "the request cannot be written: %w", err)
	}
	answer, err := e.Post(ctx, body, "text/event-stream")
	if err != nil {
		return nil, Unreachable(err)
	}
	answer.Body = bound(answer.Body, MaxStream, MaxSilence)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return answer.Header, FromHTTP(providerhttp.Refusal(answer))
	}
	events := bufio.NewReader(answer.Body)
	if first, _ := events.Peek(1); string(first) == "{" { // no stream: some endpoints report a failure with status 200
		if said := providerhttp.SaidBy(events); said.There {
			return answer.Header, BrokeOff(said)
		}
	}
	for {
		data, err := next(events)
		if errors.Is(err, io.EOF) {
			return answer.Header, nil
		}
		if err != nil {
			return answer.Header, Unreachable(err)
		}
		goOn, err := event(data)
		if err == nil && !goOn {
			finish(answer.Body)
		}
		if err != nil || !goOn {
			return answer.Header, err
		}
	}
}

// finish reads what follows the last event, if it has arrived already: only then is the connection reused.
func finish(body io.ReadCloser) {
	late := time.AfterFunc(100*time.Millisecond, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// next reads the data of the next event; an incomplete event at the end of the stream is dropped. Each byte is
// examined once: common libraries for such streams rescan an incomplete line whenever more of it arrives, which
// for a line of 8 MB in small pieces takes ten seconds of CPU time.
func next(r *bufio.Reader) ([]byte, error) {
	var data, line []byte
	there := false
	for {
		part, err := r.ReadSlice('\n')
		if len(data)+len(line)+len(part) > maxEvent {
			return nil, errTooLong
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text := bytes.TrimRight(line, "\r\n")
		switch value, is := bytes.CutPrefix(text, []byte("data:")); {
		case len(text) == 0 && len(data) > 0:
			return data, nil
		case len(text) == 0:
			there = false // a field other than data, or an event without data
		case is && there:
			data = append(append(data, '\n'), bytes.TrimPrefix(value, []byte(" "))...)
		case is:
			data, there = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		line = line[:0]
	}
}

var errTooLong = errors.New("an event of its answer does not end")

// Decode decodes an event or another answer of a provider, unless it has too many values. The error says what is
// wrong without the words of the JSON library: clients see it.
func Decode(data []byte, into any) error {
	if err := providerhttp.Read(data, maxEvent, maxValues, into); err != nil {
		return Fail(Retryable, "what the model's provider sent is not what its protocol says")
	}
	return nil
}

// Arguments are a call's arguments or a piece of them: a string that contains JSON, or, from some endpoints, the
// JSON value itself.
type Arguments string

// UnmarshalJSON accepts any JSON value and never fails.
func (a *Arguments) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(a)) != nil {
		*a = Arguments(raw)
	}
	return nil
}

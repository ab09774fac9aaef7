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

	"agentplatform/internal/providerhttp"
)

const (
	maxEvent   = MaxText + 2<<20 // bytes of one event: it may carry a whole reply
	maxValues  = 100_000         // in one event
	maxRefusal = 64 << 10        // bytes read of an error response
)

// Endpoint is a provider's URL with the credentials for it. Adapters stream answers of server-sent events from it.
type Endpoint struct {
	URL    string
	Header http.Header
	Client *http.Client
}

// Stream sends a request as JSON and calls event with the data of each server-sent event, until event returns
// false or an error, or the answer ends. It returns the response's header. Its error is event's or a
// [Error], in a text that may be shown to clients.
func (e Endpoint) Stream(
	ctx context.Context, request any, event func(data []byte) (goOn bool, err error),
) (_ http.Header, err error) {
	defer func() { err = e.Redact(err) }()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, Fail(BadRequest, "the request cannot be written: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return nil, Unreachable(errors.New("its address is none"))
	}
	for name, values := range e.Header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	answer, err := e.Client.Do(r)
	if err != nil {
		return nil, Unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return answer.Header, refusal(answer)
	}
	events := bufio.NewReader(answer.Body)
	if first, _ := events.Peek(1); string(first) == "{" { // no stream: some endpoints report a failure with status 200
		if raw, _ := io.ReadAll(io.LimitReader(events, maxRefusal)); providerhttp.Said(raw).There {
			return answer.Header, BrokeOff(providerhttp.Said(raw))
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

// Redact is [Redact] for this endpoint: it removes the endpoint's credentials and addresses from a
// failure's text.
func (e Endpoint) Redact(err error) error { return Redact(err, e.URL, e.Header) }

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

// refusal is the [Error] of an error response, with the provider's message.
func refusal(answer *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	return FromHTTP(answer.StatusCode, providerhttp.RetryAfter(answer.Header), providerhttp.Said(raw))
}

// Trouble is a provider's error member in the middle of a stream.
type Trouble struct{ providerhttp.Trouble }

// Failure is the [Error] of a stream that reported an error; nil where it did not.
func (t Trouble) Failure() error {
	if !t.There {
		return nil
	}
	return BrokeOff(t.Trouble)
}

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

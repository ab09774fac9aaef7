// Package modelhttp is a request to a provider of models over HTTP: JSON goes there, server-sent events come back, and
// what goes wrong is a failure of the model port.
//
// It must not know what a provider's requests and events mean. It imports the model port and strictjson.
package modelhttp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"agentplatform/internal/model"
	"agentplatform/internal/strictjson"
)

const (
	maxEvent   = model.MaxText + 2<<20 // bytes of one event: a whole reply may come in one
	maxDepth   = 128
	maxValues  = 100_000  // of one event
	maxRefusal = 64 << 10 // bytes that are read of an answer that refuses
)

// Endpoint is where a provider takes requests, and what lets us in.
type Endpoint struct {
	URL    string
	Header http.Header
	Client *http.Client
}

// Join is a path below a base URL, whose query stays.
func Join(base, path string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // as which it is refused
	}
	return u.JoinPath(path).String()
}

// Stream sends a request and tells of each event's data until event says stop or the answer ends. Errors are failures
// of the model port, as are those of event, and may be shown.
func (e Endpoint) Stream(
	ctx context.Context, request any, event func(data []byte) (goOn bool, err error),
) (_ http.Header, err error) {
	defer func() { err = e.Discreet(err) }()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, model.Fail(model.BadRequest, "the request cannot be written: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return nil, model.Unreachable(errors.New("its address is none"))
	}
	for name, values := range e.Header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	answer, err := e.Client.Do(r)
	if err != nil {
		return nil, model.Unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return answer.Header, refusal(answer)
	}
	for events := bufio.NewReader(answer.Body); ; {
		data, err := next(events)
		if errors.Is(err, io.EOF) {
			return answer.Header, nil
		}
		if err != nil {
			return answer.Header, model.Unreachable(err)
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

// Discreet is a failure in words that show nothing of the endpoint.
func (e Endpoint) Discreet(err error) error { return model.Discreet(err, e.URL, e.Header) }

// finish reads what is left behind the last event, if that comes at once: only then is the connection used again.
func finish(body io.ReadCloser) {
	late := time.AfterFunc(100*time.Millisecond, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// next reads the data of the next event; what is unfinished at the end is none. Each byte is looked at once: the
// libraries that read such streams look at an unfinished line from its beginning whenever more of it comes, which for a
// line of 8 MB that comes in pieces is ten seconds of a processor.
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
			there = false // something else than data, or none
		case is && there:
			data = append(append(data, '\n'), bytes.TrimPrefix(value, []byte(" "))...)
		case is:
			data, there = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		line = line[:0]
	}
}

var errTooLong = errors.New("an event of its answer does not end")

// refusal is an answer that is none, in the provider's words.
func refusal(answer *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	var body struct {
		Error   Trouble `json:"error"`
		Message Text    `json:"message"`
		Detail  Text    `json:"detail"`
	}
	raw = bytes.Trim(bytes.TrimSpace(raw), "[]") // some put it into a list
	_ = Read(raw, &body)                         // whatever it is, the status says enough
	text := cmp.Or(body.Error.Message, string(body.Message), string(body.Detail), http.StatusText(answer.StatusCode))
	return model.FromHTTP(answer.StatusCode, model.RetryAfter(answer.Header),
		fmt.Errorf("the model's provider answered %d: %s", answer.StatusCode, text))
}

// Trouble is what a provider says has gone wrong: an object with a message, or the message alone.
type Trouble struct {
	There   bool // something was said
	Message string
}

// UnmarshalJSON takes whatever is there.
func (t *Trouble) UnmarshalJSON(raw []byte) error {
	var body struct{ Message string }
	switch {
	case string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &t.Message) == nil:
	case json.Unmarshal(raw, &body) == nil:
		t.Message = body.Message
	}
	t.There = true
	return nil
}

// Failure is of a stream that told of trouble; nil where it did not.
func (t Trouble) Failure() error {
	if !t.There {
		return nil
	}
	return model.BrokeOff(cmp.Or(t.Message, "it does not say why"))
}

// Read reads an event, or another answer of a provider, if that costs no more than it should. Why one cannot be read is
// said in no words of a library.
func Read(data []byte, into any) error {
	err := strictjson.Within(data, strictjson.Limits{Bytes: maxEvent, Depth: maxDepth}, maxValues)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return model.Fail(model.Retryable, "what the model's provider sent is not what its protocol says")
	}
	return nil
}

// Count is a number that a provider claims. One that is no number counts for nothing, one that is too large for the
// most there is.
type Count int64

// UnmarshalJSON takes whatever is there.
func (c *Count) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*c = Count(n)
		return nil
	}
	switch f, _ := strconv.ParseFloat(text, 64); { // infinite where it is too large
	case f >= math.MaxInt64:
		*c = math.MaxInt64
	case f <= math.MinInt64:
		*c = math.MinInt64
	case !math.IsNaN(f):
		*c = Count(f)
	}
	return nil
}

// Text is a piece of text, or several in a list of parts; what is none is empty.
type Text string

// UnmarshalJSON takes whatever is there.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var parts []struct{ Type, Text string }
	switch {
	case json.Unmarshal(raw, (*string)(t)) == nil:
	case json.Unmarshal(raw, &parts) == nil:
		for _, p := range parts {
			if p.Type == "text" {
				*t += Text(p.Text)
			}
		}
	}
	return nil
}

// Arguments are those of a call, or a piece of them: a text that is JSON, or, from some, the JSON itself.
type Arguments string

// UnmarshalJSON takes whatever is there.
func (a *Arguments) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(a)) != nil {
		*a = Arguments(raw)
	}
	return nil
}

package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"agentplatform/internal/ai/providerhttp"
)

const (
	maxEvent  = MaxText + 2<<20 // bytes of one event: it may carry a whole reply
	maxValues = 100_000         // in one event
)

// Stream sends a request as JSON and calls event with the data of each server-sent event. It goes on until event
// returns false or an error, or the answer ends. An answer that is one JSON object is one event. Stream returns the
// response's header. Its error is event's or an [Error], in a text that may be shown to clients.
func Stream(
	ctx context.Context, e providerhttp.Endpoint, request any, event func(data []byte) (goOn bool, err error),
) (_ http.Header, err error) {
	defer func() { err = Redact(err, e.URL, e.Header) }()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, Fail(BadRequest, "the request cannot be written: %w", err)
	}
	sending, sent := providerhttp.Sending(ctx)
	answer, err := e.Post(sending, body, "text/event-stream")
	if err != nil {
		if err = Unreachable(err); sent() {
			err = Begin(err)
		}
		return nil, err
	}
	answer.Body = bound(answer.Body, MaxStream, MaxSilence)
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return answer.Header, FromHTTP(providerhttp.Refusal(answer))
	}
	stream := &events{Reader: bufio.NewReader(answer.Body)}
	switch first, err := stream.first(); {
	case err != nil:
		return answer.Header, Begin(stream.ended(ctx, err))
	case first == '{', first == '[': // no stream: an answer, or a failure with status 200
		return answer.Header, whole(stream, event)
	case first == '<':
		return answer.Header, Fail(BadRequest, "the model's provider sent a web page, not an answer; "+
			"check its address: %s", providerhttp.Title(stream))
	}
	for first := true; ; first = false {
		data, err := stream.next()
		if err != nil {
			return answer.Header, Begin(stream.ended(ctx, err))
		}
		goOn, err := event(data)
		if stream.failure {
			err = BrokeOff(providerhttp.ParseTrouble(data))
		}
		if err == nil && !goOn {
			finish(answer.Body)
		}
		if refused := first && KindOf(err) == BadRequest; !refused {
			err = Begin(err)
		}
		if err != nil || !goOn {
			return answer.Header, err
		}
	}
}

// whole reads an answer that is not a stream.
func whole(body io.Reader, event func(data []byte) (bool, error)) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxEvent+1))
	if err != nil {
		return Unreachable(err)
	}
	if len(raw) > maxEvent {
		return Unreachable(errTooLong)
	}
	if trouble := providerhttp.ParseTrouble(raw); trouble.There || trouble.Message != "" {
		return BrokeOff(trouble)
	}
	_, err = event(raw)
	return err
}

// finish reads the bytes after the last event, if they have arrived already: only then is the connection reused.
func finish(body io.ReadCloser) {
	late := time.AfterFunc(100*time.Millisecond, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// events reads server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. Each byte is
// examined once. Common libraries rescan an incomplete line whenever more of it arrives. For a line of 8 MB in small
// pieces, that takes ten seconds of CPU time.
type events struct {
	*bufio.Reader

	cr      bool   // the last line ended with CR: an LF that follows belongs to it
	some    bool   // there was an event
	failure bool   // the event that was read last is named error
	strange []byte // the beginning of the first line that has no field
}

// first is the first byte that is not white space.
func (r *events) first() (byte, error) {
	if mark, _ := r.Peek(3); string(mark) == "\uFEFF" {
		_, _ = r.Discard(len(mark))
	}
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case b == ' ', b == '\t', b == '\r', b == '\n':
			continue
		}
		return b, r.UnreadByte()
	}
}

// ended is the failure of a stream after which nothing comes; nil: there were events.
func (r *events) ended(ctx context.Context, err error) error {
	failure := &Error{Kind: Retryable, Mute: !r.some && ctx.Err() == nil}
	switch strange := providerhttp.Line(r.strange); {
	case !errors.Is(err, io.EOF):
		failure.Err, failure.Cut = Unreachable(err), ctx.Err() == nil
	case r.some:
		return nil
	case strange != "":
		failure.Err = fmt.Errorf("the model's provider sent no stream: %s", strange)
	default:
		failure.Err = errors.New("the model's provider sent an empty answer")
	}
	return failure
}

// next reads the data of the next event. The last event needs no blank line after it, unless it is cut off.
func (r *events) next() (data []byte, err error) {
	there := false
	r.failure = false
	for {
		text, err := r.line(maxEvent - len(data))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		name, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(name) == "data" && there:
			data = append(append(data, '\n'), value...)
		case string(name) == "data":
			data, there = append(data, value...), true
		case string(name) == "event":
			r.failure = string(value) == "error"
		case string(name) == "error": // of llama.cpp and its forks
			data, r.failure = append(data, value...), true
		case len(text) > 0 && text[0] == '{': // a failure that is put into the stream as it is
			r.some = true
			return text, nil
		case len(r.strange) == 0 && !isField(string(name)):
			r.strange = bytes.Clone(text[:min(len(text), maxStrange)])
		}
		if ended := err != nil; ended || len(text) == 0 {
			if ended && !r.failure && !json.Valid(data) && !bytes.HasPrefix(data, []byte("[DONE]")) {
				return nil, err
			}
			if r.some = r.some || len(data) > 0; len(data) > 0 {
				return data, nil
			}
			there, r.failure = false, false // an event without data
		}
	}
}

// maxStrange limits what is kept of a line that is not a part of an event, in bytes.
const maxStrange = 1 << 10

func isField(name string) bool {
	return name == "" || name == "event" || name == "id" || name == "retry"
}

// line reads a line without its end: LF, CR or both. With io.EOF it is the last one, without an end.
func (r *events) line(most int) (line []byte, err error) {
	for {
		if _, err := r.Peek(1); err != nil {
			return line, err
		}
		there, _ := r.Peek(r.Buffered())
		if r.cr && there[0] == '\n' {
			r.cr = false
			_, _ = r.Discard(1)
			continue
		}
		r.cr = false
		end := bytes.IndexAny(there, "\r\n")
		if end < 0 {
			end = len(there)
		}
		if len(line)+end > most {
			return nil, errTooLong
		}
		line = append(line, there[:end]...)
		if end < len(there) {
			r.cr = there[end] == '\r'
			_, _ = r.Discard(end + 1)
			return line, nil
		}
		_, _ = r.Discard(end)
	}
}

var errTooLong = errors.New("an event of its answer is not complete")

// Decode decodes an event of a provider, unless it has too many values. A member of another type than expected is left
// out, and the rest is decoded. Clients see the error: it has no words of the JSON library.
func Decode(data []byte, into any) error {
	err := providerhttp.Read(data, maxEvent, maxValues, into)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); err != nil && (!is || wrong.Field == "") {
		return Fail(Retryable, "the answer of the model's provider does not follow its protocol")
	}
	return nil
}

// Arguments are a call's arguments or a piece of them: a string that contains JSON, or, from some endpoints, the
// JSON value itself.
type Arguments string

// UnmarshalJSON accepts any JSON value and never fails.
func (a *Arguments) UnmarshalJSON(raw []byte) error {
	if text, is := providerhttp.Unquote(raw); is {
		raw = []byte(text)
	} else if string(raw) == "null" {
		return nil
	}
	*a = Arguments(raw)
	return nil
}

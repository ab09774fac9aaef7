package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	message = "hello there"
	answer  = "You said: " + message
)

// server is a system that has been started.
type server struct {
	request func(context.Context) (*http.Request, error) // posts the message
	answers []string                                     // the texts that a right answer contains
}

// sample has the measures of one load of one system.
type sample struct {
	system         string
	round, runs    int
	took, p50, p99 time.Duration
	processor      time.Duration // of all processes of the system
}

func (s sample) rate() float64 { return float64(s.runs) / s.took.Seconds() }

// each returns the processor time of a run, in milliseconds.
func (s sample) each() float64 { return milliseconds(s.processor) / float64(s.runs) }

func (s sample) String() string {
	return fmt.Sprintf("%s: %.0f runs/s, p50 %.2f ms, p99 %.2f ms, %.2f ms of processor",
		s.system, s.rate(), milliseconds(s.p50), milliseconds(s.p99), s.each())
}

// load makes clients post messages for a while. Each waits for its answer before the next message. A wrong answer ends
// the load.
func load(ctx context.Context, to server, lasts time.Duration) (sample, error) {
	group, ctx := errgroup.WithContext(ctx)
	var took [clients][]time.Duration
	began := time.Now()
	for i := range clients {
		group.Go(func() error {
			c, err := dialClient(ctx, to)
			if err != nil {
				return err
			}
			defer c.close()
			for ctx.Err() == nil && time.Since(began) < lasts {
				at := time.Now()
				if err := c.post(); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(at))
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	s := sample{took: time.Since(began)}
	all := slices.Concat(took[:]...)
	if err == nil && len(all) == 0 {
		err = errors.New("no run was completed")
	}
	if err == nil {
		s.runs, s.p50, s.p99 = len(all), quantile(all, 0.5), quantile(all, 0.99)
	}
	return s, err
}

// client posts the same message again and again on one connection. It implements only the part of HTTP for that. The
// client of net/http passes each request and each answer to another goroutine. It takes twice the processor time, on
// the cores of the systems that it measures.
type client struct {
	to          server
	httpRequest *http.Request
	request     []byte // as it is sent
	conn        net.Conn
	reader      *bufio.Reader
	body        bytes.Buffer
}

// answerTime is the longest time that a client waits for an answer.
const answerTime = 30 * time.Second

func dialClient(ctx context.Context, to server) (*client, error) {
	r, err := to.request(ctx)
	if err != nil {
		return nil, err
	}
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", r.URL.Host, answerTime)
	if err != nil {
		return nil, err
	}
	return &client{to: to, httpRequest: r, request: request.Bytes(), conn: conn, reader: bufio.NewReader(conn)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// post sends the message and reads its answer.
func (c *client) post() error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, c.httpRequest)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	c.body.Reset()
	if _, err := c.body.ReadFrom(response.Body); err != nil {
		return err
	}
	if response.Close {
		return errors.New("the server closes a connection after an answer")
	}
	for _, part := range c.to.answers {
		if response.StatusCode != http.StatusOK || !bytes.Contains(c.body.Bytes(), []byte(part)) {
			return fmt.Errorf("not a right answer: %s: %.300s", response.Status, c.body.Bytes())
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/share"
)

// drips is a connection on which a body comes: a piece after each pause. It has the deadline of the last call of set.
type drips struct {
	there    int // bytes that have come and were not read; at first, those that come immediately
	piece    int
	pause    time.Duration
	left     int // bytes that were not read
	deadline time.Time
}

func (d *drips) set(t time.Time) error {
	d.deadline = t
	return nil
}

func (d *drips) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if d.there == 0 {
		if wait := time.Until(d.deadline); wait < d.pause {
			time.Sleep(wait)
			return 0, os.ErrDeadlineExceeded
		}
		time.Sleep(d.pause)
		d.there = d.piece
	}
	n := min(len(p), d.left, d.there)
	d.there -= n
	d.left -= n
	copy(p, bytes.Repeat([]byte("1"), n))
	return n, nil
}

func (d *drips) Close() error { return nil }

// connection is an answer on the connection.
type connection struct {
	*httptest.ResponseRecorder

	in *drips
}

// SetReadDeadline is for http.ResponseController.
func (c connection) SetReadDeadline(t time.Time) error { return c.in.set(t) }

// A body that is held must keep its pace, above all when there is little room for others. A slow body that keeps it
// passes.
func TestABodyKeepsItsPace(t *testing.T) {
	const (
		size     = 8 << 20
		all      = 128 << 20
		much     = all/2 + 1
		whole    = size / bodyRate * time.Second
		stalls   = stallTime + time.Second
		hurries  = hurried + time.Second
		trickles = 4 * time.Second
	)
	for name, c := range map[string]struct {
		body   drips
		others int64 // bytes that others hold
		passes bool
		within time.Duration
	}{
		"nothing":              {drips{pause: time.Hour}, 0, false, stalls},
		"a stall at the end":   {drips{there: size - 1, pause: time.Hour}, 0, false, stalls},
		"drops at the end":     {drips{there: size - 9, piece: 1, pause: trickles}, 0, false, stalls},
		"drops":                {drips{piece: 1, pause: trickles}, 0, false, stalls},
		"at the rate":          {drips{piece: bodyRate, pause: time.Second}, 0, true, whole},
		"in fits":              {drips{piece: 20 * bodyRate, pause: 20 * time.Second}, 0, true, whole + 20*time.Second},
		"at half the rate":     {drips{piece: bodyRate / 2, pause: time.Second}, 0, false, 2 * stalls},
		"hurried: a stall":     {drips{there: size - 1, pause: time.Hour}, much, false, hurries},
		"hurried: drops":       {drips{there: size - 9, piece: 1, pause: trickles}, much, false, hurries},
		"hurried: at the rate": {drips{piece: bodyRate, pause: time.Second}, much, true, whole},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{
					Config: Config{MaxBody: 64 << 20, Stall: stallTime},
					bodies: share.New(share.Limits{All: all}), smallBodies: share.New(share.Limits{All: all}),
				}
				others := s.bodies.Part(share.Holder{Organization: "other"})
				assert.NoError(t, others.Take(c.others))
				c.body.left = size
				w := connection{httptest.NewRecorder(), &c.body}
				r := httptest.NewRequest(http.MethodPost, "/", &c.body)
				r.ContentLength = size
				call := &Call{Principal: tenant.Principal{Organization: "o"}, release: func() {}}
				call.body = s.steadyBody(w, r)
				began := time.Now()
				_, err := s.ReadBody(w, r, call)
				assert.Equal(t, c.passes, err == nil, "%v", err)
				assert.LessOrEqual(t, time.Since(began), c.within)
				call.release()
				assert.Equal(t, c.others, s.bodies.Held())
				assert.Zero(t, s.smallBodies.Held())
			})
		})
	}
}

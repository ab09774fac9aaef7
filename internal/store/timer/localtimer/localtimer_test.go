package localtimer_test

import (
	"testing"
	"time"

	"agentplatform/internal/store/queue/localqueue"
	"agentplatform/internal/store/timer/localtimer"
	"agentplatform/internal/store/timer/timertest"
)

func TestContract(t *testing.T) {
	timertest.Run(t, func(t *testing.T) timertest.Bench {
		q := localqueue.New()
		timer := localtimer.New(q)
		t.Cleanup(timer.Close)
		return timertest.Bench{Timer: timer, Queue: q, Tick: 200 * time.Millisecond}
	})
}

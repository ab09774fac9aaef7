package stream_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a thousand runs say all the time is read a hundred frames in a call, and each reader gets each word once.
func TestThousandSpeakingStreamsMakeFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, words = 1000, 10
		c := newCrowd(t, streams)
		defer c.stop()
		time.Sleep(5 * time.Second)
		speak := func(words int) {
			for range words {
				for _, w := range c.writers {
					w.Append(c.Context(), "word ")
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
		speak(8) // until glances know that they speak
		n := c.within(func() { speak(words) })
		t.Logf("%.1f calls a second", float64(n)/words*4)
		assert.LessOrEqual(t, n, int64(words*60), "2,000 a word if each were read by itself")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range streams {
			require.Equal(t, strings.Repeat("word ", 8+words), c.text(i))
		}
	})
}

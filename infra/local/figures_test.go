//go:build integration

package local

import (
	"archive/zip"
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The figures of the functions:
//
//	go test -tags integration -run - -bench . -benchtime 10x ./infra/local
//
// on a LocalStack that runs, with the functions built and the stacks synthesised, as make integration does.

// BenchmarkInit measures the time from the start of a process to its first request for an invocation, and the size
// of the program.
func BenchmarkInit(b *testing.B) {
	w := startWithoutSweeps(b, nil)
	for _, name := range []string{"chat", "api", "broker", "reader", "worker", "webhook", "job", "ingest", "sweeper"} {
		b.Run(name, func(b *testing.B) {
			r := &runtime{bootstrap: binary(b, name),
				environ: w.environ(b, strings.ToUpper(name[:1])+name[1:]+"FunctionName"), timeout: time.Minute,
				log: io.Discard}
			defer r.close()
			for b.Loop() {
				r.mu.Lock()
				e, err := r.start()
				r.mu.Unlock()
				require.NoError(b, err)
				select {
				case <-e.ready:
				case <-e.ended:
					b.Fatal("the function did not start")
				}
				require.NoError(b, e.process.Process.Kill())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/init")
			b.ReportMetric(float64(zippedSize(b, binary(b, name)))/(1<<20), "MB-zipped")
		})
	}
}

func zippedSize(b *testing.B, file string) int {
	content, err := os.ReadFile(file)
	require.NoError(b, err)
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("bootstrap")
	require.NoError(b, err)
	_, err = f.Write(content)
	require.NoError(b, err)
	require.NoError(b, w.Close())
	return out.Len()
}

// BenchmarkFirstLine measures the time from POST /chat to the first line of its stream: with a running process,
// and with one that has to start.
func BenchmarkFirstLine(b *testing.B) {
	w := start(b, nil)
	agent := w.agent(b)
	first := func(b *testing.B) {
		response, err := http.DefaultClient.Do(w.chatRequest(b, "agent_id", agent, "message", "hello", "streaming",
			"true"))
		require.NoError(b, err)
		lines := bufio.NewReader(response.Body)
		_, err = lines.ReadString('\n')
		require.NoError(b, err)
		b.StopTimer()
		_, err = io.Copy(io.Discard, lines)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
		b.StartTimer()
	}
	b.Run("warm", func(b *testing.B) {
		first(b)
		for b.Loop() {
			first(b)
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			w.chat.forget()
			b.StartTimer()
			first(b)
		}
	})
}

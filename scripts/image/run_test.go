package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unpack writes the layers of an image to a folder, and returns the contents of the files by their names.
func unpack(t *testing.T, image v1.Image, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for entries := tar.NewReader(content); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		at := filepath.Join(folder, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(at, 0o700))
		} else {
			raw, err := io.ReadAll(entries)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(at, raw, 0o600))
			files[h.Name] = string(raw)
		}
		require.NoError(t, os.Chmod(at, h.FileInfo().Mode()))
		if os.Getuid() == 0 {
			require.NoError(t, os.Chown(at, h.Uid, h.Gid))
		}
	}
}

// machine runs the commands of an image, in a folder with its files. As root it does so as Docker does: the folder is
// the root of the file system, and the user is that of the image.
type machine struct {
	folder string
	run    v1.Config
}

func (m machine) command(t *testing.T, words, environ []string) *exec.Cmd {
	t.Helper()
	program, data := words[0], "/data"
	if os.Getuid() != 0 {
		program, data = filepath.Join(m.folder, words[0]), filepath.Join(m.folder, data)
	}
	command := exec.CommandContext(t.Context(), program, words[1:]...)
	command.Env = slices.Concat(m.run.Env, []string{"DATA_DIR=" + data}, environ)
	command.Stderr = os.Stderr
	confine(t, command, m)
	return command
}

var greeting = regexp.MustCompile(`Agent Platform at (http://127\.0\.0\.1:\d+)(/\S+)`)

// serve runs the program until the test calls stop.
func (m machine) serve(t *testing.T) (address, base string, stop func()) {
	t.Helper()
	command := m.command(t, m.run.Entrypoint, []string{"ADDR=127.0.0.1:0", "LOG_LEVEL=error"})
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if found := greeting.FindStringSubmatch(lines.Text()); found != nil {
			address, base = found[1], found[2]
		}
	}
	require.NotEmpty(t, address, "the program does not start")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return address, base, func() {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		require.NoError(t, command.Wait())
	}
}

// The program runs with no other file than those of the image, and without rights; its data outlive it.
func TestTheProgramRunsInItsImage(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it builds the program, for Linux")
	}
	binary := filepath.Join(t.TempDir(), "agentplatform")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary,
		"../../functions/agentplatform")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	program, err := os.ReadFile(binary)
	require.NoError(t, err)
	image, err := imageOf("v1.2.3", runtime.GOARCH, program, nil)
	require.NoError(t, err)
	file, err := image.ConfigFile()
	require.NoError(t, err)
	folder, err := os.MkdirTemp("", "image") // not of the test: others must be able to enter it
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(folder) }()
	require.NoError(t, os.Chmod(folder, 0o755))
	unpack(t, image, folder)
	m := machine{folder, file.Config}

	address, base, stop := m.serve(t)
	health := file.Config.Healthcheck.Test
	require.Equal(t, "CMD", health[0])
	environ := []string{"ADDR=" + strings.TrimPrefix(address, "http://")}
	require.NoError(t, m.command(t, health[1:], environ).Run())
	key := post(t, m, address+base)
	stop()
	assert.Error(t, m.command(t, health[1:], environ).Run(), "it is not healthy when it has ended")

	address, base, stop = m.serve(t)
	assert.Equal(t, key, post(t, m, address+base), "the data are those of before")
	stop()
}

// post sends a message with the operator's key, and returns the key.
func post(t *testing.T, m machine, api string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.folder, "data", "operator.key"))
	require.NoError(t, err)
	key := strings.TrimSpace(string(raw))
	send := func(method, at, kind string, body io.Reader) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, api+at, body)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", kind)
		answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	status, agents := send(http.MethodGet, "/agents", "", http.NoBody)
	require.Equal(t, http.StatusOK, status, agents)
	agent := regexp.MustCompile(`"agent_id":"([^"]+)"`).FindStringSubmatch(agents)
	require.NotNil(t, agent, agents)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("agent_id", agent[1]))
	require.NoError(t, w.WriteField("message", "Hello there"))
	require.NoError(t, w.Close())
	status, answer := send(http.MethodPost, "/chat", w.FormDataContentType(), &form)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Contains(t, answer, "Hello there")
	return key
}

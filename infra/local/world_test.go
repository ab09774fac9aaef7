//go:build integration

package local

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/awstest"
	"agentplatform/internal/proof/scenario"
	"agentplatform/internal/proof/vectorserver"
)

var worlds atomic.Int64

// world is a deployed service with all its processes.
type world struct {
	*deployment
	scenario.World

	chat    *runtime
	vectors *vectors
	streams *task
}

// start deploys a world: stacks, front, chat function and stream service. It starts a sweep every four seconds, where
// the schedule would start one each minute.
func start(t testing.TB, settings map[string]string) world {
	t.Helper()
	w := startWithoutSweeps(t, settings)
	w.sweep(t)
	return w
}

// startWithoutSweeps leaves the sweeper to its schedule.
func startWithoutSweeps(t testing.TB, settings map[string]string) world {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	index := newVectors(t)
	full := map[string]string{
		"PUBLIC_URL": server.URL, "CACHE_LIFE": "0s", // scenarios read what they have just written
	}
	maps.Copy(full, settings)
	name := fmt.Sprintf("w%d%d", os.Getpid(), worlds.Add(1))
	d := deploy(t, name, full, newGuards(t, index.address))
	index.empty(t, d)
	t.Cleanup(func() {
		if t.Failed() {
			d.complaints(t)
		}
	})
	log := logFile(t, name)

	environ := d.environ(t, "ChatFunctionName")
	chat := &runtime{bootstrap: binary(t, "chat"), environ: environ, timeout: 15 * time.Minute, log: log}
	streams := d.streamService(t, environ, log, "127.0.0.1:0")
	gateway, err := url.Parse(*d.account.BaseEndpoint + "/_aws/execute-api/" + d.outputs["ApiId"] + "/api")
	require.NoError(t, err)
	handler = front(gateway, streams.address, chat, d.originKey(t))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		chat.close()
	})
	w := world{d, scenario.World{URL: server.URL + "/api/v1", Key: d.firstKey(t), Spread: true}, chat, index, streams}
	t.Cleanup(w.notePeaks) // before its processes are ended
	return w
}

// vectors is the stand-in for S3 Vectors in a world.
type vectors struct {
	address string
	server  atomic.Pointer[vectorserver.Server]
}

func newVectors(t testing.TB) *vectors {
	t.Helper()
	v := &vectors{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.server.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	v.address = server.URL
	return v
}

// empty makes an empty vector bucket, as the data stack would.
func (v *vectors) empty(t testing.TB, d *deployment) {
	t.Helper()
	v.server.Store(&vectorserver.Server{})
	client := s3vectors.NewFromConfig(d.account, func(o *s3vectors.Options) { o.BaseEndpoint = &v.address })
	_, err := client.CreateVectorBucket(t.Context(),
		&s3vectors.CreateVectorBucketInput{VectorBucketName: aws.String(d.outputs["VectorBucket"])})
	require.NoError(t, err)
}

func binary(t testing.TB, name string) string {
	t.Helper()
	path := "../../dist/" + name + "/bootstrap"
	_, err := os.Stat(path)
	require.NoError(t, err, "make integration builds the functions first")
	return path
}

// logFile returns a file for the output of a world's processes. It is kept if the test fails.
func logFile(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.CreateTemp("", "agents-"+name+"-*.log")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the processes' log: ", f.Name())
		} else {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	})
	return f
}

// complaints logs the warnings and errors of the deployed functions, and the process ends that Lambda reported.
func (d *deployment) complaints(t testing.TB) {
	logs := cloudwatchlogs.NewFromConfig(d.account)
	groups, err := logs.DescribeLogGroups(awstest.Cleaning(),
		&cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("/aws/lambda/agents-" + d.world)})
	if err != nil {
		t.Log("the functions' logs cannot be read: ", err)
		return
	}
	for _, group := range groups.LogGroups {
		out, err := logs.FilterLogEvents(awstest.Cleaning(),
			&cloudwatchlogs.FilterLogEventsInput{LogGroupName: group.LogGroupName})
		if err != nil {
			t.Log(*group.LogGroupName, "cannot be read: ", err)
			continue
		}
		for _, e := range out.Events {
			line := aws.ToString(e.Message)
			if strings.HasPrefix(line, "{") && !strings.Contains(line, `"level":"WARN"`) &&
				!strings.Contains(line, `"level":"ERROR"`) {
				continue
			}
			if !slices.ContainsFunc([]string{"START ", "END ", "REPORT "},
				func(p string) bool { return strings.HasPrefix(line, p) }) {
				t.Log(*group.LogGroupName, strings.TrimSpace(line))
			}
		}
	}
}

// environ returns the environment of a deployed function. Calls to tables also go through its guard.
func (d *deployment) environ(t testing.TB, output string) []string {
	t.Helper()
	c, err := lambda.NewFromConfig(d.account).GetFunctionConfiguration(t.Context(),
		&lambda.GetFunctionConfigurationInput{
			FunctionName: aws.String(d.outputs[output]),
		})
	require.NoError(t, err)
	list := []string{"AWS_ENDPOINT_URL_DYNAMODB="}
	for name, value := range c.Environment.Variables {
		list = append(list, name+"="+value)
	}
	return list
}

// servingAt finds the address in the log of the stream service.
var servingAt = regexp.MustCompile(`"serving streams","addr":"([^"]+)"`)

// task is a process of the stream service.
type task struct {
	process *exec.Cmd
	address *url.URL
}

// healthy reports the result of the load balancer's health check.
func (s *task) healthy() bool {
	r, err := http.Get(s.address.String() + "/api/v1/healthz") //nolint:noctx // a test
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// streamService starts a task that listens at an address.
func (d *deployment) streamService(t testing.TB, environ []string, log io.Writer, at string) *task {
	t.Helper()
	process := exec.Command(binary(t, "stream"))
	process.Env = append(append(os.Environ(), environ...), "ADDR="+at,
		"AWS_ENDPOINT_URL="+d.guards.addresses["StreamTask"])
	own, err := os.CreateTemp(t.TempDir(), "stream-*.log")
	require.NoError(t, err)
	process.Stdout = io.MultiWriter(own, log)
	process.Stderr = process.Stdout
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Signal(os.Interrupt)
		_ = process.Wait()
		_ = own.Close()
	})
	var address []byte
	require.Eventually(t, func() bool {
		output, err := os.ReadFile(own.Name())
		if m := servingAt.FindSubmatch(output); err == nil && m != nil {
			address = m[1]
		}
		return address != nil
	}, 2*time.Minute, 20*time.Millisecond, "the stream service does not say where it serves")
	s := &task{process, &url.URL{Scheme: "http", Host: string(address)}}
	require.Eventually(t, s.healthy, 2*time.Minute, 50*time.Millisecond, "the stream service")
	return s
}

// worker starts the worker's program as in a container, with many parallel runs in this process. At the end of the test
// it is stopped as a container is, unless it was ended before.
func (w world) worker(t testing.TB) *exec.Cmd {
	t.Helper()
	process := exec.Command(binary(t, "worker"))
	process.Env = append(os.Environ(), w.environ(t, "WorkerFunctionName")...)
	log := logFile(t, w.world+"-worker")
	process.Stdout, process.Stderr = log, log
	require.NoError(t, process.Start())
	t.Cleanup(func() { end(process, syscall.SIGTERM) })
	return process
}

// end signals a process to end, and waits until it has. It may have ended before.
func end(process *exec.Cmd, how os.Signal) {
	_ = process.Process.Signal(how)
	_ = process.Wait()
}

// originKey returns the key that the distribution sends to the gateway.
func (d *deployment) originKey(t testing.TB) string {
	t.Helper()
	out, err := secretsmanager.NewFromConfig(d.account).GetSecretValue(t.Context(),
		&secretsmanager.GetSecretValueInput{SecretId: aws.String(d.outputs["OriginKeyArn"])})
	require.NoError(t, err)
	return aws.ToString(out.SecretString)
}

func (d *deployment) firstKey(t testing.TB) string {
	t.Helper()
	command := exec.Command("go", "run", "../../scripts/firstkey", "-table", d.outputs["CoreTable"])
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	var first struct{ Key string }
	require.NoError(t, json.Unmarshal(out, &first), string(out))
	return first.Key
}

// sweep invokes the sweeper until the test ends.
func (d *deployment) sweep(t testing.TB) {
	client := lambda.NewFromConfig(d.account)
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		tick := time.NewTicker(4 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			out, err := client.Invoke(awstest.Cleaning(), &lambda.InvokeInput{
				FunctionName:   aws.String(d.outputs["SweeperFunctionName"]),
				InvocationType: types.InvocationTypeRequestResponse, Payload: []byte(`{}`),
			})
			if err != nil {
				t.Log("the sweeper could not be invoked: ", err)
			} else if out.FunctionError != nil {
				t.Log("the sweeper failed: ", strings.TrimSpace(string(out.Payload)))
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		sweeping.Wait()
	})
}

type cloudHarness struct{}

func (cloudHarness) Start(t *testing.T, settings map[string]string) scenario.World {
	return start(t, settings).World
}

func TestScenarios(t *testing.T) { scenario.Run(t, cloudHarness{}) }

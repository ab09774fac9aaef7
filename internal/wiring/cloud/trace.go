package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"go.opentelemetry.io/otel/attribute"

	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/trace/otlp"
	"agentplatform/internal/platform/version"
	"agentplatform/internal/run/dispatch"
)

// flushTime limits the time that traces add to an invocation.
const flushTime = 500 * time.Millisecond

// SpansDropped counts spans that did not fit into the buffer or that the receiver refused.
const SpansDropped = "SpansDropped"

// trace makes the tracer and its exporter, if the setting for the endpoint is set. Requests to X-Ray are signed with
// the function's own credentials; a collector gets unsigned ones.
func (p *Platform) trace() (err error) {
	s := p.Settings
	if s.OTLPEndpoint == "" {
		return nil
	}
	built, _ := version.Read()
	o := otlp.Options{
		Endpoint: s.OTLPEndpoint, Log: p.Log, Now: time.Now,
		Resource: []attribute.KeyValue{
			attribute.String("service.name", "agent-platform"), attribute.String("service.version", built),
			attribute.String("deployment.environment.name", p.Cloud.Stage), attribute.String("cloud.provider", "aws"),
			attribute.String("cloud.region", p.Account.Region),
		},
	}
	if name := os.Getenv("AWS_LAMBDA_FUNCTION_NAME"); name != "" {
		o.Resource = append(o.Resource, attribute.String("faas.name", name))
	}
	if region := XRayRegion(s.OTLPEndpoint); region != "" {
		o.Sign = signer(p.Account.Credentials, region)
	}
	if p.traces, err = otlp.New(o); err != nil {
		return err
	}
	p.Tracer = trace.New(s.TraceShare, p.traces)
	return nil
}

// XRayRegion is the Region of an address of X-Ray, xray.<Region>.amazonaws.com; empty for any other address.
func XRayRegion(endpoint string) string {
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "https" {
		return ""
	}
	service, rest, _ := strings.Cut(at.Hostname(), ".")
	region, domain, _ := strings.Cut(rest, ".")
	if (service != "xray" && service != "xray-fips") || (domain != "amazonaws.com" && domain != "amazonaws.com.cn") {
		return ""
	}
	return region
}

// signer signs requests to X-Ray by Signature Version 4.
func signer(
	credentials aws.CredentialsProvider, region string,
) func(context.Context, *http.Request, []byte) error {
	signing := v4.NewSigner()
	return func(ctx context.Context, r *http.Request, body []byte) error {
		who, err := credentials.Retrieve(ctx)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		return signing.SignHTTP(ctx, who, r, hex.EncodeToString(sum[:]), "xray", region, time.Now())
	}
}

// Requests makes a handler send its traces before a request ends: a function may be frozen after that.
func (p *Platform) Requests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer p.FlushTraces(r.Context())
		h.ServeHTTP(w, r)
	})
}

// TraceWakeups makes a handler of wakeups record traces, and send them before an invocation ends.
func (p *Platform) TraceWakeups(handle dispatch.Handler) dispatch.Handler {
	return func(ctx context.Context, id string) (time.Duration, error) {
		defer p.FlushTraces(ctx)
		return handle(p.Traced(ctx), id)
	}
}

// Answer answers the ask of another program, both as JSON. It is a handler of Lambda.
type Answer func(ctx context.Context, ask []byte) (answer []byte, err error)

// Invoke implements Lambda's interface of handlers.
func (a Answer) Invoke(ctx context.Context, ask []byte) ([]byte, error) { return a(ctx, ask) }

// Asks makes a handler of asks record traces, and send them before an invocation ends.
func (p *Platform) Asks(next Answer) Answer {
	return func(ctx context.Context, ask []byte) ([]byte, error) {
		defer p.FlushTraces(ctx)
		return next(p.Traced(ctx), ask)
	}
}

// Traced returns a context whose work is traced, if the setting for the endpoint is set.
func (p *Platform) Traced(ctx context.Context) context.Context {
	if p.traces == nil {
		return ctx
	}
	return trace.With(ctx, p.Tracer)
}

// reportEvery is the interval of reports of a process's load. The service is scaled by them.
const reportEvery = 30 * time.Second

// Report reports a number of a process that is never frozen, and sends its traces, until ctx ends. end waits for that
// and sends the last traces.
func (p *Platform) Report(ctx context.Context, metric string, number func() int64) (end func()) {
	reporting := p.Host.Go(func() {
		for p.Host.Sleep(ctx, reportEvery) == nil {
			p.Metrics.Put(Value{metric, "Count", float64(number())})
		}
	})
	tracing := p.Host.Go(func() {
		if p.traces != nil {
			p.traces.Run(ctx)
		}
	})
	return func() {
		tracing()
		p.FlushTraces(context.Background())
		reporting()
	}
}

// FlushTraces sends the waiting traces, within half a second. A failure costs that time once; then nothing is sent to
// the receiver for a while.
func (p *Platform) FlushTraces(ctx context.Context) {
	if p.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	p.traces.Flush(ctx)
	if n := p.traces.Lost(); n > 0 {
		p.Metrics.Put(Value{SpansDropped, "Count", float64(n)})
	}
}

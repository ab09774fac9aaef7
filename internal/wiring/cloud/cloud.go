// Package cloud is the wiring that the functions on AWS share: clients made once, adapters over them, and the use cases
// that every function needs. Main packages add the rest (HTTP layer, agent loop, webhook sender). So no binary links
// code that it does not use: smaller functions start faster.
//
// It contains no rules. With boot it is the only importer of adapters.
package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"agentplatform/events"
	"agentplatform/internal/ai/provider"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/logline"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/platform/trace/otlp"
	"agentplatform/internal/run/stream"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/s3blob"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/store/queue/sqsqueue"
	"agentplatform/internal/store/ratelimit"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
	"agentplatform/internal/store/seal/kmsseal"
	"agentplatform/internal/store/table/cachetable"
	"agentplatform/internal/store/table/dynamotable"
	"agentplatform/internal/store/timer/sfntimer"
)

// Platform is the common part of all functions.
type Platform struct {
	Settings setting.Settings
	Cloud    setting.Cloud
	Log      *slog.Logger
	Host     host.Host
	Store    *record.Store
	Cached   record.CachedReader // cached reads, some seconds old at most
	Tenants  *tenant.Tenants
	Executor *transition.Executor
	Hub      *stream.Hub
	Shared   *ratelimit.Shared
	Queues   Queues
	Metrics  *Metrics
	Sealer   seal.Sealer
	Models   provider.Models
	Toolkits *toolkit.Toolkits // without kinds, except in functions that make them
	Account  aws.Config        // for clients that only some functions have
	Tracer   *trace.Tracer     // nil: no traces

	secrets *secretsmanager.Client
	traces  *otlp.Exporter // nil: no traces
}

// ReadSecrets adds the deployment's secrets to the settings, with one call of Secrets Manager. They are the keys of
// model providers, and the key that signs webhooks of organizations without a secret. Its error is that of the call, or
// of an invalid secret.
func (p *Platform) ReadSecrets(ctx context.Context) error {
	if p.Cloud.Secrets == "" {
		return nil
	}
	out, err := p.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &p.Cloud.Secrets})
	if err != nil {
		return fmt.Errorf("the secrets in SECRETS_ARN: %w", err)
	}
	var kept map[string]string
	if err := json.Unmarshal([]byte(aws.ToString(out.SecretString)), &kept); err != nil {
		return fmt.Errorf("the secrets in SECRETS_ARN must be a JSON object of strings: %w", err)
	}
	names := []string{"WEBHOOK_SECRET"}
	for _, of := range registry.All() {
		if of.Key != "" {
			names = append(names, of.Key)
		}
	}
	for _, name := range names {
		if secret := p.Settings.Secret(name); *secret == "" {
			*secret = kept[name]
		}
	}
	p.Models = &provider.Set{Host: p.Host, Catalogues: registry.Catalogues(p.Settings)}
	return nil
}

// Queues sends each wakeup to the queue of its kind.
type Queues map[events.WakeupKind]*sqsqueue.Queue

// Send sends a wakeup. Its error is the queue's, or that no queue is configured for the kind.
func (q Queues) Send(ctx context.Context, m queue.Message) error {
	to, ok := q[m.Wakeup.Kind]
	if !ok {
		return fmt.Errorf("cloud: no queue takes nudges of the kind %q", m.Wakeup.Kind)
	}
	return to.Send(ctx, m)
}

// SendAll sends wakeups, those of a kind in as few calls as possible. It returns the errors of Send, one for each
// wakeup.
func (q Queues) SendAll(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	batches, indexes := map[events.WakeupKind][]queue.Message{}, map[events.WakeupKind][]int{}
	for i, m := range ms {
		kind := m.Wakeup.Kind
		if q[kind] == nil {
			errs[i] = q.Send(ctx, m)
			continue
		}
		batches[kind], indexes[kind] = append(batches[kind], m), append(indexes[kind], i)
	}
	for kind, batch := range batches {
		for n, err := range q[kind].SendAll(ctx, batch) {
			errs[indexes[kind][n]] = err
		}
	}
	return errs
}

// SendWakeup sends a wakeup that may be lost: the sweeper finds the due item.
func (p *Platform) SendWakeup(ctx context.Context, kind events.WakeupKind, id, group string) {
	p.Wake(ctx, queue.Message{Wakeup: events.Wakeup{Kind: kind, ID: id}, Group: group})
}

// Wake sends a message that may be lost.
func (p *Platform) Wake(ctx context.Context, m queue.Message) {
	if err := p.Queues.Send(ctx, m); err != nil {
		p.Log.Warn("a nudge could not be sent; the sweeper will see to it", "kind", m.Wakeup.Kind, "error", err)
	}
}

const (
	// callTime limits one call of an AWS service.
	callTime = 10 * time.Second
	// missingLife is the longest time for which the cache remembers that a key does not exist.
	missingLife = 5 * time.Second
	// pollEvery is the interval at which a stream polls for new frames: between processes there are no notifications.
	pollEvery = 250 * time.Millisecond
)

// Access is a program's right to the core table. A program that may only read must not try to write. With an empty
// store it would fail at its start.
type Access int

// The kinds of access.
const (
	ReadWrite Access = iota
	ReadOnly
)

// Open reads the environment, makes the clients and use cases, and makes one call to check that the table exists. It
// fails if a setting is missing or invalid, or if the table cannot be read.
func Open(ctx context.Context, access Access) (*Platform, error) {
	settings, err := setting.Read(os.Environ())
	if err != nil {
		return nil, err
	}
	resources, err := setting.ReadCloud(os.Environ())
	if err != nil {
		return nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.LogLevel)); err != nil {
		return nil, err
	}
	log := logline.New(os.Stdout, level)
	account, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(callTime)))
	if err != nil {
		return nil, err
	}
	return New(ctx, account, settings, resources, access, log, os.Stdout)
}

// New is Open with explicit configuration; metrics are written to out. Errors as of Open.
func New(
	ctx context.Context, account aws.Config, s setting.Settings, c setting.Cloud, access Access, log *slog.Logger,
	out io.Writer,
) (*Platform, error) {
	machine := host.System()
	s.ToolCommands = nil // functions start no other programs
	db, queues := dynamodb.NewFromConfig(account), sqs.NewFromConfig(account)
	objects := s3.NewFromConfig(account, func(o *s3.Options) { o.UsePathStyle = account.BaseEndpoint != nil })
	core := dynamotable.New(db, c.CoreTable, machine.Now)
	blobs := s3blob.New(objects, c.Bucket)
	store := record.New(core, blobs, machine).LimitFiles(record.FileLimits{
		User:         record.FileUse{Count: int64(s.UserFiles), Bytes: s.UserFileBytes},
		Organization: record.FileUse{Count: int64(s.OrgFiles), Bytes: s.OrgFileBytes},
	})
	if s.SpreadSlots {
		store = store.SpreadSlotsAbove(record.LargeCap)
	}
	if access == ReadOnly {
		store = store.ReadOnly()
	}
	known := store.Cached()
	if c.CacheLife > 0 {
		life := cachetable.Life{Found: c.CacheLife, Missing: min(c.CacheLife, missingLife)}
		known = record.New(cachetable.New(core, life, machine.Elapsed), blobs, machine).Cached()
	}
	if err := store.EnsureDeployment(ctx); err != nil {
		return nil, fmt.Errorf("the table %s cannot be used: %w", c.CoreTable, err)
	}
	sealer := kmsseal.New(kms.NewFromConfig(account), c.SealingKey)
	p := &Platform{
		Sealer: sealer, Models: &provider.Set{Host: machine, Catalogues: registry.Catalogues(s)},
		Toolkits: &toolkit.Toolkits{Store: store, Cached: known, Host: machine, Sealer: sealer},
		secrets:  secretsmanager.NewFromConfig(account),
		Account:  account, Settings: s, Cloud: c, Log: log, Host: machine, Store: store, Cached: known,
		Metrics: NewMetrics(out, c.Stage, machine.Now),
		Queues: Queues{
			events.WakeupRun:      sqsqueue.New(queues, c.RunQueue),
			events.WakeupWebhook:  sqsqueue.New(queues, c.WebhookQueue),
			events.WakeupJob:      sqsqueue.New(queues, c.JobQueue),
			events.WakeupDocument: sqsqueue.New(queues, c.IngestQueue),
		},
	}
	p.Tenants = p.tenants()
	if err := p.trace(); err != nil {
		return nil, err
	}
	notifier := stream.Polling{Every: pollEvery}
	feed := dynamotable.New(db, c.StreamTable, machine.Now)
	p.Hub = stream.New(feed, notifier, machine, log)
	p.Shared = &ratelimit.Shared{Table: feed, Host: machine}
	p.Executor = &transition.Executor{
		Store: store, Queue: p.Queues, Timer: sfntimer.New(sfntimer.Client(account), c.PauseMachine),
		Notifier: notifier, Host: machine, Log: log, Caps: p.Tenants.Caps, StartDeadline: s.StartDeadline,
		OnTransition: p.Metrics.Transition,
	}
	return p, nil
}

// tenants makes the use case of users, agents and their rights.
func (p *Platform) tenants() *tenant.Tenants {
	s := p.Settings
	return tenant.New(p.Store, p.Cached, p.Host, tenant.Defaults{
		UserCap: s.UserCap, OrganizationCap: s.OrganizationCap, RateLimit: s.RateLimit, RateBurst: s.RateBurst,
		OrganizationRate: s.OrganizationRateLimit, OrganizationBurst: s.OrganizationRateBurst,
		UserKeys: s.UserAPIKeys, OrganizationKeys: s.OrganizationAPIKeys,
		ActiveLimit: s.ActiveLimit, Tools: p.Toolkits.ToolsOf,
		CheckModel: func(ctx context.Context, provider, name string, skip bool) error {
			return p.Models.Check(ctx, provider, name, skip) // with the current Models
		},
	}, p.Sealer)
}

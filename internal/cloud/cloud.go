// Package cloud is the wiring that the functions on AWS share: clients made once, adapters over them, and the use cases
// that each of them needs. What only some need (the HTTP edge, the agent loop, the webhook sender) their mains add, so
// that no binary links what it does not use.
//
// It reads no rule. With internal/boot it is the only importer of adapters.
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
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"agentplatform/events"
	"agentplatform/internal/blob"
	"agentplatform/internal/blob/s3blob"
	"agentplatform/internal/feed"
	"agentplatform/internal/host"
	"agentplatform/internal/logline"
	"agentplatform/internal/model/modellist"
	"agentplatform/internal/move"
	"agentplatform/internal/provider"
	"agentplatform/internal/queue"
	"agentplatform/internal/queue/sqsqueue"
	"agentplatform/internal/record"
	"agentplatform/internal/seal"
	"agentplatform/internal/seal/kmsseal"
	"agentplatform/internal/setting"
	"agentplatform/internal/table/cachetable"
	"agentplatform/internal/table/dynamotable"
	"agentplatform/internal/tenant"
	"agentplatform/internal/timer/sfntimer"
	"agentplatform/internal/toolkit"
)

// Platform is what every function has.
type Platform struct {
	Settings setting.Settings
	Cloud    setting.Cloud
	Log      *slog.Logger
	Host     host.Host
	Store    *record.Store
	Direct   blob.Direct   // the bucket, as clients reach it
	Known    *record.Store // answers for a while from what it read before
	Tenants  *tenant.Tenants
	Shell    *move.Shell
	Feed     *feed.Feed
	Queues   Queues
	Metrics  *Metrics
	Sealer   seal.Sealer
	Models   *provider.Set
	Toolkits *toolkit.Toolkits // of no kind, but in the functions that make them

	secrets *secretsmanager.Client
}

// ReadSecrets completes the settings with the deployment's secrets, which is a call: what signs webhooks where an
// organisation has no secret of its own, and the keys of model providers.
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
		return fmt.Errorf("the secrets in SECRETS_ARN are no JSON object of texts: %w", err)
	}
	for name, setting := range map[string]*string{
		"WEBHOOK_SECRET": &p.Settings.WebhookSecret, "OPENAI_API_KEY": &p.Settings.OpenAIAPIKey,
		"ANTHROPIC_API_KEY": &p.Settings.AnthropicAPIKey,
	} {
		if *setting == "" {
			*setting = kept[name]
		}
	}
	p.Models.Catalogues = modellist.Of(p.Settings)
	return nil
}

// Queues sends each nudge to the queue of its kind.
type Queues map[events.NudgeKind]*sqsqueue.Queue

// Send sends a nudge.
func (q Queues) Send(ctx context.Context, m queue.Message) error {
	to, ok := q[m.Nudge.Kind]
	if !ok {
		return fmt.Errorf("cloud: no queue takes nudges of the kind %q", m.Nudge.Kind)
	}
	return to.Send(ctx, m)
}

const (
	// callTime bounds one call of a service.
	callTime = 10 * time.Second
	// missingLife is how long a key that was not there is remembered at most.
	missingLife = 5 * time.Second
	// pollEvery is how often a stream looks for something new: there is no bell between processes.
	pollEvery = 250 * time.Millisecond
)

// Open reads the environment and makes the clients and use cases. It makes one call, to see that the table is there.
func Open(ctx context.Context) (*Platform, error) {
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
	return New(ctx, account, settings, resources, log, os.Stdout)
}

// New is Open with everything given; metrics are written to out.
func New(
	ctx context.Context, account aws.Config, s setting.Settings, c setting.Cloud, log *slog.Logger, out io.Writer,
) (*Platform, error) {
	machine := host.System()
	s.ToolCommands = nil // no programs beside ours in a function
	db, queues := dynamodb.NewFromConfig(account), sqs.NewFromConfig(account)
	objects := s3.NewFromConfig(account, func(o *s3.Options) { o.UsePathStyle = account.BaseEndpoint != nil })
	core := dynamotable.New(db, c.CoreTable, machine.Now)
	blobs := s3blob.New(objects, c.Bucket)
	store := record.New(core, blobs, machine)
	known := store
	if c.CacheLife > 0 {
		life := cachetable.Life{Found: c.CacheLife, Missing: min(c.CacheLife, missingLife)}
		known = record.New(cachetable.New(core, life, machine.Elapsed), blobs, machine)
	}
	if err := store.EnsureDeployment(ctx); err != nil {
		return nil, fmt.Errorf("the table %s cannot be used: %w", c.CoreTable, err)
	}
	models := &provider.Set{Host: machine, Catalogues: modellist.Of(s)}
	sealer := kmsseal.New(kms.NewFromConfig(account), c.SealingKey)
	p := &Platform{
		Sealer: sealer, Models: models, Toolkits: &toolkit.Toolkits{Store: store, Known: known, Host: machine,
			Sealer: sealer}, secrets: secretsmanager.NewFromConfig(account),
		Settings: s, Cloud: c, Log: log, Host: machine, Store: store, Direct: blobs, Known: known,
		Metrics: NewMetrics(out, c.Stage, machine.Now),
		Tenants: tenant.New(store, known, machine, tenant.Defaults{
			UserCap: s.UserCap, OrganizationCap: s.OrganizationCap, RateLimit: s.RateLimit, RateBurst: s.RateBurst,
			ActiveLimit: s.ActiveLimit, CheckModel: models.Check,
		}, sealer),
		Queues: Queues{
			events.NudgeRun:     sqsqueue.New(queues, c.RunQueue),
			events.NudgeWebhook: sqsqueue.New(queues, c.WebhookQueue),
			events.NudgeJob:     sqsqueue.New(queues, c.JobQueue),
		},
	}
	bell := feed.Polling{Host: machine, Every: pollEvery}
	p.Feed = feed.New(dynamotable.New(db, c.FeedTable, machine.Now), bell, machine)
	p.Shell = &move.Shell{
		Store: store, Queue: p.Queues, Timer: sfntimer.New(sfn.NewFromConfig(account), c.PauseMachine), Bell: bell,
		Host: machine, Log: log,
		Caps: p.Tenants.Caps, StartDeadline: s.StartDeadline, Moved: p.Metrics.Moved,
	}
	return p, nil
}

// Package httpedge makes the HTTP layer of the functions that have one: chat, api and stream. It is separate from
// cloud so that the other functions do not link it.
//
// It is wiring and contains no rules.
package httpedge

import (
	"time"

	// Lambda's images have no time zones of their own, which questions about usage name.
	_ "time/tzdata"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/builtintool"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/service"
	"agentplatform/internal/org/toolkit"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/webhook"
	"agentplatform/internal/wiring/cloud"
)

// New makes the HTTP layer. A stream that is a function's response ends after maxStream; 0: never. more adds the parts
// that only some functions have. New fails if a secret cannot be read or a setting is unusable.
func New(p *cloud.Platform, maxStream time.Duration, more ...func(*service.Config)) (*httpapi.Server, error) {
	s := p.Settings
	policy, err := egress.Read(s.WebhookAllowHosts, "WEBHOOK_CA_FILE", s.WebhookCAFile)
	if err != nil {
		return nil, err
	}
	if p.Toolkits.Kinds == nil { // edited arguments are checked against these; no tool is called here
		p.Toolkits.Kinds = map[string]tool.Kind{toolkit.Builtin: builtintool.New(p.Host)}
	}
	c := service.Config{
		Config: httpapi.Config{
			Tenants: p.Tenants, Host: p.Host, Log: p.Log, Tracer: p.Tracer, MaxBody: s.MaxBody, MaxStream: maxStream,
			Streams: s.Streams, Connections: s.Connections, Shared: p.Shared,
			Shares:    httpapi.Shares{Organization: s.OrganizationStreams, User: s.UserStreams, Key: s.KeyStreams},
			PublicURL: s.PublicURL, Wakeup: p.SendWakeup,
		},
		Intake: &intake.Intake{
			Executor: p.Executor, Store: p.Store, Tenants: p.Tenants, Host: p.Host, PausedRuns: s.PausedRuns,
			Tools: p.Toolkits.Listed,
		},
		Files: &files.Files{Store: p.Store, Log: p.Log},
		Webhooks: &webhook.Sender{
			Store: p.Store, Host: p.Host, Client: policy.Client(time.Minute), Log: p.Log, Secret: s.WebhookSecret,
			Sealer: p.Sealer, CitationFilter: p.Tenants.SenderReads,
		},
		Store: p.Store, Hub: p.Hub, Models: p.Models, Toolkits: p.Toolkits,
		ObserveWindow: s.ObserveWindow, Heartbeat: s.Heartbeat, Callbacks: policy, PanelReaches: []string{bucket(p)},
	}
	if maxStream > 0 { // each of them occupies a function
		c.KeyChats = s.KeyChats
	}
	for _, add := range more {
		add(&c)
	}
	return service.New(c), nil
}

// bucket is the origin of presigned addresses.
func bucket(p *cloud.Platform) string {
	if endpoint := p.Account.BaseEndpoint; endpoint != nil { // as of LocalStack
		return *endpoint
	}
	return "https://" + p.Cloud.Bucket + ".s3." + p.Account.Region + ".amazonaws.com"
}

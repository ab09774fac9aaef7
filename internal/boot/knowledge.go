package boot

import (
	"context"
	"path/filepath"
	"time"

	"agentplatform/events"
	"agentplatform/internal/catalog"
	"agentplatform/internal/egress"
	"agentplatform/internal/extract"
	"agentplatform/internal/host"
	"agentplatform/internal/index/diskindex"
	"agentplatform/internal/ingest"
	"agentplatform/internal/knowledge"
	"agentplatform/internal/provider/reach"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
	"agentplatform/internal/worker"
)

// ingester makes what ingests documents and searches them, over an index in the data folder.
func (l *Local) ingester(
	ctx context.Context, store *record.Store, tenants *tenant.Tenants, processID string,
	meter knowledgeMeter,
) (*ingest.Ingester, error) {
	s, machine := l.Settings, host.System()
	policy, err := egress.Read(s.KnowledgeAllowHosts, "", "")
	if err != nil {
		return nil, err
	}
	embeddings, offered, err := reach.Embeddings(ctx, s)
	if err != nil {
		return nil, err
	}
	models := &knowledge.Models{Providers: embeddings}
	for _, n := range offered {
		models.Offered = append(models.Offered, catalog.EmbeddingModel(n))
	}
	if l.index, err = diskindex.Open(filepath.Join(s.DataDir, "index"), diskindex.Options{}); err != nil {
		return nil, err
	}
	fetch := ingest.Fetch{Policy: policy, Client: policy.Client(time.Minute)}
	return &ingest.Ingester{
		Knowledge: &knowledge.Knowledge{
			Store: store, Tenants: tenants, Host: machine, Index: l.index, Models: models,
			Documents: s.DocumentsPerBase, IndexID: l.index.Identity(),
			CheckURL: func(url string) error { return knowledge.CheckURL(policy, url) },
			OnSearch: meter.searched,
			Nudge: func(ctx context.Context, document, organization string) {
				l.nudge(ctx, events.NudgeDocument, document, organization)
			},
		},
		Fetch: fetch, Log: l.log, Deadline: s.IngestDeadline, ProcessID: processID, Extract: extract.Document,
		OnMove: meter.moved,
	}, nil
}

// searcher searches knowledge bases for the senders of runs.
func searcher(
	tenants *tenant.Tenants, k *knowledge.Knowledge,
) func(context.Context, worker.Sender, catalog.AgentSpec, string) ([]record.Source, int64, error) {
	return func(
		ctx context.Context, from worker.Sender, spec catalog.AgentSpec, query string,
	) ([]record.Source, int64, error) {
		p, err := tenants.Sender(ctx, from.Organization, from.User, from.APIKey)
		if err != nil {
			return nil, 0, err
		}
		return k.SearchFor(ctx, p, spec, query)
	}
}

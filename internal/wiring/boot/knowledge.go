package boot

import (
	"context"
	"path/filepath"
	"time"

	"agentplatform/events"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/index/diskindex"
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
	embeddings, err := registry.OpenEmbeddings(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	if l.index, err = diskindex.Open(filepath.Join(s.DataDir, "index")); err != nil {
		return nil, err
	}
	fetch := ingest.Fetch{Policy: policy, Client: policy.Client(time.Minute)}
	return &ingest.Ingester{
		Knowledge: &knowledge.Knowledge{
			Store: store, Tenants: tenants, Host: machine, Index: l.index,
			Models:    knowledge.NewModels(embeddings.Models, embeddings.Names),
			Documents: s.DocumentsPerBase, IndexID: knowledge.IndexID(l.index.Identity()),
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

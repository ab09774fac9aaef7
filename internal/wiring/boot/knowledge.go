package boot

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"agentplatform/events"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/store/queue"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/index/diskindex"
)

// ingester makes the ingester of documents, which also searches them, over an index in the data folder.
func (l *Local) ingester(ctx context.Context, meter knowledgeMeter) (*ingest.Ingester, error) {
	s := l.Settings
	policy, err := egress.Read(s.KnowledgeAllowHosts, "", "")
	if err != nil {
		return nil, err
	}
	embeddings, err := registry.OpenEmbeddings(ctx, s, nil)
	if err = errors.Join(err, embeddings.Lacking); err != nil {
		return nil, err
	}
	if l.index, err = diskindex.Open(filepath.Join(s.DataDir, "index")); err != nil {
		return nil, err
	}
	ingester := &ingest.Ingester{
		Knowledge: &knowledge.Knowledge{
			Store: l.store, Tenants: l.tenants, Host: l.executor.Host, Index: l.index,
			Models:    knowledge.NewModels(embeddings.Models, embeddings.Names, embeddings.Options),
			Documents: s.DocumentsPerBase, IndexID: knowledge.IndexID(l.index.Identity()),
			CheckURL:  func(url string) error { return knowledge.CheckURL(policy, url) },
			OnSearch:  meter.searched,
			Ingesting: s.Ingesting,
			// If it is lost, the sweeper finds the due item.
			Wake: func(ctx context.Context, m queue.Message) { _ = l.queues.Send(ctx, m) },
		},
		Fetch: ingest.Fetch{Policy: policy, Client: policy.Client(time.Minute)}, Log: l.log,
		Deadline: s.IngestDeadline, ProcessID: l.executor.ProcessID, Extract: extract.Document, OnMove: meter.moved,
		Waits: l.queues[events.WakeupDocument].Waits,
	}
	return ingester, ingester.Recover(ctx)
}

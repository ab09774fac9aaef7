// Package search makes the knowledge bases of the functions that search or change them, over the index of documents in
// S3 Vectors. It is separate from cloud so that the other functions do not link them.
//
// It is wiring and contains no rules.
package search

import (
	"context"
	"time"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/text/index/s3index"
	"agentplatform/internal/wiring/cloud"
)

// pollEvery is the interval at which a document is polled for a waiting client: each poll is a few reads.
const pollEvery = time.Second

// New makes the knowledge bases. keyed makes the embedding models of a provider with an API key; these call another
// program for their vectors. nil: this program has the keys. If an embedding model lacks a setting, or its key among
// the deployment's secrets, the error is logged. Bases with that model are then searched only by words; all else works.
// The error names an unusable setting.
func New(
	ctx context.Context, p *cloud.Platform, keyed func(provider string) embedding.Model,
) (*knowledge.Knowledge, error) {
	k, err := Stored(p)
	if err != nil {
		return nil, err
	}
	embeddings, err := registry.OpenEmbeddings(ctx, p.Settings, keyed)
	if err != nil {
		return nil, err
	}
	if embeddings.Lacking != nil {
		p.Log.Error("an embedding model cannot be used", "error", embeddings.Lacking)
	}
	k.Models = knowledge.NewModels(embeddings.Models, embeddings.Names, embeddings.Options)
	return k, nil
}

// Stored makes them without embedding models, for programs that call none. The name of the vector bucket is the
// identity of the index. In a deployment with another bucket, the bases count as being rebuilt until they are restored
// (scripts/operate). The error names an unusable setting.
func Stored(p *cloud.Platform) (*knowledge.Knowledge, error) {
	policy, err := Sources(p)
	if err != nil {
		return nil, err
	}
	vectors := s3index.New(s3index.Client(p.Account), p.Cloud.VectorBucket, s3index.Options{
		Now: p.Host.Now, OnLost: lost(p.Metrics),
	})
	return &knowledge.Knowledge{
		Store: p.Store, Tenants: p.Tenants, Host: p.Host, Index: vectors, IndexID: p.Cloud.VectorBucket,
		Documents: p.Settings.DocumentsPerBase, Poll: pollEvery,
		CheckURL:  func(url string) error { return knowledge.CheckURL(policy, url) },
		OnSearch:  searched(p.Metrics),
		Ingesting: p.Settings.Ingesting, Wake: p.Wake,
	}, nil
}

// Sources returns the allowed sources of documents. The error names the setting.
func Sources(p *cloud.Platform) (egress.Policy, error) {
	return egress.Read(p.Settings.KnowledgeAllowHosts, "", "")
}

// Package search makes the knowledge bases of the functions that search or change them, over the index of documents in
// S3 Vectors. It is separate from cloud so that the other functions do not link them.
//
// It is wiring and contains no rules.
package search

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3vectors"

	"agentplatform/events"
	"agentplatform/internal/cloud"
	"agentplatform/internal/egress"
	"agentplatform/internal/index/s3index"
	"agentplatform/internal/knowledge"
	"agentplatform/internal/provider/embeddings"
)

// New makes them. The error names a setting that cannot be used.
func New(ctx context.Context, p *cloud.Platform) (*knowledge.Knowledge, error) {
	k, err := Stored(p)
	if err != nil {
		return nil, err
	}
	k.Models, err = embeddings.Models(ctx, p.Settings)
	return k, err
}

// Stored makes them without embedding models, for those who ask none. The name of the vector bucket is the identity of
// the index: a deployment that is given another bucket says that its bases are being rebuilt, until they are restored
// (scripts/operate). The error names a setting that cannot be used.
func Stored(p *cloud.Platform) (*knowledge.Knowledge, error) {
	policy, err := Sources(p)
	if err != nil {
		return nil, err
	}
	vectors := s3index.New(s3vectors.NewFromConfig(p.Account), p.Cloud.VectorBucket, s3index.Options{
		Now: p.Host.Now, OnLost: lost(p.Metrics),
	})
	return &knowledge.Knowledge{
		Store: p.Store, Tenants: p.Tenants, Host: p.Host, Index: vectors, IndexID: p.Cloud.VectorBucket,
		Documents: p.Settings.DocumentsPerBase,
		CheckURL:  func(url string) error { return knowledge.CheckURL(policy, url) },
		OnSearch:  searched(p.Metrics),
		Nudge: func(ctx context.Context, document, organization string) {
			p.Nudge(ctx, events.NudgeDocument, document, organization)
		},
	}, nil
}

// Sources says where documents may come from. The error names the setting.
func Sources(p *cloud.Platform) (egress.Policy, error) {
	return egress.Read(p.Settings.KnowledgeAllowHosts, "", "")
}

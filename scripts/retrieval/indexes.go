package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"

	"agentplatform/internal/proof/memindex"
	"agentplatform/internal/proof/vectorserver"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/index/diskindex"
	"agentplatform/internal/text/index/s3index"
)

// target is a way to search a collection.
type target struct {
	name       string
	open       func(context.Context) (x index.Index, done func(), err error)
	candidates int // of each kind that a search has
}

// targets returns the indexes of the service, and one that searches every chunk. That one has the name of the division
// of documents.
func (s *search) targets(division string) []target {
	const most = 5 * reach // as a search that wants the documents of recall@100
	all := []target{{division, exact, min(max(1, s.chunks), index.MaxLimit)}}
	if division == chunked {
		all = append(all, target{byLaptop, laptop, most}, target{byCloud, cloud, most})
	}
	return all
}

func exact(context.Context) (index.Index, func(), error) { return &memindex.Index{}, func() {}, nil }

// laptop makes the index of the laptop, in a temporary folder. done closes the index and removes the folder.
func laptop(context.Context) (x index.Index, done func(), err error) {
	folder, err := os.MkdirTemp("", "retrieval")
	if err != nil {
		return nil, nil, err
	}
	opened, err := diskindex.Open(folder)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	return opened, func() {
		opened.Close()
		_ = os.RemoveAll(folder)
	}, nil
}

// cloud makes the index of AWS, over a stand-in for S3 Vectors that searches exactly.
func cloud(ctx context.Context) (index.Index, func(), error) {
	server := httptest.NewServer(&vectorserver.Server{})
	client := s3index.Client(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	const bucket = "vectors"
	_, err := client.CreateVectorBucket(ctx, &s3vectors.CreateVectorBucketInput{VectorBucketName: aws.String(bucket)})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	lost := func(terms int) { fmt.Fprintf(os.Stderr, "%d terms have no place in the metadata\n", terms) }
	return s3index.New(client, bucket, s3index.Options{OnLost: lost}), server.Close, nil
}

const collectionName = "c"

// fill puts the content of the search into an index: one version of each document, with its chunks.
func (s *search) fill(ctx context.Context, x index.Index) error {
	for id, chunks := range s.documents {
		v := index.Version{Collection: collectionName, Document: id, Number: 1}
		if err := x.Put(ctx, v, len(chunks[0].Vector), chunks); err != nil {
			return err
		}
	}
	return nil
}

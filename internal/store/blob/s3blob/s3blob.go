// Package s3blob is the blob port over an S3 bucket.
//
// It does not know the meaning of a value. It imports its port and the SDK.
package s3blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"agentplatform/internal/store/blob"
)

// Store is a bucket. It implements [blob.Store] and [blob.Direct].
type Store struct {
	client *s3.Client
	sign   *s3.PresignClient
	bucket string
}

// New makes a store over a client.
func New(client *s3.Client, bucket string) *Store {
	return &Store{client: client, sign: s3.NewPresignClient(client), bucket: bucket}
}

// Put implements [blob.Store]. The value is read into memory first. S3 needs its length, and a reader that fails or
// exceeds the limit must leave nothing. Values that pass through a function are small; larger files are uploaded with
// PresignPut.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, limit int64) (int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return 0, err
	}
	n := int64(len(b))
	if n > limit {
		return 0, blob.ErrTooLarge
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(b),
		ContentLength: &n})
	return n, err
}

// Get implements [blob.Store].
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, blob.ErrMissing
	}
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// Delete implements [blob.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return err
}

// DeleteAll implements [blob.Store], a page of the listing at a time. After an error, some values may remain.
func (s *Store) DeleteAll(ctx context.Context, below string) error {
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &below})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			if err := s.Delete(ctx, aws.ToString(object.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Size implements [blob.Direct].
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if _, missing := errors.AsType[*types.NotFound](err); missing {
		return 0, blob.ErrMissing
	}
	if err != nil {
		return 0, err
	}
	return aws.ToInt64(out.ContentLength), nil
}

// PresignPut implements [blob.Direct]. The error is one of signing.
func (s *Store) PresignPut(ctx context.Context, key, contentType string, size int64,
	life time.Duration) (url string, headers map[string]string, err error) {
	signed, err := s.sign.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, ContentType: &contentType, ContentLength: &size, IfNoneMatch: aws.String("*"),
	}, s3.WithPresignExpires(life))
	if err != nil {
		return "", nil, err
	}
	headers = map[string]string{}
	for name := range signed.SignedHeader {
		if name = http.CanonicalHeaderKey(name); name != "Host" {
			headers[name] = signed.SignedHeader.Get(name)
		}
	}
	return signed.URL, headers, nil
}

// PresignGet implements [blob.Direct]. The error is one of signing.
func (s *Store) PresignGet(ctx context.Context, key, disposition, contentType string,
	life time.Duration) (string, error) {
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &key, ResponseContentType: &contentType}
	if disposition != "" {
		in.ResponseContentDisposition = &disposition
	}
	signed, err := s.sign.PresignGetObject(ctx, in, s3.WithPresignExpires(life))
	if err != nil {
		return "", err
	}
	return signed.URL, nil
}

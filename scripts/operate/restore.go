package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"agentplatform/internal/knowledge/ingest"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/table/dynamotable"
)

// restore restores stored data: the table from another one, the bucket's objects as of a time, or the index from both.
func (o *operator) restore(ctx context.Context, what string, from []string) error {
	switch {
	case what == "index" && len(from) == 0:
		return o.restoreIndex(ctx)
	case what == "table" && len(from) == 1:
		return o.restoreTable(ctx, from[0])
	case what == "blobs" && len(from) == 1:
		then, err := time.Parse(time.RFC3339, from[0])
		if err != nil {
			return err
		}
		return o.restoreBlobs(ctx, then)
	}
	return errors.New("use restore table FROM, restore blobs 2026-01-31T12:00:00Z, or restore index")
}

// restoreIndex starts a job that puts all stored documents into the index again. It is for an index that was emptied,
// or that lacks documents removed after the time to which the table was restored. The sweeper finds the job within a
// minute.
func (o *operator) restoreIndex(ctx context.Context) error {
	if !o.do {
		o.printf("all knowledge bases would have the state rebuilding until the index is complete; add -do to do it")
		return nil
	}
	k := &knowledge.Knowledge{Store: o.store, Host: host.System(), IndexID: o.outputs["VectorBucket"]}
	if err := (&ingest.Ingester{Knowledge: k}).Refill(ctx); err != nil {
		return err
	}
	o.printf("the documents of all knowledge bases will be put into the index again")
	return nil
}

const (
	segments    = 8   // of a table that are read in parallel
	writesATime = 25  // items of a BatchWriteItem
	keysATime   = 100 // keys of a BatchGetItem
	maxAttempts = 12  // of the rest of a batch that DynamoDB left undone
)

// restoreTable makes the stage's core table equal to the table from. It puts the items of that table, and deletes all
// others. Nothing else may write meanwhile. After a failure it can be run again and goes on.
//
// The table of the stack stays, with its name, alarms, rights and backups. To adopt the restored table, the stack would
// first have to give up its own, whose name other stacks import.
func (o *operator) restoreTable(ctx context.Context, from string) error {
	to := o.outputs["CoreTable"]
	if from == to {
		return errors.New("this is the stage's own table")
	}
	var put, deleted atomic.Int64
	if err := o.scan(ctx, from, false, func(ctx context.Context, items []item) error {
		put.Add(int64(len(items)))
		return o.write(ctx, to, len(items), func(i int) types.WriteRequest {
			return types.WriteRequest{PutRequest: &types.PutRequest{Item: items[i]}}
		})
	}); err != nil {
		return err
	}
	if err := o.scan(ctx, to, true, func(ctx context.Context, keys []item) error {
		extra, err := o.missing(ctx, from, keys)
		if err != nil {
			return err
		}
		deleted.Add(int64(len(extra)))
		return o.write(ctx, to, len(extra), func(i int) types.WriteRequest {
			return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: extra[i]}}
		})
	}); err != nil {
		return err
	}
	o.printf("%d items of %s written to %s, %d extra items deleted there", put.Load(), from, to, deleted.Load())
	if !o.do {
		o.printf("this is a dry run; add -do to do it")
	}
	return nil
}

type item = map[string]types.AttributeValue

// scan reads a table, or its keys, a page at a time, in several parallel segments.
func (o *operator) scan(ctx context.Context, table string, keys bool, see func(context.Context, []item) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for segment := range int32(segments) {
		group.Go(func() error {
			in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true), Segment: aws.Int32(segment),
				TotalSegments: aws.Int32(segments)}
			if keys {
				in.ProjectionExpression, in.ExpressionAttributeNames = projection()
			}
			for pages := dynamodb.NewScanPaginator(o.tables, in); pages.HasMorePages(); {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return err
				}
				if err := see(ctx, page.Items); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// projection returns the projection of the keys.
func projection() (*string, map[string]string) {
	layout := dynamotable.Layout()
	return aws.String("#p, #s"), map[string]string{"#p": layout.PartitionKey, "#s": layout.SortKey}
}

// write makes n writes, in batches.
func (o *operator) write(ctx context.Context, table string, n int, one func(int) types.WriteRequest) error {
	if !o.do {
		return nil
	}
	for at := 0; at < n; at += writesATime {
		var batch []types.WriteRequest
		for i := at; i < min(at+writesATime, n); i++ {
			batch = append(batch, one(i))
		}
		for attempt := 0; len(batch) > 0; attempt++ {
			if attempt == maxAttempts {
				return fmt.Errorf("%s accepts no more writes now; run the command again later to continue", table)
			}
			if err := pause(ctx, attempt); err != nil {
				return err
			}
			out, err := o.tables.BatchWriteItem(ctx,
				&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: batch}})
			if err != nil {
				return err
			}
			batch = out.UnprocessedItems[table]
		}
	}
	return nil
}

// pause waits before an attempt: not before the first, then up to some seconds.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(25*time.Millisecond<<attempt, 5*time.Second)):
		return nil
	}
}

// missing returns the keys for which a table has no item.
func (o *operator) missing(ctx context.Context, table string, keys []item) ([]item, error) {
	layout := dynamotable.Layout()
	name := func(k item) string {
		part, _ := k[layout.PartitionKey].(*types.AttributeValueMemberS)
		at, _ := k[layout.SortKey].(*types.AttributeValueMemberS)
		return fmt.Sprintf("%q %q", part.Value, at.Value)
	}
	there := map[string]bool{}
	for at := 0; at < len(keys); at += keysATime {
		batch := keys[at:min(at+keysATime, len(keys))]
		for attempt := 0; len(batch) > 0; attempt++ {
			if attempt == maxAttempts {
				return nil, fmt.Errorf("%s accepts no more reads now; run the command again later to continue", table)
			}
			if err := pause(ctx, attempt); err != nil {
				return nil, err
			}
			what := types.KeysAndAttributes{Keys: batch, ConsistentRead: aws.Bool(true)}
			what.ProjectionExpression, what.ExpressionAttributeNames = projection()
			out, err := o.tables.BatchGetItem(ctx,
				&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: what}})
			if err != nil {
				return nil, err
			}
			for _, found := range out.Responses[table] {
				there[name(found)] = true
			}
			batch = out.UnprocessedKeys[table].Keys
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k item) bool { return there[name(k)] }), nil
}

// version is a version of an object, or the mark of its deletion.
type version struct {
	key, id      string
	at           time.Time
	latest, gone bool
}

// asOf returns the version that an object had at a time, and whether it has to be restored: it existed, and is not the
// latest one. The versions are of one object. S3's times are in seconds. Of two versions in one second, it only shows
// which is the latest.
func asOf(versions []version, then time.Time) (version, bool) {
	newestFirst := slices.SortedStableFunc(slices.Values(versions), func(a, b version) int {
		if a.latest != b.latest {
			return map[bool]int{true: -1, false: 1}[a.latest]
		}
		return b.at.Compare(a.at)
	})
	for _, v := range newestFirst {
		if !v.at.After(then) {
			return v, !v.latest && !v.gone
		}
	}
	return version{}, false
}

// restoreBlobs makes each object's version of a time its newest one. Later objects stay, because a table of that time
// does not name them.
func (o *operator) restoreBlobs(ctx context.Context, then time.Time) error {
	bucket := o.outputs["Bucket"]
	restored := 0
	see := func(of []version) error {
		v, needed := asOf(of, then)
		if !needed {
			return nil
		}
		restored++
		if !o.do {
			return nil
		}
		source := bucket + "/" + strings.ReplaceAll(url.PathEscape(v.key), "%2F", "/") + "?versionId=" +
			url.QueryEscape(v.id)
		// The class is the one that the objects have. A copy of an object to its own name must change something in the
		// request.
		_, err := o.objects.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &bucket, Key: &v.key, CopySource: &source,
			StorageClass: s3types.StorageClassStandard})
		return err
	}
	var held []version // of the key that the listing is at: pages end anywhere
	for pages := s3.NewListObjectVersionsPaginator(o.objects, &s3.ListObjectVersionsInput{Bucket: &bucket}); pages.
		HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, v := range page.Versions {
			held = append(held, version{aws.ToString(v.Key), aws.ToString(v.VersionId), aws.ToTime(v.LastModified),
				aws.ToBool(v.IsLatest), false})
		}
		for _, v := range page.DeleteMarkers {
			held = append(held, version{aws.ToString(v.Key), aws.ToString(v.VersionId), aws.ToTime(v.LastModified),
				aws.ToBool(v.IsLatest), true})
		}
		slices.SortStableFunc(held, func(a, b version) int { return cmp.Compare(a.key, b.key) })
		for len(held) > 0 {
			end := slices.IndexFunc(held, func(v version) bool { return v.key != held[0].key })
			if end < 0 {
				break
			}
			if err := see(held[:end]); err != nil {
				return err
			}
			held = held[end:]
		}
	}
	if len(held) > 0 {
		if err := see(held); err != nil {
			return err
		}
	}
	o.printf("%d objects are restored to their state at %s", restored, then.Format(time.RFC3339))
	if !o.do {
		o.printf("this is a dry run; add -do to do it")
	}
	return nil
}

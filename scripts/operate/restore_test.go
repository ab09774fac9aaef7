package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table/dynamotable"
)

// tables implements the operations of DynamoDB that a restore uses, with tables of items by their keys. It leaves the
// last item of each batch undone, once.
type tables struct {
	mu    sync.Mutex
	items map[string]map[string]map[string]any // by table and key
	once  map[string]bool
}

func keyOf(i map[string]any) string {
	layout := dynamotable.Layout()
	text := func(name string) string { return i[name].(map[string]any)["S"].(string) }
	return text(layout.PartitionKey) + " " + text(layout.SortKey)
}

func (d *tables) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var in struct {
		TableName                string
		Segment, TotalSegments   int
		RequestItems             json.RawMessage
		ProjectionExpression     string
		ExpressionAttributeNames map[string]string
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in)
	out := map[string]any{}
	switch _, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); action {
	case "Scan":
		of := []map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(d.items[in.TableName])) {
			if int(crc32.ChecksumIEEE([]byte(key)))%in.TotalSegments == in.Segment {
				of = append(of, d.items[in.TableName][key])
			}
		}
		out["Items"] = of
	case "BatchWriteItem":
		var requests map[string][]map[string]map[string]map[string]any
		_ = json.Unmarshal(in.RequestItems, &requests)
		for name, writes := range requests {
			last := writes[len(writes)-1]
			if undone := fmt.Sprint(last); len(writes) > 1 && !d.once[undone] {
				d.once[undone] = true
				out["UnprocessedItems"] = map[string]any{name: []any{last}}
				writes = writes[:len(writes)-1]
			}
			for _, one := range writes {
				if put, is := one["PutRequest"]; is {
					d.items[name][keyOf(put["Item"])] = put["Item"]
				} else {
					delete(d.items[name], keyOf(one["DeleteRequest"]["Key"]))
				}
			}
		}
	case "BatchGetItem":
		var requests map[string]struct{ Keys []map[string]any }
		_ = json.Unmarshal(in.RequestItems, &requests)
		for name, what := range requests {
			found := []map[string]any{}
			for _, key := range what.Keys {
				if i, there := d.items[name][keyOf(key)]; there {
					found = append(found, i)
				}
			}
			out["Responses"] = map[string]any{name: found}
		}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

func (d *tables) fill(name string, from, to int, word string) {
	layout := dynamotable.Layout()
	if d.items[name] == nil {
		d.items[name] = map[string]map[string]any{}
	}
	for n := from; n < to; n++ {
		i := map[string]any{"v": map[string]any{"S": word}}
		i[layout.PartitionKey] = map[string]any{"S": fmt.Sprintf("p%d", n/10)}
		i[layout.SortKey] = map[string]any{"S": fmt.Sprint(n)}
		d.items[name][keyOf(i)] = i
	}
}

func clientConfig(t *testing.T, h http.Handler) aws.Config {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")}
}

func TestATableBecomesWhatAnotherIs(t *testing.T) {
	d := &tables{items: map[string]map[string]map[string]any{}, once: map[string]bool{}}
	d.fill("earlier", 0, 400, "then")
	d.fill("core", 100, 700, "now")
	out := &bytes.Buffer{}
	o := &operator{out: out, outputs: map[string]string{"CoreTable": "core"},
		tables: dynamodb.NewFromConfig(clientConfig(t, d))}

	require.NoError(t, o.restore(t.Context(), "table", []string{"earlier"}))
	assert.Contains(t, out.String(), "400 items of earlier written to core, 300 extra items deleted there\n")
	assert.Contains(t, out.String(), "add -do")
	assert.Len(t, d.items["core"], 600, "nothing is done without -do")

	o.do = true
	require.NoError(t, o.restore(t.Context(), "table", []string{"earlier"}))
	assert.Len(t, d.items["core"], 400)
	assert.True(t, reflect.DeepEqual(d.items["earlier"], d.items["core"]), "they are the same, and too long to print")
	assert.Error(t, o.restore(t.Context(), "table", []string{"core"}))
}

func TestAnObjectIsWhatItWasAtATime(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 31, 12, minute, 0, 0, time.UTC) }
	there := func(id string, minute int, latest bool) version { return version{"k", id, at(minute), latest, false} }
	gone := func(minute int, latest bool) version { return version{"k", "x", at(minute), latest, true} }
	for name, c := range map[string]struct {
		versions []version
		id       string
		needed   bool
	}{
		"it is as it was":       {[]version{there("1", 1, true)}, "1", false},
		"it was overwritten":    {[]version{there("2", 7, true), there("1", 1, false)}, "1", true},
		"it was deleted":        {[]version{there("1", 1, false), gone(7, true)}, "1", true},
		"it was deleted before": {[]version{there("1", 1, false), gone(2, true)}, "x", false},
		"it came later":         {[]version{there("1", 7, true)}, "", false},
		"it was deleted and is back": {[]version{there("2", 8, true), there("1", 1, false), gone(2, false)}, "x",
			false},
		"two versions in one second": {[]version{gone(5, true), there("1", 5, false)}, "x", false},
	} {
		v, needed := asOf(c.versions, at(5))
		assert.Equal(t, c.id, v.id, name)
		assert.Equal(t, c.needed, needed, name)
	}
}

// bucket lists versions in two pages, with those of one object on both, and records the copies.
type bucket struct {
	copied  []string
	deleted string
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		b.deleted += string(body)
		_, _ = io.WriteString(w, `<DeleteResult></DeleteResult>`)
	case r.Method == http.MethodPut:
		b.copied = append(b.copied, r.Header.Get("X-Amz-Copy-Source"))
		_, _ = io.WriteString(w, `<CopyObjectResult></CopyObjectResult>`)
	case r.URL.Query().Get("key-marker") == "":
		_, _ = io.WriteString(w, `<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>b/ü</NextKeyMarker>
			<NextVersionIdMarker>2</NextVersionIdMarker>
			<Version><Key>a</Key><VersionId>1</VersionId><IsLatest>true</IsLatest>
				<LastModified>2026-01-31T10:00:00Z</LastModified></Version>
			<Version><Key>b/ü</Key><VersionId>2</VersionId><IsLatest>true</IsLatest>
				<LastModified>2026-01-31T14:00:00Z</LastModified></Version></ListVersionsResult>`)
	default:
		_, _ = io.WriteString(w, `<ListVersionsResult><IsTruncated>false</IsTruncated>
			<Version><Key>b/ü</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>
				<LastModified>2026-01-31T11:00:00Z</LastModified></Version>
			<Version><Key>c</Key><VersionId>7</VersionId><IsLatest>false</IsLatest>
				<LastModified>2026-01-31T11:00:00Z</LastModified></Version>
			<DeleteMarker><Key>c</Key><VersionId>8</VersionId><IsLatest>true</IsLatest>
				<LastModified>2026-01-31T13:00:00Z</LastModified></DeleteMarker></ListVersionsResult>`)
	}
}

func TestTheBucketBecomesWhatItWas(t *testing.T) {
	b, out := &bucket{}, &bytes.Buffer{}
	o := &operator{out: out, outputs: map[string]string{"Bucket": "blobs"}, objects: s3.NewFromConfig(
		clientConfig(t, b), func(o *s3.Options) { o.UsePathStyle = true })}
	require.NoError(t, o.restore(t.Context(), "blobs", []string{"2026-01-31T12:00:00Z"}))
	assert.Contains(t, out.String(), "2 objects are restored")
	assert.Empty(t, b.copied, "nothing is done without -do")
	o.do = true
	require.NoError(t, o.restore(t.Context(), "blobs", []string{"2026-01-31T12:00:00Z"}))
	assert.Equal(t, []string{"blobs/b/%C3%BC?versionId=1", "blobs/c?versionId=7"}, b.copied)
	assert.Error(t, o.restore(t.Context(), "blobs", []string{"yesterday"}))
	assert.Error(t, o.restore(t.Context(), "bucket", nil))
}

func TestABucketIsEmptiedOfEveryVersion(t *testing.T) {
	b, out := &bucket{}, &bytes.Buffer{}
	o := &operator{out: out, outputs: map[string]string{"Bucket": "blobs"}, objects: s3.NewFromConfig(
		clientConfig(t, b), func(o *s3.Options) { o.UsePathStyle = true })}
	require.NoError(t, o.empty(t.Context(), "blobs"))
	assert.Contains(t, out.String(), "5 versions of objects in blobs are deleted\nthis is a dry run; add -do to do it")
	assert.Empty(t, b.deleted)
	o.do = true
	require.NoError(t, o.empty(t.Context(), "blobs"))
	assert.Equal(t, 5, strings.Count(b.deleted, "<VersionId>"), "marks of deletions, too")
	assert.Error(t, o.empty(t.Context(), "table"))
}

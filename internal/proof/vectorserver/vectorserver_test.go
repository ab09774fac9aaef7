package vectorserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/vectorserver"
)

type m = map[string]any

// call makes a request and returns the status and the answer.
func call(t *testing.T, s http.Handler, operation string, body m) (int, m) {
	t.Helper()
	if body["vectorBucketName"] == nil {
		body["vectorBucketName"] = "b"
	}
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+operation, bytes.NewReader(raw)))
	var out m
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	if kind := w.Header().Get("X-Amzn-Errortype"); kind != "" {
		out["kind"] = kind
	}
	return w.Code, out
}

// serving returns a server with the bucket b and the index idx of two dimensions. Its metadata "text" is not
// filterable.
func serving(t *testing.T) *vectorserver.Server {
	t.Helper()
	s := &vectorserver.Server{}
	status, out := call(t, s, "CreateVectorBucket", m{})
	require.Equal(t, http.StatusOK, status, out)
	status, out = call(t, s, "CreateIndex", m{
		"indexName": "idx", "dataType": "float32", "dimension": 2, "distanceMetric": "cosine",
		"metadataConfiguration": m{"nonFilterableMetadataKeys": []string{"text"}},
	})
	require.Equal(t, http.StatusOK, status, out)
	return s
}

func vector(key string, metadata m, values ...float32) m {
	return m{"key": key, "data": m{"float32": values}, "metadata": metadata}
}

func put(t *testing.T, s http.Handler, vectors ...m) {
	t.Helper()
	status, out := call(t, s, "PutVectors", m{"indexName": "idx", "vectors": vectors})
	require.Equal(t, http.StatusOK, status, out)
}

func keys(out m) (list []string) {
	for _, v := range out["vectors"].([]any) {
		list = append(list, v.(m)["key"].(string))
	}
	return list
}

func TestFiltersAreAsDocumented(t *testing.T) {
	s := serving(t)
	put(t, s,
		vector("a", m{"genre": "drama", "year": 2020, "text": "x"}, 1, 0),
		vector("b", m{"genre": []string{"comedy", "drama"}, "year": 1999}, 1, 0.1),
		vector("c", m{"genre": "comedy", "good": true}, 1, 0.2))
	for text, want := range map[string][]string{
		`{"genre": "drama"}`:                                         {"a", "b"},
		`{"genre": {"$eq": "drama"}}`:                                {"a", "b"},
		`{"genre": {"$in": ["drama", "none"]}}`:                      {"a"},
		`{"good": true}`:                                             {"c"},
		`{"year": 2020, "genre": "drama"}`:                           {"a"},
		`{"$and": [{"genre": "drama"}, {"year": 2020}]}`:             {"a"},
		`{"$or": [{"genre": "comedy"}, {"year": 2020}]}`:             {"a", "b", "c"},
		`{"$or": [{"$and": [{"genre": "comedy"}, {"good": true}]}]}`: {"c"},
		`{"genre": "none"}`:                                          nil,
	} {
		var filter any
		require.NoError(t, json.Unmarshal([]byte(text), &filter))
		status, out := call(t, s, "QueryVectors",
			m{"indexName": "idx", "topK": 9, "queryVector": m{"float32": []float32{1, 0}}, "filter": filter})
		require.Equal(t, http.StatusOK, status, "%s: %v", text, out)
		assert.Equal(t, want, keys(out), text)
	}
	for _, text := range []string{
		`{}`, `[]`, `"drama"`, `{"text": "x"}`, `{"$not": {"genre": "drama"}}`, `{"$and": []}`, `{"$or": {}}`,
		`{"genre": {"$like": "d"}}`, `{"genre": {"$in": []}}`, `{"genre": {"$in": "drama"}}`,
		`{"genre": {"$eq": ["a"]}}`,
		`{"year": {"$gt": 1999}}`, `{"genre": {}}`, `{"$and": [{"genre": {"$no": 1}}]}`,
	} {
		var filter any
		require.NoError(t, json.Unmarshal([]byte(text), &filter))
		status, out := call(t, s, "QueryVectors",
			m{"indexName": "idx", "topK": 9, "queryVector": m{"float32": []float32{1, 0}}, "filter": filter})
		assert.Equal(t, http.StatusBadRequest, status, text)
		assert.Equal(t, "ValidationException", out["kind"], text)
	}
}

func TestWhatTheServiceRefusesIsRefused(t *testing.T) {
	s := serving(t)
	long := strings.Repeat("x", 2100)
	many := make([]m, 501)
	for i := range many {
		many[i] = vector(fmt.Sprint(i), nil, 1, 0)
	}
	query := func(change m) m {
		q := m{"indexName": "idx", "topK": 9, "queryVector": m{"float32": []float32{1, 0}}}
		for name, v := range change {
			q[name] = v
		}
		return q
	}
	constraints := make([]string, 101)
	index := m{"indexName": "other", "dataType": "float32", "dimension": 2, "distanceMetric": "cosine"}
	with := func(name string, v any) m {
		b := m{name: v}
		for k, v := range index {
			if b[k] == nil {
				b[k] = v
			}
		}
		return b
	}
	for _, row := range []struct {
		operation, kind string
		body            m
	}{
		{"PutVectors", "ValidationException", m{"vectors": []m{}}},
		{"PutVectors", "ValidationException", m{"vectors": many}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("k", nil, 1)}}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("k", nil, 0, 0)}}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("", nil, 1, 0)}}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("k", m{"a": long}, 1, 0)}}},
		{"PutVectors", "ValidationException",
			m{"vectors": []m{vector("k", m{"text": strings.Repeat(long, 20)}, 1, 0)}}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("k", m{"a": m{}}, 1, 0)}}},
		{"PutVectors", "ValidationException", m{"vectors": []m{vector("k", m{"a": []any{}}, 1, 0)}}},
		{"PutVectors", "NotFoundException", m{"indexName": "none", "vectors": many[:1]}},
		{"PutVectors", "NotFoundException", m{"vectorBucketName": "none", "vectors": many[:1]}},
		{"DeleteVectors", "ValidationException", m{"keys": []string{}}},
		{"GetVectors", "ValidationException", m{"keys": make([]string, 101)}},
		{"ListVectors", "ValidationException", m{"maxResults": 1001}},
		{"ListVectors", "ValidationException", m{"segmentIndex": 1}},
		{"ListVectors", "ValidationException", m{"segmentCount": 2, "segmentIndex": 2}},
		{"QueryVectors", "ValidationException", query(m{"topK": 0})},
		{"QueryVectors", "ValidationException", query(m{"topK": 10_001})},
		{"QueryVectors", "ValidationException", query(m{"queryVector": m{"float32": []float32{1}}})},
		{"QueryVectors", "NotFoundException", query(m{"indexName": "none"})},
		{"QueryVectors", "ValidationException", query(m{"filter": m{"a": m{"$in": constraints[:101]}}})},
		{"QueryVectors", "ValidationException",
			query(m{"filter": m{"$or": []m{{"a": "x"}, {"a": m{"$in": constraints[:100]}}}}})},
		{"CreateIndex", "ValidationException", with("indexName", "Upper")},
		{"CreateIndex", "ValidationException", with("indexName", "ab")},
		{"CreateIndex", "ValidationException", with("dimension", 4097)},
		{"CreateIndex", "ConflictException", with("indexName", "idx")},
		{"CreateVectorBucket", "ConflictException", m{}},
		{"PutObject", "UnknownOperationException", m{}},
	} {
		if row.body["indexName"] == nil {
			row.body["indexName"] = "idx"
		}
		status, out := call(t, s, row.operation, row.body)
		assert.GreaterOrEqual(t, status, 400, "%s %v", row.operation, out)
		assert.Equal(t, row.kind, out["kind"], "%s %v", row.operation, out)
	}
}

func TestAFilterMayHave100Constraints(t *testing.T) {
	s := serving(t)
	put(t, s, vector("k", m{"a": "x", "b": 1}, 1, 0))
	many := []string{"x"}
	for i := range 97 {
		many = append(many, fmt.Sprint(i))
	}
	filter := m{"$and": []m{{"a": m{"$in": many}}, {"$or": []m{{"a": "x"}, {"b": 0}}}}}
	status, out := call(t, s, "QueryVectors",
		m{"indexName": "idx", "topK": 9, "queryVector": m{"float32": []float32{1, 0}}, "filter": filter})
	require.Equal(t, http.StatusOK, status, out)
	assert.Equal(t, []string{"k"}, keys(out))
}

func TestAFilteredQueryMayOverlookSome(t *testing.T) {
	s := serving(t)
	put(t, s, vector("a", m{"x": 1}, 1, 0), vector("b", m{"x": 1}, 1, 0))
	body := m{"indexName": "idx", "topK": 9, "queryVector": m{"float32": []float32{1, 0}}}
	s.Overlook(func(key string) bool { return key == "a" })
	_, out := call(t, s, "QueryVectors", body)
	assert.Equal(t, []string{"a", "b"}, keys(out), "without a filter")
	body["filter"] = m{"x": 1}
	_, out = call(t, s, "QueryVectors", body)
	assert.Equal(t, []string{"b"}, keys(out))
	s.Overlook(nil)
	_, out = call(t, s, "QueryVectors", body)
	assert.Equal(t, []string{"a", "b"}, keys(out))
}

func TestQueriesAndListingsComeInPages(t *testing.T) {
	s := serving(t)
	for start := 0; start < 1200; start += 400 {
		var some []m
		for i := start; i < start+400; i++ {
			angle := float64(i) / 1200
			some = append(some, vector(fmt.Sprintf("k%04d", i), m{"text": strings.Repeat("x", 900)},
				float32(math.Cos(angle)), float32(math.Sin(angle))))
		}
		put(t, s, some...)
	}
	var found []string
	body := m{"indexName": "idx", "topK": 1000, "queryVector": m{"float32": []float32{1, 0}}}
	for {
		_, out := call(t, s, "QueryVectors", body)
		found = append(found, keys(out)...)
		if body["nextToken"] = out["nextToken"]; out["nextToken"] == nil {
			break
		}
	}
	require.Len(t, found, 1000)
	assert.Equal(t, "k0000", found[0])
	assert.Equal(t, "k0999", found[999])

	listed := map[string]bool{}
	for segment := range 3 {
		body := m{
			"indexName": "idx", "maxResults": 1000, "returnMetadata": true, "segmentCount": 3, "segmentIndex": segment,
		}
		for {
			_, out := call(t, s, "ListVectors", body)
			for _, key := range keys(out) {
				assert.False(t, listed[key], key)
				listed[key] = true
			}
			if body["nextToken"] = out["nextToken"]; out["nextToken"] == nil {
				break
			}
		}
	}
	assert.Len(t, listed, 1200)
	_, out := call(t, s, "ListVectors", m{"indexName": "idx", "maxResults": 1000})
	assert.Len(t, keys(out), 1000)
	_, out = call(t, s, "ListVectors", m{"indexName": "idx", "maxResults": 1000, "returnMetadata": true})
	assert.NotEmpty(t, out["nextToken"])
}

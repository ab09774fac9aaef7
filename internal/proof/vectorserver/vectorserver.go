// Package vectorserver is an in-memory server with the protocol of Amazon S3 Vectors, for tests. It has the operations
// that s3index needs, with the checks and bounds of the service's documentation.
//
// Its search is exact, where the service's is approximate (see Overlook). It knows no rights, rates, encryption or
// time. So a test with it cannot show that a deployment may call the service, how fast the service is, its recall, or
// its behaviour under load. Where the documentation is silent, the server refuses, or answers in the way that helps a
// caller least.
//
// It imports the standard library.
package vectorserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server serves buckets of vectors over HTTP. The zero value has none.
type Server struct {
	mu       sync.Mutex
	buckets  map[string]map[string]*collection
	overlook func(key string) bool
}

// Overlook makes queries with a filter miss the vectors with such keys, as an approximate search may. nil: none.
func (s *Server) Overlook(kind func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlook = kind
}

// collection is an index in the words of the service.
type collection struct {
	name       string
	dimensions int
	apart      []string // names of metadata that no filter sees
	vectors    map[string]vector
	made       time.Time
}

type vector struct {
	Key  string `json:"key"`
	Data struct {
		Float32 []float32 `json:"float32"`
	} `json:"data"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// The bounds of the service:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
const (
	mostIndexes    = 10_000
	mostDimensions = 4096
	mostMetadata   = 40 << 10
	mostFilterable = 2 << 10
	mostNames      = 50
	mostApart      = 10
	mostVectors    = 500 // of a call
	mostGot        = 100 // of GetVectors
	mostListed     = 1000
	mostSegments   = 16
	mostFound      = 10_000
	mostBody       = 20 << 20
	// listedBytes is the number of processed bytes after which a page of a listing ends. The documentation does not
	// define which bytes count. Here these are the returned data and the vector.
	listedBytes = 1 << 20
	pageOfQuery = 100
	// mostConstraints is the limit of a filter. Each value of a list counts as one.
	mostConstraints = 100
)

// request has the parameters of all operations.
type request struct {
	VectorBucketName, IndexName string
	DataType, DistanceMetric    string
	Dimension                   int
	MetadataConfiguration       struct{ NonFilterableMetadataKeys []string }
	Vectors                     []vector
	Keys                        []string
	QueryVector                 struct{ Float32 []float32 }
	TopK                        int
	Filter                      any
	ReturnDistance              bool
	ReturnMetadata              bool
	MaxResults                  *int
	NextToken                   string
	SegmentCount, SegmentIndex  *int
}

// refusal is an error of the service.
type refusal struct {
	status  int
	kind    string
	message string
}

func (r refusal) Error() string { return r.kind + ": " + r.message }

func invalid(format string, args ...any) error {
	return refusal{http.StatusBadRequest, "ValidationException", fmt.Sprintf(format, args...)}
}

func missing(what string) error {
	return refusal{http.StatusNotFound, "NotFoundException", what + " does not exist"}
}

// ServeHTTP implements the protocol: each operation is a POST of JSON to a path that has its name.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in request
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&in)
	var out any
	if err != nil {
		err = invalid("the body: %v", err)
	} else {
		s.mu.Lock()
		out, err = s.answer(strings.TrimPrefix(r.URL.Path, "/"), in)
		s.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	if bad, is := err.(refusal); is { //nolint:errorlint // made here, never wrapped
		w.Header().Set("X-Amzn-Errortype", bad.kind)
		w.WriteHeader(bad.status)
		out = map[string]string{"message": bad.message}
	}
	if out == nil {
		out = struct{}{}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *Server) answer(operation string, in request) (any, error) {
	if operation == "CreateVectorBucket" {
		if s.buckets == nil {
			s.buckets = map[string]map[string]*collection{}
		}
		if s.buckets[in.VectorBucketName] != nil {
			return nil, refusal{http.StatusConflict, "ConflictException", "the bucket exists"}
		}
		s.buckets[in.VectorBucketName] = map[string]*collection{}
		return map[string]string{"vectorBucketArn": "arn:aws:s3vectors:::bucket/" + in.VectorBucketName}, nil
	}
	bucket := s.buckets[in.VectorBucketName]
	if bucket == nil {
		return nil, missing("the vector bucket " + in.VectorBucketName)
	}
	if operation == "GetVectorBucket" {
		return map[string]any{"vectorBucket": map[string]any{
			"creationTime": 0, "vectorBucketArn": "arn:aws:s3vectors:::bucket/" + in.VectorBucketName,
			"vectorBucketName": in.VectorBucketName,
		}}, nil
	}
	c := bucket[in.IndexName]
	switch {
	case operation == "CreateIndex":
		return create(bucket, in)
	case operation == "DeleteIndex":
		delete(bucket, in.IndexName)
		return nil, nil //nolint:nilnil // an answer without members
	case c == nil:
		return nil, missing("the index " + in.IndexName)
	}
	switch operation {
	case "GetIndex":
		return c.get(in.VectorBucketName), nil
	case "PutVectors":
		return nil, c.put(in.Vectors)
	case "DeleteVectors":
		return nil, c.remove(in.Keys)
	case "GetVectors":
		return c.several(in)
	case "ListVectors":
		return c.list(in)
	case "QueryVectors":
		return c.query(in, s.overlook)
	}
	return nil, refusal{http.StatusNotFound, "UnknownOperationException", operation}
}

var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func create(bucket map[string]*collection, in request) (any, error) {
	apart := in.MetadataConfiguration.NonFilterableMetadataKeys
	switch {
	case !indexName.MatchString(in.IndexName):
		return nil, invalid("indexName %q", in.IndexName)
	case in.DataType != "float32":
		return nil, invalid("dataType %q", in.DataType)
	case in.DistanceMetric != "cosine":
		return nil, invalid("distanceMetric %q: this server knows cosine", in.DistanceMetric)
	case in.Dimension < 1 || in.Dimension > mostDimensions:
		return nil, invalid("dimension %d", in.Dimension)
	case len(apart) > mostApart:
		return nil, invalid("%d non-filterable metadata keys", len(apart))
	case bucket[in.IndexName] != nil:
		return nil, refusal{http.StatusConflict, "ConflictException", "the index exists"}
	case len(bucket) >= mostIndexes:
		return nil, refusal{http.StatusPaymentRequired, "ServiceQuotaExceededException", "indexes of a vector bucket"}
	}
	bucket[in.IndexName] = &collection{
		name: in.IndexName, dimensions: in.Dimension, apart: apart, vectors: map[string]vector{}, made: time.Now(),
	}
	return map[string]string{"indexArn": arn(in.VectorBucketName, in.IndexName)}, nil
}

func arn(bucket, name string) string {
	return "arn:aws:s3vectors:::bucket/" + bucket + "/index/" + name
}

func (c *collection) get(bucket string) any {
	return map[string]any{"index": map[string]any{
		"creationTime": c.made.Unix(), "dataType": "float32", "dimension": c.dimensions, "distanceMetric": "cosine",
		"indexArn": arn(bucket, c.name), "indexName": c.name, "vectorBucketName": bucket,
		"metadataConfiguration": map[string]any{"nonFilterableMetadataKeys": c.apart},
	}}
}

func (c *collection) put(vectors []vector) error {
	if len(vectors) < 1 || len(vectors) > mostVectors {
		return invalid("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		if err := c.check(v); err != nil {
			return err
		}
	}
	for _, v := range vectors {
		c.vectors[v.Key] = v
	}
	return nil
}

func (c *collection) check(v vector) error {
	if v.Key == "" || len(v.Key) > 1024 {
		return invalid("key %q", v.Key)
	}
	if err := c.checkValues(v.Data.Float32); err != nil {
		return err
	}
	filterable := map[string]any{}
	for name, value := range v.Metadata {
		if !slices.Contains(c.apart, name) {
			filterable[name] = value
		}
		if err := checkMetadata(name, value); err != nil {
			return err
		}
	}
	if len(v.Metadata) > mostNames || size(v.Metadata) > mostMetadata || size(filterable) > mostFilterable {
		return invalid("metadata of %d bytes, %d of them filterable", size(v.Metadata), size(filterable))
	}
	return nil
}

// checkValues checks the values of a vector: as many as the dimensions, not all of them zero.
func (c *collection) checkValues(values []float32) error {
	if len(values) != c.dimensions {
		return invalid("a vector of %d dimensions in an index of %d", len(values), c.dimensions)
	}
	if norm(values) == 0 {
		return invalid("a vector of zeros")
	}
	return nil
}

func checkMetadata(name string, value any) error {
	list, _ := value.([]any)
	if primitive(value) || len(list) > 0 && !slices.ContainsFunc(list, compound) {
		return nil
	}
	return invalid("metadata %s", name)
}

func size(v any) int {
	b, _ := json.Marshal(v)
	return len(b)
}

func (c *collection) remove(keys []string) error {
	if len(keys) < 1 || len(keys) > mostVectors {
		return invalid("%d keys", len(keys))
	}
	for _, key := range keys {
		delete(c.vectors, key)
	}
	return nil
}

func (c *collection) several(in request) (any, error) {
	if len(in.Keys) < 1 || len(in.Keys) > mostGot {
		return nil, invalid("%d keys", len(in.Keys))
	}
	found := []any{}
	for _, key := range in.Keys {
		if v, is := c.vectors[key]; is {
			found = append(found, shown(v, in, 0))
		}
	}
	return map[string]any{"vectors": found}, nil
}

// shown returns a vector in the form of a response.
func shown(v vector, in request, distance float64) map[string]any {
	m := map[string]any{"key": v.Key}
	if in.ReturnMetadata && len(v.Metadata) > 0 {
		m["metadata"] = v.Metadata
	}
	if in.ReturnDistance {
		m["distance"] = distance
	}
	return m
}

func (c *collection) list(in request) (any, error) {
	most, count, at := 500, 1, 0
	for given, into := range map[*int]*int{in.MaxResults: &most, in.SegmentCount: &count, in.SegmentIndex: &at} {
		if given != nil {
			*into = *given
		}
	}
	if most < 1 || most > mostListed || count < 1 || count > mostSegments || at < 0 || at >= count ||
		in.SegmentCount == nil && in.SegmentIndex != nil { // the SDK leaves out an index of 0
		return nil, invalid("maxResults %d, segment %d of %d", most, at, count)
	}
	var keys []string
	for key := range c.vectors {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key))
		if int(hash.Sum32()%uint32(count)) == at && key > in.NextToken { //nolint:gosec // 1 to 16
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out, bytes := map[string]any{}, 0
	listed := []any{}
	for i, key := range keys {
		if len(listed) == most || bytes > listedBytes {
			out["nextToken"] = keys[i-1]
			break
		}
		v := shown(c.vectors[key], in, 0)
		listed, bytes = append(listed, v), bytes+size(v)+4*c.dimensions
	}
	out["vectors"] = listed
	return out, nil
}

func (c *collection) query(in request, overlook func(key string) bool) (any, error) {
	if in.TopK < 1 || in.TopK > mostFound {
		return nil, invalid("topK %d", in.TopK)
	}
	if err := c.checkValues(in.QueryVector.Float32); err != nil {
		return nil, err
	}
	if in.Filter != nil {
		if n := constraints(in.Filter); n > mostConstraints {
			return nil, invalid("filter: %d constraints", n)
		}
		if _, err := c.admits(in.Filter, nil); err != nil {
			return nil, err
		}
	}
	type near struct {
		vector

		distance float64
	}
	var all []near
	for _, v := range c.vectors {
		if in.Filter != nil {
			if is, _ := c.admits(in.Filter, v.Metadata); !is || overlook != nil && overlook(v.Key) {
				continue
			}
		}
		all = append(all, near{v, distance(v.Data.Float32, in.QueryVector.Float32)})
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.Key, b.Key))
	})
	all = all[:min(len(all), in.TopK)]
	start, err := strconv.Atoi(cmp.Or(in.NextToken, "0"))
	if err != nil || start < 0 {
		return nil, invalid("nextToken")
	}
	start = min(start, len(all))
	end := min(start+pageOfQuery, len(all))
	out := map[string]any{"distanceMetric": "cosine"}
	if end < len(all) {
		out["nextToken"] = strconv.Itoa(end)
	}
	page := []any{}
	for _, n := range all[start:end] {
		page = append(page, shown(n.vector, in, n.distance))
	}
	out["vectors"] = page
	return out, nil
}

func norm(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// distance returns 1 less the cosine.
func distance(a, b []float32) float64 {
	dot := 0.0
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	return 1 - dot/norm(a)/norm(b)
}

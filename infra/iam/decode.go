package iam

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxBody is the size of the longest body that is read, in bytes. S3 Vectors takes 20 MiB, DynamoDB and Lambda less.
// Bodies of objects are not read.
const maxBody = 32 << 20

// service describes where a request of a service names its operation.
type service struct {
	target string // the beginning of X-Amz-Target; empty: the path names the operation
	calls  func(*request) ([]Call, error)
}

// services has the services by the name that requests are signed for. The service authorization reference lists the
// rights that each operation needs, https://docs.aws.amazon.com/service-authorization/latest/reference/, on the
// service's page list_SERVICE.html.
var services = map[string]service{
	"dynamodb":       {"DynamoDB_20120810", dynamodb}, // list_amazondynamodb.html
	"kms":            {"TrentService", kms},           // list_awskeymanagementservice.html
	"secretsmanager": {"secretsmanager", secrets},     // list_awssecretsmanager.html
	"sqs":            {"AmazonSQS", sqs},              // list_amazonsqs.html
	"states":         {"AWSStepFunctions", states},    // list_awsstepfunctions.html
	"lambda":         {"", lambda},                    // list_awslambda.html
	"s3":             {"", s3},                        // list_amazons3.html
	"s3vectors":      {"", s3vectors},                 // list_amazons3vectors.html
}

// ErrCutOff means that a request did not arrive whole, because its program was killed or gave it up. It is not a call:
// AWS does nothing for it.
var ErrCutOff = errors.New("the request is cut off")

// request is a request that is being decoded.
type request struct {
	*http.Request
	service, region, account string
	operation                string // from X-Amz-Target, if that names it
	members                  map[string]json.RawMessage
}

// Decode returns the calls that a request makes, at least one, and the name of its service. The account is a 12-digit
// ID: it is used for resources that a request names without one. The body can be read again afterwards.
//
// It fails for a request that is cut off ([ErrCutOff]) or not signed. It fails for an unknown service, operation or
// form of an operation. It also fails for a body that is too long or that the operation does not take. The error names
// the operation.
func Decode(r *http.Request, account string) (name string, calls []Call, err error) {
	q := &request{Request: r, account: account}
	if q.service, q.region, err = scope(r); err != nil {
		return "", nil, err
	}
	s, known := services[q.service]
	if !known {
		return q.service, nil, q.unknown()
	}
	if s.target != "" {
		target, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if target != s.target {
			return q.service, nil, q.unknown()
		}
		q.operation = operation
		if err := q.read(); err != nil {
			return q.service, nil, err
		}
	}
	calls, err = s.calls(q)
	if err == nil && len(calls) == 0 {
		err = fmt.Errorf("iam: %s names nothing", q.name())
	}
	return q.service, distinct(calls), err
}

// scope returns the service and the Region that a request is signed for. They are in its header, or in its URL if it is
// presigned.
func scope(r *http.Request) (service, region string, err error) {
	credential := r.URL.Query().Get("X-Amz-Credential")
	if header := r.Header.Get("Authorization"); header != "" {
		_, rest, _ := strings.Cut(header, "Credential=")
		credential, _, _ = strings.Cut(rest, ",")
	}
	parts := strings.Split(credential, "/") // key, day, region, service, aws4_request
	if len(parts) != 5 || parts[4] != "aws4_request" {
		return "", "", fmt.Errorf("iam: %s %s is not signed by Signature Version 4", r.Method, r.URL.Path)
	}
	return parts[3], parts[2], nil
}

// name returns the name of the operation, or the closest that the request has to one.
func (q *request) name() string {
	if target := q.Header.Get("X-Amz-Target"); target != "" {
		return q.service + " " + target[strings.LastIndex(target, ".")+1:]
	}
	return q.service + " " + q.Method + " " + q.URL.RequestURI()
}

func (q *request) unknown() error {
	name := q.name()
	if strings.HasPrefix(q.Header.Get("Content-Type"), "application/x-www-form-urlencoded") { // the query protocol
		b, _ := q.body()
		form, _ := url.ParseQuery(string(b)) // as far as it can be read
		name = q.service + " " + form.Get("Action")
	}
	return fmt.Errorf("iam: it is not known which rights %s needs: add it to infra/iam/decode.go", name)
}

// body reads the body, and puts it back so that it can be read again.
func (q *request) body() ([]byte, error) {
	if q.Body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(q.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("iam: %s: %w: %w", q.name(), ErrCutOff, err)
	}
	if len(b) > maxBody {
		return nil, fmt.Errorf("iam: the body of %s is longer than %d bytes", q.name(), maxBody)
	}
	q.Body = io.NopCloser(bytes.NewReader(b))
	return b, nil
}

// read reads the body, a JSON object.
func (q *request) read() error {
	b, err := q.body()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &q.members); err != nil {
		return fmt.Errorf("iam: the body of %s: %w", q.name(), err)
	}
	return nil
}

// text returns a member that must be a non-empty string.
func (q *request) text(name string) (string, error) { return q.textIn(q.members, name) }

func (q *request) textIn(members map[string]json.RawMessage, name string) (s string, err error) {
	if json.Unmarshal(members[name], &s) != nil || s == "" {
		return "", fmt.Errorf("iam: %s has no %s", q.name(), name)
	}
	return s, nil
}

// into decodes a member into v. If the member is absent, v does not change.
func (q *request) into(name string, v any) error {
	if q.members[name] == nil {
		return nil
	}
	if err := json.Unmarshal(q.members[name], v); err != nil {
		return fmt.Errorf("iam: %s of %s: %w", name, q.name(), err)
	}
	return nil
}

// arn returns an ARN in the request's Region.
func (q *request) arn(resource string) string {
	return "arn:aws:" + q.service + ":" + q.region + ":" + q.account + ":" + resource
}

// named returns the ARN of a resource that a request may name by its name or by its ARN.
func (q *request) named(prefix, name string) string {
	if strings.HasPrefix(name, "arn:") {
		return name
	}
	return q.arn(prefix + name)
}

// one returns the call of an operation whose right has the operation's own name.
func (q *request) one(resource string) []Call {
	return []Call{{Action: q.service + ":" + q.operation, Resource: resource}}
}

// distinct removes repeated calls, for example in a transaction of many items. It keeps all calls that have a context.
func distinct(calls []Call) []Call {
	type key struct{ action, resource string }
	seen := map[key]bool{}
	return slices.DeleteFunc(calls, func(c Call) bool {
		k := key{c.Action, c.Resource}
		again := seen[k] && c.Context == nil
		seen[k] = true
		return again
	})
}

// inTransaction has the right that each part of a transaction needs.
var inTransaction = map[string]string{
	"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
	"Get": "GetItem",
}

func dynamodb(q *request) ([]Call, error) {
	switch q.operation {
	case "GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "DescribeTable":
		table, err := q.text("TableName")
		if err != nil {
			return nil, err
		}
		resource, index := q.named("table/", table), ""
		if err := q.into("IndexName", &index); err != nil {
			return nil, err
		}
		if index != "" {
			resource += "/index/" + index
		}
		return q.one(resource), nil
	case "BatchGetItem", "BatchWriteItem":
		var tables map[string]json.RawMessage
		if err := q.into("RequestItems", &tables); err != nil {
			return nil, err
		}
		var calls []Call
		for _, table := range slices.Sorted(maps.Keys(tables)) {
			calls = append(calls, q.one(q.named("table/", table))...)
		}
		return calls, nil
	case "TransactWriteItems", "TransactGetItems":
		var items []map[string]map[string]json.RawMessage
		if err := q.into("TransactItems", &items); err != nil {
			return nil, err
		}
		var calls []Call
		for _, item := range items {
			for part, members := range item {
				action, known := inTransaction[part]
				if !known {
					return nil, fmt.Errorf("iam: %s with a part %q: add it to infra/iam/decode.go", q.name(), part)
				}
				table, err := q.textIn(members, "TableName")
				if err != nil {
					return nil, err
				}
				calls = append(calls, Call{Action: "dynamodb:" + action, Resource: q.named("table/", table)})
			}
		}
		return calls, nil
	}
	return nil, q.unknown()
}

func sqs(q *request) ([]Call, error) {
	switch q.operation {
	case "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		q.operation = strings.TrimSuffix(q.operation, "Batch")
	case "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes":
	default:
		return nil, q.unknown()
	}
	address, err := q.text("QueueUrl") // https://HOST/ACCOUNT/NAME; of LocalStack with more before the account
	if err != nil {
		return nil, err
	}
	parts := strings.Split(address, "/")
	if len(parts) < 2 {
		return nil, fmt.Errorf("iam: %s: the QueueUrl %q names no queue", q.name(), address)
	}
	queue := parts[len(parts)-2:]
	return q.one("arn:aws:sqs:" + q.region + ":" + queue[0] + ":" + queue[1]), nil
}

// kms: https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html
func kms(q *request) ([]Call, error) {
	switch q.operation {
	case "Encrypt", "Decrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext":
	default:
		return nil, q.unknown()
	}
	key, err := q.text("KeyId") // optional for Decrypt, but without it the key is unknown
	if err != nil {
		return nil, err
	}
	if strings.Contains(key, "alias/") {
		return nil, fmt.Errorf("iam: %s: rights are to keys, and %s is an alias", q.name(), key)
	}
	bound := map[string]string{}
	if err := q.into("EncryptionContext", &bound); err != nil {
		return nil, err
	}
	calls := q.one(q.named("key/", key))
	if len(bound) > 0 {
		calls[0].Context = map[string][]string{"kms:encryptioncontextkeys": slices.Sorted(maps.Keys(bound))}
		for name, value := range bound {
			calls[0].Context["kms:encryptioncontext:"+strings.ToLower(name)] = []string{value}
		}
	}
	return calls, nil
}

func secrets(q *request) ([]Call, error) {
	if q.operation != "GetSecretValue" {
		return nil, q.unknown()
	}
	secret, err := q.text("SecretId")
	if err != nil {
		return nil, err
	}
	return q.one(q.named("secret:", secret)), nil
}

func states(q *request) ([]Call, error) {
	member := map[string]string{"StartExecution": "stateMachineArn", "StopExecution": "executionArn",
		"DescribeExecution": "executionArn"}[q.operation]
	if member == "" {
		return nil, q.unknown()
	}
	resource, err := q.text(member)
	if err != nil {
		return nil, err
	}
	return q.one(resource), nil
}

func lambda(q *request) ([]Call, error) {
	name, isInvocation := strings.CutSuffix(q.URL.Path, "/invocations")
	name, isFunction := strings.CutPrefix(name, "/2015-03-31/functions/")
	if q.Method != http.MethodPost || !isInvocation || !isFunction || name == "" || strings.Contains(name, "/") {
		return nil, q.unknown()
	}
	resource := q.named("function:", name) // a name, with or without the name of a version, or an ARN
	if version := q.URL.Query().Get("Qualifier"); version != "" {
		resource += ":" + version
	}
	return []Call{{Action: "lambda:InvokeFunction", Resource: resource}}, nil
}

// s3vectors decodes calls of S3 Vectors. A search with a filter or with metadata in its results also needs the right to
// get vectors. So does a listing that returns the content of vectors:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-access-management.html
func s3vectors(q *request) ([]Call, error) {
	q.operation = strings.TrimPrefix(q.URL.Path, "/")
	ofBucket := q.operation == "GetVectorBucket" || q.operation == "ListIndexes"
	switch q.operation {
	case "GetIndex", "CreateIndex", "DeleteIndex", "PutVectors", "GetVectors", "ListVectors", "QueryVectors",
		"DeleteVectors":
	default:
		if !ofBucket {
			return nil, q.unknown()
		}
	}
	if err := q.read(); err != nil {
		return nil, err
	}
	resource, err := q.text("indexArn")
	if err != nil || ofBucket {
		bucket, err := q.text("vectorBucketName")
		if err != nil {
			return nil, err
		}
		if resource = q.arn("bucket/" + bucket); !ofBucket {
			index, err := q.text("indexName")
			if err != nil {
				return nil, err
			}
			resource += "/index/" + index
		}
	}
	calls := q.one(resource)
	var metadata, data bool
	if err := errors.Join(q.into("returnMetadata", &metadata), q.into("returnData", &data)); err != nil {
		return nil, err
	}
	searches := q.operation == "QueryVectors" && (metadata || q.members["filter"] != nil)
	if searches || q.operation == "ListVectors" && (metadata || data) {
		calls = append(calls, Call{Action: "s3vectors:GetVectors", Resource: resource})
	}
	return calls, nil
}

// inS3 has the operations of S3 by their method and parameters: one that must be present, and those that may be. An
// operation on a version of an object has another action.
var inS3 = []struct{ method, with, may, action, ofVersion string }{
	{http.MethodGet, "", "versionId partNumber", "s3:GetObject", "s3:GetObjectVersion"},
	{http.MethodHead, "", "versionId partNumber", "s3:GetObject", "s3:GetObjectVersion"},
	{http.MethodPut, "", "", "s3:PutObject", ""},
	{http.MethodPost, "uploads", "", "s3:PutObject", ""},
	{http.MethodPut, "uploadId", "partNumber", "s3:PutObject", ""},
	{http.MethodPost, "uploadId", "", "s3:PutObject", ""},
	{http.MethodDelete, "uploadId", "", "s3:AbortMultipartUpload", ""},
	{http.MethodGet, "uploadId", "max-parts part-number-marker", "s3:ListMultipartUploadParts", ""},
	{http.MethodDelete, "", "versionId", "s3:DeleteObject", "s3:DeleteObjectVersion"},
}

// inBucket has the operations on a bucket.
var inBucket = []struct{ method, with, may, action string }{
	{http.MethodHead, "", "", "s3:ListBucket"},
	{http.MethodGet, "", "list-type prefix delimiter max-keys continuation-token start-after encoding-type " +
		"fetch-owner marker", "s3:ListBucket"},
	{http.MethodGet, "versions", "prefix delimiter max-keys key-marker version-id-marker encoding-type",
		"s3:ListBucketVersions"},
	{http.MethodPost, "delete", "", ""}, // needs a right for each object
}

// plain has the parameters that do not change the operation: those of the signature, of the SDK, and of the response's
// format.
var plain = []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders",
	"X-Amz-Signature", "X-Amz-Security-Token", "X-Amz-Content-Sha256", "x-amz-checksum-mode", "x-id",
	"response-cache-control", "response-content-disposition", "response-content-encoding",
	"response-content-language", "response-content-type", "response-expires"}

// inHeaders has the prefixes of headers for which S3 needs more than the right to the object.
var inHeaders = []string{"X-Amz-Acl", "X-Amz-Grant-", "X-Amz-Tagging", "X-Amz-Object-Lock-",
	"X-Amz-Bypass-Governance-Retention", "X-Amz-Website-Redirect-Location"}

func s3(q *request) ([]Call, error) {
	if strings.Contains(q.Host, ".s3.") {
		return nil, fmt.Errorf("iam: s3 %s: %s names the bucket; only in the path is it understood", q.Method, q.Host)
	}
	for header := range q.Header {
		for _, prefix := range inHeaders {
			if strings.HasPrefix(header, prefix) {
				return nil, fmt.Errorf("iam: it is not known which rights s3 %s with %s needs: add it to "+
					"infra/iam/decode.go", q.Method, header)
			}
		}
	}
	parameters, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("iam: s3 %s: %w", q.Method, err)
	}
	asks := map[string]bool{}
	for name := range parameters {
		if !slices.ContainsFunc(plain, func(p string) bool { return strings.EqualFold(p, name) }) {
			asks[name] = true
		}
	}
	fits := func(method, with, may string) bool {
		if method != q.Method || with != "" && !asks[with] {
			return false
		}
		for name := range asks {
			if name != with && !slices.Contains(strings.Fields(may), name) {
				return false
			}
		}
		return true
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	if bucket == "" {
		return nil, q.unknown()
	}
	const prefix = "arn:aws:s3:::"
	if key == "" {
		for _, o := range inBucket {
			switch {
			case !fits(o.method, o.with, o.may):
			case o.with == "delete":
				return q.deletions(prefix + bucket)
			default:
				return []Call{{Action: o.action, Resource: prefix + bucket}}, nil
			}
		}
		return nil, q.unknown()
	}
	for _, o := range inS3 {
		if !fits(o.method, o.with, o.may) {
			continue
		}
		calls := []Call{{Action: o.action, Resource: prefix + bucket + "/" + key}}
		if asks["versionId"] {
			calls[0].Action = o.ofVersion
		}
		source := q.Header.Get("X-Amz-Copy-Source")
		if source == "" {
			return calls, nil
		}
		from, err := url.Parse("/" + strings.TrimPrefix(source, "/"))
		if err != nil || o.action != "s3:PutObject" || !strings.Contains(strings.Trim(from.Path, "/"), "/") {
			return nil, fmt.Errorf("iam: s3 %s: the source of a copy: %q", q.Method, source)
		}
		read := Call{Action: "s3:GetObject", Resource: prefix + strings.TrimPrefix(from.Path, "/")}
		if from.Query().Has("versionId") {
			read.Action = "s3:GetObjectVersion"
		}
		return append(calls, read), nil
	}
	return nil, q.unknown()
}

// deletions returns the calls of DeleteObjects, one for each object.
func (q *request) deletions(bucket string) ([]Call, error) {
	b, err := q.body()
	if err != nil {
		return nil, err
	}
	var list struct {
		Object []struct{ Key, VersionId string } //nolint:revive // S3's name
	}
	if err := xml.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("iam: the body of %s: %w", q.name(), err)
	}
	var calls []Call
	for _, o := range list.Object {
		c := Call{Action: "s3:DeleteObject", Resource: bucket + "/" + o.Key}
		if o.VersionId != "" {
			c.Action = "s3:DeleteObjectVersion"
		}
		calls = append(calls, c)
	}
	return calls, nil
}

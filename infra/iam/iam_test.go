package iam_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors"
	"github.com/aws/aws-sdk-go-v2/service/s3vectors/document"
	vectors "github.com/aws/aws-sdk-go-v2/service/s3vectors/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/iam"
)

const account, region = "000000000000", "eu-central-1"

// clients are those of the SDK, at an address.
type clients struct {
	aws.Config

	table   *dynamodb.Client
	queue   *sqs.Client
	key     *kms.Client
	secret  *secretsmanager.Client
	machine *sfn.Client
	invoke  *lambda.Client
	objects *s3.Client
	index   *s3vectors.Client
}

func at(address string) clients {
	c := aws.Config{Region: region, BaseEndpoint: &address, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")}
	return clients{c, dynamodb.NewFromConfig(c), sqs.NewFromConfig(c), kms.NewFromConfig(c),
		secretsmanager.NewFromConfig(c), sfn.NewFromConfig(c), lambda.NewFromConfig(c),
		s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true }), s3vectors.NewFromConfig(c)}
}

var (
	item     = map[string]table.AttributeValue{"pk": &table.AttributeValueMemberS{Value: "run/1"}}
	queueURL = aws.String("http://127.0.0.1:4566/queue/eu-central-1/000000000000/run")
	owner    = map[string]string{"owner": "organization"}
)

// sdkCalls has calls of the SDK, and the rights that they need.
var sdkCalls = []struct {
	name string
	call func(context.Context, clients) error
	want []string
}{
	{"GetItem", func(ctx context.Context, c clients) error {
		_, err := c.table.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("core"), Key: item})
		return err
	}, []string{"dynamodb:GetItem on table/core"}},
	{"a table by its ARN", func(ctx context.Context, c clients) error {
		_, err := c.table.PutItem(ctx, &dynamodb.PutItemInput{Item: item,
			TableName: aws.String("arn:aws:dynamodb:eu-central-1:000000000000:table/core")})
		return err
	}, []string{"dynamodb:PutItem on table/core"}},
	{"Query of an index", func(ctx context.Context, c clients) error {
		_, err := c.table.Query(ctx, &dynamodb.QueryInput{TableName: aws.String("core"), IndexName: aws.String("due"),
			KeyConditionExpression: aws.String("due = :x")})
		return err
	}, []string{"dynamodb:Query on table/core/index/due"}},
	{"BatchGetItem of two tables", func(ctx context.Context, c clients) error {
		keys := table.KeysAndAttributes{Keys: []map[string]table.AttributeValue{item}}
		_, err := c.table.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]table.KeysAndAttributes{"feed": keys, "core": keys}})
		return err
	}, []string{"dynamodb:BatchGetItem on table/core", "dynamodb:BatchGetItem on table/feed"}},
	{"TransactWriteItems", func(ctx context.Context, c clients) error {
		core := aws.String("core")
		put := table.TransactWriteItem{Put: &table.Put{TableName: core, Item: item}}
		_, err := c.table.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: []table.TransactWriteItem{put, put,
				{Delete: &table.Delete{TableName: core, Key: item}},
				{Update: &table.Update{TableName: core, Key: item, UpdateExpression: aws.String("x")}},
				{ConditionCheck: &table.ConditionCheck{TableName: core, Key: item,
					ConditionExpression: aws.String("x")}}}})
		return err
	}, []string{"dynamodb:PutItem on table/core", "dynamodb:DeleteItem on table/core",
		"dynamodb:UpdateItem on table/core", "dynamodb:ConditionCheckItem on table/core"}},
	{"SendMessage", func(ctx context.Context, c clients) error {
		_, err := c.queue.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queueURL, MessageBody: aws.String("x")})
		return err
	}, []string{"sqs:SendMessage on run"}},
	{"SendMessageBatch", func(ctx context.Context, c clients) error {
		_, err := c.queue.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: queueURL,
			Entries: []sqstypes.SendMessageBatchRequestEntry{{Id: aws.String("1"), MessageBody: aws.String("x")}}})
		return err
	}, []string{"sqs:SendMessage on run"}},
	{"Decrypt", func(ctx context.Context, c clients) error {
		_, err := c.key.Decrypt(ctx, &kms.DecryptInput{KeyId: aws.String("1-2"), CiphertextBlob: []byte("x"),
			EncryptionContext: owner})
		return err
	}, []string{"kms:Decrypt on key/1-2 kms:encryptioncontext:owner=organization kms:encryptioncontextkeys=owner"}},
	{"GenerateDataKey", func(ctx context.Context, c clients) error {
		_, err := c.key.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: aws.String("1-2"),
			KeySpec: kmstypes.DataKeySpecAes256})
		return err
	}, []string{"kms:GenerateDataKey on key/1-2"}},
	{"GetSecretValue", func(ctx context.Context, c clients) error {
		_, err := c.secret.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{
			SecretId: aws.String("arn:aws:secretsmanager:eu-central-1:000000000000:secret:s-AbCdEf")})
		return err
	}, []string{"secretsmanager:GetSecretValue on secret:s-AbCdEf"}},
	{"StartExecution", func(ctx context.Context, c clients) error {
		_, err := c.machine.StartExecution(ctx, &sfn.StartExecutionInput{
			StateMachineArn: aws.String("arn:aws:states:eu-central-1:000000000000:stateMachine:m")})
		return err
	}, []string{"states:StartExecution on stateMachine:m"}},
	{"StopExecution", func(ctx context.Context, c clients) error {
		_, err := c.machine.StopExecution(ctx, &sfn.StopExecutionInput{
			ExecutionArn: aws.String("arn:aws:states:eu-central-1:000000000000:execution:m:run-p1")})
		return err
	}, []string{"states:StopExecution on execution:m:run-p1"}},
	{"Invoke", func(ctx context.Context, c clients) error {
		_, err := c.invoke.Invoke(ctx, &lambda.InvokeInput{Payload: []byte("{}"),
			FunctionName: aws.String("arn:aws:lambda:eu-central-1:000000000000:function:broker:live")})
		return err
	}, []string{"lambda:InvokeFunction on function:broker:live"}},
	{"Invoke of a version", func(ctx context.Context, c clients) error {
		_, err := c.invoke.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("broker"),
			Qualifier: aws.String("live")})
		return err
	}, []string{"lambda:InvokeFunction on function:broker:live"}},
	{"GetObject", func(ctx context.Context, c clients) error {
		_, err := c.objects.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("file/1 ü?")})
		return err
	}, []string{"s3:GetObject on b/file/1 ü?"}},
	{"GetObject of a version", func(ctx context.Context, c clients) error {
		_, err := c.objects.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k"),
			VersionId: aws.String("1")})
		return err
	}, []string{"s3:GetObjectVersion on b/k"}},
	{"HeadObject", func(ctx context.Context, c clients) error {
		_, err := c.objects.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		return err
	}, []string{"s3:GetObject on b/k"}},
	{"PutObject", func(ctx context.Context, c clients) error {
		_, err := c.objects.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"),
			Body: strings.NewReader("x"), IfNoneMatch: aws.String("*"), ContentType: aws.String("text/plain")})
		return err
	}, []string{"s3:PutObject on b/k"}},
	{"UploadPart", func(ctx context.Context, c clients) error {
		_, err := c.objects.UploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String("b"), Key: aws.String("k"),
			PartNumber: aws.Int32(1), UploadId: aws.String("u"), Body: strings.NewReader("x")})
		return err
	}, []string{"s3:PutObject on b/k"}},
	{"CreateMultipartUpload", func(ctx context.Context, c clients) error {
		_, err := c.objects.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("b"),
			Key: aws.String("k")})
		return err
	}, []string{"s3:PutObject on b/k"}},
	{"AbortMultipartUpload", func(ctx context.Context, c clients) error {
		_, err := c.objects.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: aws.String("b"),
			Key: aws.String("k"), UploadId: aws.String("u")})
		return err
	}, []string{"s3:AbortMultipartUpload on b/k"}},
	{"CopyObject", func(ctx context.Context, c clients) error {
		_, err := c.objects.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("k"),
			CopySource: aws.String("a/one%20two?versionId=1")})
		return err
	}, []string{"s3:PutObject on b/k", "s3:GetObjectVersion on a/one two"}},
	{"DeleteObject", func(ctx context.Context, c clients) error {
		_, err := c.objects.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		return err
	}, []string{"s3:DeleteObject on b/k"}},
	{"DeleteObjects", func(ctx context.Context, c clients) error {
		_, err := c.objects.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("b"),
			Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("k")},
				{Key: aws.String("l"), VersionId: aws.String("1")}}}})
		return err
	}, []string{"s3:DeleteObject on b/k", "s3:DeleteObjectVersion on b/l"}},
	{"ListObjectsV2", func(ctx context.Context, c clients) error {
		_, err := c.objects.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("b"),
			Prefix: aws.String("file/"), ContinuationToken: aws.String("x")})
		return err
	}, []string{"s3:ListBucket on b"}},
	{"a presigned PutObject", func(ctx context.Context, c clients) error {
		signed, err := s3.NewPresignClient(c.objects).PresignPutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"),
			Key: aws.String("k"), ContentType: aws.String("text/plain"), ContentLength: aws.Int64(1),
			IfNoneMatch: aws.String("*")}, s3.WithPresignExpires(time.Minute))
		if err != nil {
			return err
		}
		return send(ctx, http.MethodPut, signed.URL)
	}, []string{"s3:PutObject on b/k"}},
	{"a presigned GetObject", func(ctx context.Context, c clients) error {
		signed, err := s3.NewPresignClient(c.objects).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("b"),
			Key: aws.String("k"), ResponseContentType: aws.String("text/plain"),
			ResponseContentDisposition: aws.String("attachment")})
		if err != nil {
			return err
		}
		return send(ctx, http.MethodGet, signed.URL)
	}, []string{"s3:GetObject on b/k"}},
	{"GetVectorBucket", func(ctx context.Context, c clients) error {
		_, err := c.index.GetVectorBucket(ctx, &s3vectors.GetVectorBucketInput{VectorBucketName: aws.String("v")})
		return err
	}, []string{"s3vectors:GetVectorBucket on bucket/v"}},
	{"PutVectors", func(ctx context.Context, c clients) error {
		_, err := c.index.PutVectors(ctx, &s3vectors.PutVectorsInput{VectorBucketName: aws.String("v"),
			IndexName: aws.String("i"), Vectors: []vectors.PutInputVector{{Key: aws.String("1"),
				Data: &vectors.VectorDataMemberFloat32{Value: []float32{1}}}}})
		return err
	}, []string{"s3vectors:PutVectors on bucket/v/index/i"}},
	{"QueryVectors with a filter", func(ctx context.Context, c clients) error {
		_, err := c.index.QueryVectors(ctx, &s3vectors.QueryVectorsInput{VectorBucketName: aws.String("v"),
			IndexName: aws.String("i"), QueryVector: &vectors.VectorDataMemberFloat32{Value: []float32{1}},
			TopK: aws.Int32(1), Filter: document.NewLazyDocument(map[string]any{"a": "b"})})
		return err
	}, []string{"s3vectors:QueryVectors on bucket/v/index/i", "s3vectors:GetVectors on bucket/v/index/i"}},
	{"ListVectors", func(ctx context.Context, c clients) error {
		_, err := c.index.ListVectors(ctx, &s3vectors.ListVectorsInput{VectorBucketName: aws.String("v"),
			IndexName: aws.String("i")})
		return err
	}, []string{"s3vectors:ListVectors on bucket/v/index/i"}},
}

func send(ctx context.Context, method, address string) error {
	r, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return a.Body.Close()
}

// formatCall formats a call in one line, with its context.
func formatCall(c iam.Call) string {
	line := c.String()
	for _, key := range []string{"kms:encryptioncontext:owner", "kms:encryptioncontextkeys"} {
		if v := c.Context[key]; v != nil {
			line += " " + key + "=" + strings.Join(v, ",")
		}
	}
	return line
}

func TestTheSDKsRequestsAreUnderstood(t *testing.T) {
	for _, one := range sdkCalls {
		t.Run(one.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				before := r.ContentLength
				_, calls, err := iam.Decode(r, account)
				assert.NoError(t, err)
				for _, c := range calls {
					got = append(got, formatCall(c))
				}
				b, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.EqualValues(t, before, len(b), "the body is there still")
				w.WriteHeader(http.StatusOK)
			}))
			t.Cleanup(server.Close)
			_ = one.call(t.Context(), at(server.URL)) // the answer is none
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, one.want, got)
		})
	}
}

func TestWhatIsNotKnownIsNamed(t *testing.T) {
	for want, call := range map[string]func(context.Context, clients) error{
		"sts GetCallerIdentity": func(ctx context.Context, c clients) error {
			_, err := sts.NewFromConfig(c.Config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		},
		"dynamodb DescribeTimeToLive": func(ctx context.Context, c clients) error {
			_, err := c.table.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("t")})
			return err
		},
		"s3 GET /b/k?tagging": func(ctx context.Context, c clients) error {
			_, err := c.objects.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: aws.String("b"),
				Key: aws.String("k")})
			return err
		},
		"s3 PUT with X-Amz-Acl": func(ctx context.Context, c clients) error {
			_, err := c.objects.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"),
				Body: strings.NewReader(""), ACL: s3types.ObjectCannedACLPublicRead})
			return err
		},
		"lambda GET /2015-03-31/functions": func(ctx context.Context, c clients) error {
			_, err := c.invoke.ListFunctions(ctx, &lambda.ListFunctionsInput{})
			return err
		},
		"s3vectors POST /ListVectorBuckets": func(ctx context.Context, c clients) error {
			_, err := c.index.ListVectorBuckets(ctx, &s3vectors.ListVectorBucketsInput{})
			return err
		},
		"kms Decrypt has no KeyId": func(ctx context.Context, c clients) error {
			_, err := c.key.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: []byte("x")})
			return err
		},
		"not signed": func(ctx context.Context, c clients) error { return send(ctx, http.MethodGet, *c.BaseEndpoint) },
	} {
		t.Run(want, func(t *testing.T) {
			var mu sync.Mutex
			var failure error
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				_, _, failure = iam.Decode(r, account)
				w.WriteHeader(http.StatusTeapot)
			}))
			t.Cleanup(server.Close)
			_ = call(t.Context(), at(server.URL))
			mu.Lock()
			defer mu.Unlock()
			assert.ErrorContains(t, failure, want)
		})
	}
}

// stack is a small template: a function with its role, and the resources that it uses.
const stack = `{"Resources": {
 "Core01234567": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {}},
 "Blobs01234567": {"Type": "AWS::S3::Bucket", "Properties": {}},
 "Key01234567": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Version": "2012-10-17", "Statement": [
   {"Effect": "Allow", "Action": "kms:*", "Resource": "*", "Principal": {"AWS": {"Fn::Join": ["", ["arn:",
     {"Ref": "AWS::Partition"}, ":iam::", {"Ref": "AWS::AccountId"}, ":root"]]}}}]}}},
 "Policy": {"Type": "AWS::S3::BucketPolicy", "Properties": {"PolicyDocument": {"Version": "2012-10-17", "Statement": [
   {"Effect": "Deny", "Action": "s3:*", "Principal": {"AWS": "*"},
    "Resource": {"Fn::Join": ["", [{"Fn::GetAtt": ["Blobs01234567", "Arn"]}, "/*"]]},
    "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}}},
 "Worker01234567": {"Type": "AWS::Lambda::Function", "Properties": {"Role": {"Fn::GetAtt": ["Role01234567", "Arn"]}}},
 "Role01234567": {"Type": "AWS::IAM::Role", "Properties": {"ManagedPolicyArns": [{"Fn::Sub":
   "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"}]}},
 "Rights": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "Role01234567"}],
  "PolicyDocument": {"Version": "2012-10-17", "Statement": [
   {"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": [
     {"Fn::GetAtt": ["Core01234567", "Arn"]}, {"Fn::Sub": "${Core01234567.Arn}/index/*"}]},
   {"Effect": "Allow", "Action": "s3:GetObject", "Resource": {"Fn::Sub": "${Blobs01234567.Arn}/*"}},
   {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": {"Fn::GetAtt": ["Key01234567", "Arn"]},
    "Condition": {"StringLike": {"kms:EncryptionContext:owner": ["organi?ation", "t/*"]},
     "ForAllValues:StringEquals": {"kms:EncryptionContextKeys": ["owner"]}}}
  ]}}}}}`

func read(t *testing.T, template string) *iam.Stacks {
	t.Helper()
	s, err := iam.Read(map[string][]byte{"Service": []byte(template)}, region, account)
	require.NoError(t, err)
	return s
}

const arns = "arn:aws:"

func TestDecisions(t *testing.T) {
	s := read(t, stack)
	core := arns + "dynamodb:eu-central-1:000000000000:table/Core"
	key := arns + "kms:eu-central-1:000000000000:key/Key"
	bound := func(owner string, more ...string) map[string][]string {
		return map[string][]string{"kms:encryptioncontext:owner": {owner},
			"kms:encryptioncontextkeys": append([]string{"owner"}, more...)}
	}
	safe := map[string][]string{"aws:securetransport": {"true"}}
	for _, one := range []struct {
		call iam.Call
		want bool
	}{
		{iam.Call{Action: "dynamodb:GetItem", Resource: core}, true},
		{iam.Call{Action: "dynamodb:getitem", Resource: core}, true}, // actions are written in any case
		{iam.Call{Action: "dynamodb:GetItem", Resource: core + "s"}, false},
		{iam.Call{Action: "dynamodb:Query", Resource: core + "/index/due"}, true},
		{iam.Call{Action: "dynamodb:PutItem", Resource: core}, false},
		{iam.Call{Action: "s3:GetObject", Resource: arns + "s3:::Blobs/a/b", Context: safe}, true},
		{iam.Call{Action: "s3:GetObject", Resource: arns + "s3:::Blobs/a/b",
			Context: map[string][]string{"aws:securetransport": {"false"}}}, false},
		{iam.Call{Action: "s3:GetObjectVersion", Resource: arns + "s3:::Blobs/a", Context: safe}, false},
		{iam.Call{Action: "s3:GetObject", Resource: arns + "s3:::Blobs", Context: safe}, false},
		{iam.Call{Action: "kms:Decrypt", Resource: key, Context: bound("organization")}, true},
		{iam.Call{Action: "kms:Decrypt", Resource: key, Context: bound("t/1")}, true},
		{iam.Call{Action: "kms:Decrypt", Resource: key, Context: bound("another")}, false},
		{iam.Call{Action: "kms:Decrypt", Resource: key, Context: bound("organization", "more")}, false},
		{iam.Call{Action: "kms:Decrypt", Resource: key}, false},
		{iam.Call{Action: "logs:PutLogEvents", Resource: arns + "logs:x:y:log-group:z"}, true},
	} {
		d := s.Decide("Role", one.call)
		assert.Equal(t, one.want, d.Allowed, "%s %v: %s", one.call, one.call.Context, d.Why)
		assert.Equal(t, one.want, d.Why == "")
		assert.False(t, s.Decide("Another", one.call).Allowed)
	}
	programs, err := s.Programs()
	require.NoError(t, err)
	assert.Equal(t, []iam.Program{{Name: "Worker", Role: "Role"}}, programs)
	// without the line that leaves it to the account, a role's own right to a key is none
	alone := read(t, strings.Replace(stack, `":root"`, `":role/Another"`, 1))
	d := alone.Decide("Role", iam.Call{Action: "kms:Decrypt", Resource: key, Context: bound("organization")})
	assert.Contains(t, d.Why, "the policy of the key")
	// and a key may admit a role by its own policy
	direct := read(t, strings.Replace(stack, `":root"`, `":role/Role"`, 1))
	assert.True(t, direct.Decide("Role", iam.Call{Action: "kms:Encrypt", Resource: key}).Allowed)
}

func TestWhatATemplateMayNotHave(t *testing.T) {
	deep := strings.Repeat(`{"Fn::Join": ["", [`, 200) + `"x"` + strings.Repeat(`]]}`, 200)
	for want, change := range map[string][2]string{
		"operator StringNotLike":     {`"StringLike"`, `"StringNotLike"`},
		"condition key aws:sourceip": {`kms:EncryptionContext:owner`, `aws:SourceIp`},
		"member NotPrincipal":        {`"Principal": {"AWS": "*"}`, `"NotPrincipal": {"AWS": "*"}`},
		"principal CanonicalUser":    {`"Principal": {"AWS": "*"}`, `"Principal": {"CanonicalUser": "*"}`},
		"Fn::If":                     {`"Fn::Sub"`, `"Fn::If"`},
		"Arn2 of Core01234567":       {`["Core01234567", "Arn"]`, `["Core01234567", "Arn2"]`},
		"boundary":                   {`"ManagedPolicyArns"`, `"PermissionsBoundary": "x", "ManagedPolicyArns"`},
		"effect Perhaps":             {`"Effect": "Allow"`, `"Effect": "Perhaps"`},
		"version":                    {`"2012-10-17"`, `"2008-10-17"`},
		"variable":                   {`"t/*"`, `"${aws:username}"`},
		"policy of Blobs01234567": {`S3::Bucket", "Properties": {}`,
			`S3::X", "Properties": {"A": [{"PolicyDocument": 1}]}`},
		"no role Role2":      {`"Roles": [{"Ref": "Role01234567"}]`, `"Roles": ["Role2"]`},
		"without Effect":     {`"Effect": "Allow", "Action": "s3:GetObject"`, `"Action": "s3:GetObject"`},
		"more than 100 deep": {`{"Fn::GetAtt": ["Blobs01234567", "Arn"]}`, deep},
		"Fn::Select of [3": {`{"Fn::GetAtt": ["Key01234567", "Arn"]}`,
			`{"Fn::Select": [3, {"Fn::Split": ["/", "a/b"]}]}`},
		"nothing exports x":    {`{"Fn::GetAtt": ["Key01234567", "Arn"]}`, `{"Fn::ImportValue": "x"}`},
		"the template Service": {`{"Resources"`, `["Resources"`},
		"a permission for \"*\"": {`S3::Bucket", "Properties": {}`,
			`Lambda::Permission", "Properties": {"Principal": "*"}`},
	} {
		t.Run(want, func(t *testing.T) {
			changed := strings.ReplaceAll(stack, change[0], change[1])
			require.NotEqual(t, stack, changed)
			_, err := iam.Read(map[string][]byte{"Service": []byte(changed)}, region, account)
			assert.ErrorContains(t, err, want)
		})
	}
	other := read(t, strings.Replace(stack, `service-role/AWSLambdaBasicExecutionRole`, `AdministratorAccess`, 1))
	_, err := other.Programs()
	require.ErrorContains(t, err, "AdministratorAccess")
	assert.Contains(t, other.Decide("Role", iam.Call{Action: "a:B", Resource: "arn:x"}).Why, "AdministratorAccess")
	_, err = iam.Read(map[string][]byte{"A": []byte(stack), "B": []byte(stack)}, region, account)
	assert.ErrorContains(t, err, "two stacks")
}

// served returns clients of a guard of the worker, and the last forwarded request.
func served(t *testing.T, ledger *iam.Ledger) (c clients, last *atomic.Value) {
	t.Helper()
	last = &atomic.Value{}
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		last.Store(r.Method + " " + r.Host + " " + r.URL.RequestURI() + " " + string(b))
	}))
	t.Cleanup(behind.Close)
	u, err := url.Parse(behind.URL)
	require.NoError(t, err)
	stacks := read(t, stack)
	names := stacks.Names(map[string]string{"Core01234567": "w1-core-abc", "Blobs01234567": "w1-blobs-abc",
		"Key01234567": "arn:aws:kms:eu-central-1:000000000000:key/1-2", "Policy": "table", "Nothing": "x"})
	guard := httptest.NewServer(&iam.Guard{
		Program: iam.Program{Name: "Worker", Role: "Role"}, Stacks: stacks, Ledger: ledger, Account: account,
		Names: func() iam.Names { return names }, Backend: func(string) *url.URL { return u },
	})
	t.Cleanup(guard.Close)
	return at(guard.URL), last
}

func TestAGuardForwardsWhatIsAllowedAndRefusesTheRest(t *testing.T) {
	ledger := &iam.Ledger{}
	c, last := served(t, ledger)
	ctx := t.Context()
	get := func(name string) error {
		_, err := c.table.GetItem(ctx, &dynamodb.GetItemInput{TableName: &name, Key: item})
		return err
	}
	require.NoError(t, get("w1-core-abc"))
	assert.Contains(t, last.Load(), `"TableName":"w1-core-abc"`, "it is forwarded as it is")
	last.Store("")
	for want, call := range map[string]func() error{
		"dynamodb:GetItem on table/another": func() error { return get("another") },
		"sqs:SendMessage on run": func() error {
			_, err := c.queue.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queueURL, MessageBody: aws.String("x")})
			return err
		},
		"kms:Decrypt on key/Key": func() error {
			_, err := c.key.Decrypt(ctx, &kms.DecryptInput{KeyId: aws.String("1-2"), CiphertextBlob: []byte("x")})
			return err
		},
		"s3:PutObject on Blobs/k": func() error {
			_, err := c.objects.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("w1-blobs-abc"),
				Key: aws.String("k"), Body: strings.NewReader("x")})
			return err
		},
		"lambda:InvokeFunction on function:f": func() error {
			_, err := c.invoke.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("f")})
			return err
		},
		"s3vectors:GetVectorBucket on bucket/v": func() error {
			_, err := c.index.GetVectorBucket(ctx, &s3vectors.GetVectorBucketInput{VectorBucketName: aws.String("v")})
			return err
		},
		"sts GetCallerIdentity": func() error {
			_, err := sts.NewFromConfig(c.Config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		},
	} {
		err := call()
		require.Error(t, err, want)
		if !strings.HasPrefix(want, "sts") { // its responses are XML
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "AccessDenied", want)
		}
		assert.Empty(t, last.Load(), "%s is forwarded", want)
	}
	report := ledger.Compare(read(t, stack), nil)
	assert.Len(t, report.Missing, 7, report.String())
	assert.Equal(t, []string{"Worker: dynamodb:GetItem on table/Core (1 times)"}, report.Called)
	assert.Contains(t, report.Unused, "Role: s3:GetObject on Blobs/*")
	assert.NotContains(t, report.Unused, "Role: dynamodb:GetItem on table/Core")

	// the ledger is the same after it was written and read
	b, err := json.Marshal(ledger)
	require.NoError(t, err)
	again := &iam.Ledger{}
	require.NoError(t, json.Unmarshal(b, again))
	assert.Equal(t, report, again.Compare(read(t, stack), nil))
}

func TestAPresignedAddressIsACallOfTheRole(t *testing.T) {
	ledger := &iam.Ledger{}
	c, last := served(t, ledger)
	signer := s3.NewPresignClient(c.objects)
	get, err := signer.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("w1-blobs-abc"),
		Key: aws.String("a b/c")})
	require.NoError(t, err)
	status := func(method, address string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
		require.NoError(t, err)
		a, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		return a.StatusCode
	}
	assert.Equal(t, http.StatusOK, status(http.MethodGet, get.URL))
	_, address, _ := strings.Cut(get.URL, "http://")
	host, path, _ := strings.Cut(address, "/")
	assert.Equal(t, "GET "+host+" /"+path+" ", last.Load(), "host and address are signed, and stay as they are")
	put, err := signer.PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("w1-blobs-abc"),
		Key: aws.String("k")})
	require.NoError(t, err)
	assert.Equal(t, http.StatusForbidden, status(http.MethodPut, put.URL))
	assert.Equal(t, http.StatusOK, status(http.MethodOptions, put.URL), "a browser asks before, without a signature")
}

func TestAMissingKeyIsForbiddenWithoutListPermission(t *testing.T) {
	for _, may := range []bool{true, false} {
		template := stack
		if may {
			template = strings.Replace(stack,
				`"Action": "s3:GetObject", "Resource": {"Fn::Sub": "${Blobs01234567.Arn}/*"}`,
				`"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": {"Fn::Sub": "${Blobs01234567.Arn}*"}`, 1)
			require.NotEqual(t, stack, template)
		}
		ledger := &iam.Ledger{}
		behind := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(behind.Close)
		u, err := url.Parse(behind.URL)
		require.NoError(t, err)
		guard := httptest.NewServer(&iam.Guard{
			Program: iam.Program{Name: "Worker", Role: "Role"}, Stacks: read(t, template), Ledger: ledger,
			Account: account, Names: func() iam.Names { return iam.Names{} },
			Backend: func(string) *url.URL { return u },
		})
		t.Cleanup(guard.Close)
		c := at(guard.URL)
		_, err = c.objects.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("Blobs"), Key: aws.String("k")})
		_, head := c.objects.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("Blobs"),
			Key: aws.String("k")})
		if may {
			assert.ErrorContains(t, err, "StatusCode: 404")
			assert.ErrorContains(t, head, "StatusCode: 404")
			assert.Contains(t, ledger.Compare(read(t, template), nil).Called,
				"Worker: s3:ListBucket on Blobs (2 times)")
		} else {
			assert.ErrorContains(t, err, "AccessDenied")
			assert.ErrorContains(t, head, "StatusCode: 403")
		}
	}
}

func TestCallsPassBeforeThereAreNames(t *testing.T) {
	var reached atomic.Bool
	ledger := &iam.Ledger{}
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(behind.Close)
	u, err := url.Parse(behind.URL)
	require.NoError(t, err)
	guard := httptest.NewServer(&iam.Guard{Stacks: read(t, stack), Ledger: ledger, Account: account,
		Names: func() iam.Names { return nil }, Backend: func(string) *url.URL { return u }})
	t.Cleanup(guard.Close)
	_, _ = at(guard.URL).table.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("x"), Key: item})
	assert.True(t, reached.Load())
	assert.Zero(t, ledger.Len())
}

// A program that is killed during a call leaves a request that ends in the middle. AWS does nothing for it.
func TestAnIncompleteRequestIsNotACall(t *testing.T) {
	ledger := &iam.Ledger{}
	guard := &iam.Guard{Stacks: read(t, stack), Ledger: ledger, Account: account,
		Names: func() iam.Names { return iam.Names{} }, Backend: func(string) *url.URL { return nil }}
	for _, why := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, context.Canceled} {
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(`{"TableName":`),
			iotest.ErrReader(why)))
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/eu-central-1/dynamodb/aws4_request, S=1")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Zero(t, ledger.Len(), why)
	}
}

func TestExceptionsAreForWhatIsNotCalled(t *testing.T) {
	s, ledger := read(t, stack), &iam.Ledger{}
	call := iam.Call{Action: "dynamodb:GetItem", Resource: arns + "dynamodb:eu-central-1:000000000000:table/Core"}
	ledger.Called(iam.Program{Name: "Worker", Role: "Role"}, call, s.Decide("Role", call))
	report := ledger.Compare(s, map[string]string{
		"Role: dynamodb:* on table/Core*": "of queries", "Role: s3:GetObject on Blobs/*": "of objects",
		"Role: kms:* on *": "of keys", "*: logs:*": "of logs",
		"Role: dynamodb:GetItem on table/Core": "of what is called by chance", "Role: dynamodb:Scan on *": "of a scan",
	})
	assert.Empty(t, report.Missing)
	assert.Empty(t, report.Unused)
	assert.Equal(t, []string{"Role: dynamodb:Scan on *: of a scan"}, report.Stale)
	assert.Len(t, report.Excused, 8, report.String())
	assert.Contains(t, report.Findings(), "exceptions for no grant: 1\n  Role: dynamodb:Scan")
	assert.NotContains(t, report.Findings(), "of keys")
	assert.Empty(t, iam.Report{Excused: report.Excused}.Findings())
}

// FuzzDecode expects an error or calls for any input. The body can be read again.
func FuzzDecode(f *testing.F) {
	f.Add("POST", "/", "dynamodb", "DynamoDB_20120810.TransactWriteItems", "",
		`{"TransactItems":[{"Put":{"TableName":"t"}}]}`)
	f.Add("POST", "/", "sqs", "AmazonSQS.SendMessage", "", `{"QueueUrl":"x"}`)
	f.Add("POST", "/", "kms", "TrentService.Decrypt", "", `{"KeyId":"k","EncryptionContext":{"a":"b"}}`)
	f.Add("PUT", "/b/k?partNumber=1&uploadId=u", "s3", "", "/a/b?versionId=1", "x")
	f.Add("POST", "/b?delete", "s3", "", "", "<Delete><Object><Key>k</Key></Object></Delete>")
	f.Add("POST", "/2015-03-31/functions/f/invocations", "lambda", "", "", "{}")
	f.Add("POST", "/QueryVectors", "s3vectors", "", "", `{"vectorBucketName":"v","indexName":"i","filter":{}}`)
	f.Fuzz(func(t *testing.T, method, address, service, target, source, body string) {
		u, err := url.ParseRequestURI(address)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/b/eu-central-1/"+service+"/aws4_request, x")
		r.Header.Set("X-Amz-Target", target)
		if source != "" {
			r.Header.Set("X-Amz-Copy-Source", source)
		}
		_, calls, err := iam.Decode(r, account)
		if err == nil {
			require.NotEmpty(t, calls)
			for _, c := range calls {
				require.Contains(t, c.Action, ":")
				require.True(t, strings.HasPrefix(c.Resource, "arn:") || service == "states", c.Resource)
			}
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, body, string(b))
		}
		iam.Names{"t": "T"}.In(iam.Call{Resource: address})
	})
}

func TestALongBodyIsRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(endless{}, 1<<30))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/b/eu-central-1/dynamodb/aws4_request")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	_, _, err := iam.Decode(r, account)
	assert.ErrorContains(t, err, "longer than")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestNamesOfADeploymentBecomeThoseOfTheTemplates(t *testing.T) {
	n := read(t, `{"Resources": {"RunQueue": {"Type": "AWS::SQS::Queue"}, "Blobs": {"Type": "AWS::S3::Bucket"},
		"PauseMachine": {"Type": "AWS::StepFunctions::StateMachine"}, "Core": {"Type": "AWS::DynamoDB::GlobalTable"}}}`,
	).Names(map[string]string{
		"RunQueue":     "http://127.0.0.1:4566/queue/eu-central-1/000000000000/w1-run",
		"PauseMachine": "arn:aws:states:eu-central-1:000000000000:stateMachine:Pause",
		"Blobs":        "w1-blobs", "Core": "w1-core",
	})
	const here = ":eu-central-1:000000000000:"
	for from, want := range map[string]string{
		"arn:aws:sqs" + here + "w1-run":                       "arn:aws:sqs" + here + "RunQueue",
		"arn:aws:states" + here + "execution:Pause:run":       "arn:aws:states" + here + "execution:PauseMachine:run",
		"arn:aws:s3:::w1-blobs/w1-core":                       "arn:aws:s3:::Blobs/w1-core",
		"arn:aws:dynamodb" + here + "table/w1-core/index/due": "arn:aws:dynamodb" + here + "table/Core/index/due",
		"arn:aws:s3:::another/k":                              "arn:aws:s3:::another/k",
		"":                                                    "",
	} {
		assert.Equal(t, want, n.In(iam.Call{Resource: from}).Resource)
	}
}

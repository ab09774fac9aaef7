package stacks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/platform/setting"
	"agentplatform/internal/store/seal/kmsseal"
	"agentplatform/internal/store/timer/sfntimer"
	files "agentplatform/internal/text/reader"
	"agentplatform/internal/wiring/cloud"
)

// service has the resources without data. They can be replaced at any time.
type service struct {
	stack     awscdk.Stack
	Queues    map[string]awssqs.Queue
	Dead      map[string]awssqs.Queue
	Functions map[string]awslambda.Function
	Live      map[string]awslambda.Alias // the invoked version of each function
	Machine   awsstepfunctions.StateMachine
	API       awsapigateway.RestApi

	Distribution awscloudfront.Distribution

	stage    stage.Stage
	data     *data
	found    Found
	vpc      awsec2.Vpc
	cluster  awsecs.Cluster
	balancer awselasticloadbalancingv2.ApplicationLoadBalancer
	groups   map[string]awslogs.LogGroup // by program
	secret   awscdk.SecretValue          // the key that the distribution shows the gateway
	targets  awselasticloadbalancingv2.ApplicationTargetGroup
}

// may is the access of a function to a store.
type may int

const (
	nothing may = iota
	read
	write // includes read
)

type function struct {
	name        string
	memory      int // MB
	timeout     int // seconds
	core        may
	single      bool // reads single items of the core table, no ranges of them
	indexes     bool // may read the core table's indexes
	watches     bool // may read streams of runs, and record that they have readers
	shares      bool // counts requests of keys together with other processes; those that watch do, too
	publishes   bool // may write streams of runs for their readers
	bucket      may
	sends       []string // queues that it may send to
	stopsPauses bool
	waitsPauses bool     // may start pause timers
	seals       []string // the owners whose secrets it may seal
	opens       []string // the owners whose sealed secrets it may open
	secrets     bool     // may read the deployment's secrets
	calls       bool     // may call models
	embeds      bool     // may call embedding models
	vectors     []string // its actions on the index of documents
	loops       bool     // sends to its own queue on purpose: released runs, and the next parked message of a chat
	asks        string   // the function that it may invoke
	bare        bool     // has no settings, and no name of a resource
	traces      bool     // sends spans if a setting has the address of a collector
}

// The owners of sealed secrets (kmsseal), as patterns of IAM. An organization owns its webhook secret, by its id, and
// the secrets of its push notifications (record.PushSealedFor). A toolkit owns its credentials, by the ids of
// organization and toolkit. Push notifications and toolkits may be without an organization.
const (
	organizations = "????????????????????????"
	pushes        = "*/push"
	toolkits      = "*/????????????????????????"
)

// The functions that other functions invoke. One opens secrets for functions with requests from the internet. The other
// reads files for worker.
const (
	broker = "broker"
	reader = "reader"
)

var functionVariables = map[string]string{broker: "BROKER_FUNCTION", reader: "READER_FUNCTION"}

// The queues.
const (
	runQueue     = "run"
	webhookQueue = "webhook"
	jobQueue     = "job"
	ingestQueue  = "ingest"
)

// The rights to the index of documents. A search with a filter, or with metadata in its results, also needs the right
// to get vectors.
var (
	searches = []string{"s3vectors:GetIndex", "s3vectors:QueryVectors", "s3vectors:GetVectors",
		"s3vectors:ListVectors"}
	fills   = []string{"s3vectors:GetIndex", "s3vectors:CreateIndex", "s3vectors:PutVectors"}
	empties = []string{"s3vectors:GetIndex", "s3vectors:QueryVectors", "s3vectors:GetVectors",
		"s3vectors:DeleteVectors", "s3vectors:DeleteIndex"}
)

// A function stands before those that invoke it.
var functions = []function{
	{name: "chat", memory: 256, timeout: 900, core: write, indexes: true, watches: true, bucket: write,
		sends: []string{runQueue, webhookQueue}, stopsPauses: true, seals: []string{pushes}, traces: true},
	// It has as much time as its caller. A document of a toolkit may be 32 MiB.
	{name: broker, memory: 512, timeout: 29, core: write, bucket: write,
		opens: []string{organizations, toolkits}, secrets: true, traces: true},
	{name: "api", memory: 512, timeout: 29, core: write, shares: true, indexes: true, bucket: write,
		sends: []string{runQueue, webhookQueue, jobQueue, ingestQueue}, stopsPauses: true,
		seals: []string{organizations, toolkits}, embeds: true, vectors: searches, asks: broker, traces: true},
	// A child process of up to 384 MB reads a file. The first PDF of an instance needs a child of 433 MB, which
	// compiles the PDF reader. With more memory it is faster.
	{name: reader, memory: 1024, timeout: int(files.Longest/time.Second) + 10, bare: true},
	// It waits for a model most of its time, and its memory determines its price.
	{name: "worker", memory: 224, timeout: 900, core: write, publishes: true, bucket: write,
		sends: []string{runQueue, webhookQueue}, waitsPauses: true,
		opens: []string{toolkits}, secrets: true, calls: true, embeds: true, vectors: searches, loops: true,
		asks: reader, traces: true},
	{name: "webhook", memory: 256, timeout: 90, core: write, single: true, bucket: read,
		opens: []string{organizations, pushes}, secrets: true, traces: true},
	{name: "job", memory: 512, timeout: 300, core: write, indexes: true, bucket: write,
		sends: []string{runQueue, webhookQueue, ingestQueue}, stopsPauses: true,
		vectors: slices.Concat(fills, empties), traces: true},
	// A child process of up to 576 MB reads a document. Its text and chunks are in memory at the same time.
	{name: "ingest", memory: 2048, timeout: 900, core: write, bucket: write, secrets: true, embeds: true,
		vectors: fills, traces: true},
	{name: "sweeper", memory: 256, timeout: 55, core: write, indexes: true, bucket: write,
		sends: []string{runQueue, webhookQueue, jobQueue, ingestQueue}},
}

func described(name string) function {
	return functions[slices.IndexFunc(functions, func(f function) bool { return f.name == name })]
}

// streamRights are the rights of the stream service, which is a container and not a function.
var streamRights = function{name: "stream", core: read, watches: true, bucket: read, traces: true}

// guardrail returns the resource of a guardrail, given by its ID or its ARN.
func guardrail(id string) *string {
	if strings.HasPrefix(id, "arn:") {
		return jsii.String(id)
	}
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:bedrock:${AWS::Region}:${AWS::AccountId}:guardrail/"+id),
		nil)
}

// bedrockModels returns the resources behind a list of Bedrock models and inference profiles. A profile, whose
// name begins with its geography ("eu."), calls the model behind it in any Region of that geography.
func bedrockModels(list string) (resources []*string) {
	named := map[string]bool{} // several profiles may be of one model
	add := func(resource string) {
		if !named[resource] {
			named[resource] = true
			resources = append(resources, awscdk.Fn_Sub(jsii.String(resource), nil))
		}
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if strings.HasPrefix(name, "arn:") {
			resources = append(resources, jsii.String(name))
			continue
		}
		behind := name
		if at, rest, found := strings.Cut(name, "."); found && stage.IsGeography(at) {
			behind = rest
			add("arn:${AWS::Partition}:bedrock:${AWS::Region}:${AWS::AccountId}:inference-profile/" + name)
		}
		add("arn:${AWS::Partition}:bedrock:*::foundation-model/" + behind)
	}
	return resources
}

// embeddingModels returns the resources of the Bedrock models in a list of embedding models.
func embeddingModels(list string) []*string {
	var names []string
	for one := range strings.SplitSeq(list, ",") {
		if n, err := embedding.ParseName(strings.TrimSpace(one), []string{"bedrock"}); err == nil {
			names = append(names, n.Name)
		}
	}
	return bedrockModels(strings.Join(names, ","))
}

// consumer describes how a function receives from its queue.
type consumer struct {
	queue      string
	function   string
	receives   int // receives before a message becomes a dead letter
	visibility int // seconds; at least the function's timeout
	// The age of the oldest message at which an alarm is raised, in seconds. The oldest message is one that has not
	// been deleted, so messages in progress count. If it is 0, work may take longer. The alarm is then raised by the
	// number of waiting messages.
	old    float64
	atOnce func(stage.Stage) int
}

var consumers = []consumer{
	{runQueue, "worker", 5, 16 * 60, 0, func(s stage.Stage) int { return s.Workers }},
	{webhookQueue, "webhook", 8, 2 * 60, 0, func(s stage.Stage) int { return s.Senders }},
	// A rebuild of a knowledge base keeps a message for as long as it lasts, or for a few minutes at a time.
	{jobQueue, "job", 5, 6 * 60, 30 * 60, func(s stage.Stage) int { return s.Jobs }},
	// Thousands of documents that come together wait for each other. An ingestion may take an hour in all.
	{ingestQueue, "ingest", 5, 16 * 60, 60 * 60, func(s stage.Stage) int { return s.Ingesters }},
}

func newService(stack awscdk.Stack, s stage.Stage, stored *data, found Found) *service {
	v := &service{
		stack: stack, stage: s, data: stored, found: found, groups: map[string]awslogs.LogGroup{},
		Queues: map[string]awssqs.Queue{}, Dead: map[string]awssqs.Queue{}, Functions: map[string]awslambda.Function{},
		Live: map[string]awslambda.Alias{},
	}
	for _, c := range consumers {
		v.queue(c)
	}
	v.machine()
	v.restAPI()
	v.originKey()
	v.distribution()
	for _, f := range functions {
		v.function(f)
	}
	for _, c := range consumers {
		if c.queue != runQueue || s.WorkerTasks == 0 {
			v.consume(c)
		}
	}
	v.routes()
	v.schedule()
	v.cluster = awsecs.NewCluster(v.stack, jsii.String("Cluster"), &awsecs.ClusterProps{Vpc: v.vpc})
	v.streamService()
	if s.WorkerTasks > 0 {
		v.workerService()
	}
	output(stack, "ApiId", v.API.RestApiId())
	output(stack, "PauseMachineArn", v.Machine.StateMachineArn())
	for _, c := range consumers {
		output(stack, title(c.queue)+"QueueAddress", v.Queues[c.queue].QueueUrl())
		output(stack, title(c.queue)+"DeadAddress", v.Dead[c.queue].QueueUrl())
	}
	for _, f := range functions {
		output(stack, title(f.name)+"FunctionName", v.Functions[f.name].FunctionName())
	}
	return v
}

func title(s string) string { return string(s[0]-'a'+'A') + s[1:] }

func seconds(n int) awscdk.Duration { return awscdk.Duration_Seconds(jsii.Number(n)) }

func (v *service) queue(c consumer) {
	dead := awssqs.NewQueue(v.stack, jsii.String(title(c.queue)+"Dead"), &awssqs.QueueProps{
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)), EnforceSSL: jsii.Bool(true),
		Encryption: awssqs.QueueEncryption_SQS_MANAGED,
	})
	v.Dead[c.queue] = dead
	v.Queues[c.queue] = awssqs.NewQueue(v.stack, jsii.String(title(c.queue)+"Queue"), &awssqs.QueueProps{
		VisibilityTimeout: seconds(c.visibility),
		RetentionPeriod:   awscdk.Duration_Days(jsii.Number(4)),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: jsii.Number(c.receives)},
		EnforceSSL:        jsii.Bool(true), Encryption: awssqs.QueueEncryption_SQS_MANAGED,
	})
}

// machine makes the state machine that waits for the end of a pause and then sends a wakeup to the run queue.
func (v *service) machine() {
	v.Machine = awsstepfunctions.NewStateMachine(v.stack, jsii.String("PauseMachine"),
		&awsstepfunctions.StateMachineProps{
			StateMachineType: awsstepfunctions.StateMachineType_STANDARD,
			DefinitionBody: awsstepfunctions.DefinitionBody_FromString(
				jsii.String(sfntimer.Definition(*v.Queues[runQueue].QueueUrl()))),
		})
	v.Queues[runQueue].GrantSendMessages(v.Machine)
}

func (v *service) logs(name string) awslogs.LogGroup {
	if v.groups[name] == nil {
		v.groups[name] = awslogs.NewLogGroup(v.stack, jsii.String(title(name)+"Logs"), &awslogs.LogGroupProps{
			Retention:     awslogs.RetentionDays(stage.Retentions[v.stage.LogDays]),
			RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		})
	}
	return v.groups[name]
}

// environment returns the environment variables of every function and of the stream service.
func (v *service) environment() map[string]*string {
	e := map[string]*string{
		"CORE_TABLE": v.data.Core.TableName(), "FEED_TABLE": v.data.Feed.TableName(),
		"BUCKET":        v.data.Bucket.BucketName(),
		"RUN_QUEUE_URL": v.Queues[runQueue].QueueUrl(), "WEBHOOK_QUEUE_URL": v.Queues[webhookQueue].QueueUrl(),
		"STAGE":            jsii.String(v.stage.Name),
		"PUBLIC_URL":       jsii.String("https://" + v.domain()),
		"INGEST_QUEUE_URL": v.Queues[ingestQueue].QueueUrl(), "VECTOR_BUCKET": v.data.Index,
		"JOB_QUEUE_URL": v.Queues[jobQueue].QueueUrl(), "PAUSE_MACHINE_ARN": v.Machine.StateMachineArn(),
		"SEALING_KEY": v.data.Key.KeyId(), "SECRETS_ARN": v.data.Secret.SecretArn(),
		// Lambda accepts events of 6 MB, with the request's body in base64: 4 MiB and the other fields of the event.
		"KEY_CHATS": jsii.String(strconv.Itoa(v.stage.KeyChats())),
		"MAX_BODY":  jsii.String(strconv.Itoa(4<<20 + 64<<10)), "LEASE": jsii.String("60s"),
	}
	for name, value := range v.stage.Settings {
		e[name] = jsii.String(value)
	}
	return e
}

func (v *service) function(f function) {
	environment := v.environment()
	if f.bare {
		environment = nil
	}
	if f.asks != "" {
		environment[functionVariables[f.asks]] = v.Live[f.asks].FunctionArn()
	}
	recursion := awslambda.RecursiveLoop_TERMINATE
	if f.loops {
		recursion = awslambda.RecursiveLoop_ALLOW
	}
	made := awslambda.NewFunction(v.stack, jsii.String(title(f.name)+"Function"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(),
		Handler:    jsii.String("bootstrap"),
		Code:       awslambda.Code_FromAsset(jsii.String(v.found.Binaries+"/"+f.name), nil),
		MemorySize: jsii.Number(f.memory), Timeout: seconds(f.timeout),
		Environment: &environment, LogGroup: v.logs(f.name), LoggingFormat: awslambda.LoggingFormat_JSON,
		// At INFO Lambda reports the duration, the memory and the start of each invocation.
		SystemLogLevelV2: awslambda.SystemLogLevel_INFO, RecursiveLoop: recursion,
		ReservedConcurrentExecutions: reserved(v.stage, f.name),
		// An earlier version is there for a rollback.
		CurrentVersionOptions: &awslambda.VersionOptions{RemovalPolicy: awscdk.RemovalPolicy_RETAIN},
	})
	v.Functions[f.name] = made
	v.Live[f.name] = awslambda.NewAlias(v.stack, jsii.String(title(f.name)+"Live"), &awslambda.AliasProps{
		AliasName: jsii.String("live"), Version: made.CurrentVersion(),
		// Only the sweeper is invoked without a waiting caller, once each minute.
		RetryAttempts: jsii.Number(0), MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)),
	})
	v.grant(made, f)
}

// reserved returns a function's part of the account's concurrency; nil: it has no part of its own.
func reserved(s stage.Stage, name string) *float64 {
	if n, ok := s.Reserved()[name]; ok {
		return jsii.Number(n)
	}
	return nil
}

var (
	itemReads   = []string{"dynamodb:GetItem", "dynamodb:BatchGetItem"}
	rangeReads  = []string{"dynamodb:Query"}
	tableWrites = []string{"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"}
	// A reader of a run's stream writes a row that shows that it reads. The stream's writer checks that row.
	streamReads  = []string{"dynamodb:Query", "dynamodb:BatchGetItem", "dynamodb:PutItem"}
	streamWrites = []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem"}
	// A process that answers requests writes, for the other processes, how much of its limit a key has used. Readers of
	// streams have this right anyway.
	keyShares = []string{"dynamodb:Query", "dynamodb:PutItem"}
)

// grant gives a function the rights in its description.
func (v *service) grant(to awsiam.IGrantable, f function) {
	state := func(statement *awsiam.PolicyStatementProps) {
		to.GrantPrincipal().AddToPrincipalPolicy(awsiam.NewPolicyStatement(statement))
	}
	allow := func(given bool, actions []string, resources ...*string) {
		if given {
			state(&awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...), Resources: &resources})
		}
	}
	core, feed := v.data.Core.TableArn(), v.data.Feed.TableArn()
	allow(f.core >= read, itemReads, core)
	allow(f.core >= read && !f.single, rangeReads, core)
	allow(f.core >= write, tableWrites, core)
	allow(f.indexes, rangeReads, jsii.String(*core+"/index/*"))
	allow(f.watches, streamReads, feed)
	allow(f.publishes, streamWrites, feed)
	allow(f.shares, keyShares, feed)
	objects := v.data.Bucket.ArnForObjects(jsii.String("*"))
	allow(f.bucket >= read, []string{"s3:GetObject"}, objects)
	// without it, reading a missing object is a 403
	allow(f.bucket >= read, []string{"s3:ListBucket"}, v.data.Bucket.BucketArn())
	allow(f.bucket >= write, []string{"s3:PutObject", "s3:DeleteObject"}, objects)
	for _, name := range f.sends {
		allow(true, []string{"sqs:SendMessage"}, v.Queues[name].QueueArn())
	}
	// Each data key has one owner. Each use of the key must name the owner, and nothing else. A new data key reveals
	// nothing about earlier ones.
	for _, key := range []struct {
		action string
		owners []string
	}{{"kms:GenerateDataKey", f.seals}, {"kms:Decrypt", f.opens}} {
		if len(key.owners) > 0 {
			state(&awsiam.PolicyStatementProps{
				Actions: jsii.Strings(key.action), Resources: &[]*string{v.data.Key.KeyArn()},
				Conditions: &map[string]any{
					"StringLike":                map[string]any{"kms:EncryptionContext:" + kmsseal.Owner: key.owners},
					"ForAllValues:StringEquals": map[string]any{"kms:EncryptionContextKeys": []string{kmsseal.Owner}},
				},
			})
		}
	}
	v.grantCalls(f, allow)
	if f.asks != "" { // no other function may
		allow(true, []string{"lambda:InvokeFunction"}, v.Live[f.asks].FunctionArn())
	}
	allow(f.waitsPauses, []string{"states:StartExecution"}, v.Machine.StateMachineArn())
	allow(f.stopsPauses, []string{"states:StopExecution"}, awscdk.Fn_Join(jsii.String(""), &[]*string{
		awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:execution:"), nil),
		v.Machine.StateMachineName(), jsii.String(":*"),
	}))
}

// grantCalls gives the rights to call things outside the stage: the receiver of spans, secrets, models, the index.
func (v *service) grantCalls(f function, allow func(given bool, actions []string, resources ...*string)) {
	settings := v.stage.Settings
	// "sending spans to the OTLP traces endpoint, which is authorized as xray:PutTraceSegments":
	// https://docs.aws.amazon.com/xray/latest/devguide/xray-opentelemetry-bearer-token.html.
	// X-Ray has no resource for the spans.
	allow(f.traces && cloud.XRayRegion(settings["OTEL_EXPORTER_OTLP_ENDPOINT"]) != "",
		[]string{"xray:PutTraceSegments"}, jsii.String("*"))
	allow(f.secrets, []string{"secretsmanager:GetSecretValue"}, v.data.Secret.SecretArn())
	models := bedrockModels(settings["BEDROCK_MODELS"])
	allow(f.calls && len(models) > 0, []string{"bedrock:InvokeModelWithResponseStream"}, models...)
	guard, _ := setting.Guardrail(settings["BEDROCK_GUARDRAIL"])
	allow(f.calls && len(models) > 0 && guard != "", []string{"bedrock:ApplyGuardrail"}, guardrail(guard))
	models = embeddingModels(settings["EMBEDDING_MODELS"])
	allow(f.embeds && len(models) > 0, []string{"bedrock:InvokeModel"}, models...)
	// Each new knowledge base makes its index in the bucket. The right to the bucket distinguishes a missing index from
	// a missing bucket.
	searched := len(f.vectors) > 0
	allow(searched, f.vectors, jsii.String(*v.data.IndexARN+"/index/*"))
	allow(searched, []string{"s3vectors:GetVectorBucket"}, v.data.IndexARN)
}

func (v *service) consume(c consumer) {
	v.Live[c.function].AddEventSource(awslambdaeventsources.NewSqsEventSource(v.Queues[c.queue],
		&awslambdaeventsources.SqsEventSourceProps{
			BatchSize: jsii.Number(1), ReportBatchItemFailures: jsii.Bool(true),
			MaxConcurrency: jsii.Number(c.atOnce(v.stage)),
		}))
}

// problemBody returns the body of errors that API Gateway itself returns, in the form of all errors of the API.
func problemBody(code, message, request string) string {
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return fmt.Sprintf(`{"status":"error","code":%s,"message":%s,"detail":%s,"request_id":%s}`,
		quoted(code), quoted(message), quoted(message), quoted(request))
}

// accessLog is the log line of each request. It has nothing of the request's query, headers or body.
const accessLog = `{"level":"INFO","msg":"a request","request_id":"$context.requestId",` +
	`"time":"$context.requestTimeEpoch","address":"$context.identity.sourceIp","method":"$context.httpMethod",` +
	`"path":"$context.path","route":"$context.resourcePath","status":"$context.status",` +
	`"duration":"$context.responseLatency","function":"$context.integration.latency",` +
	`"bytes":"$context.responseLength","error":"$context.error.responseType"}`

func (v *service) restAPI() {
	v.API = awsapigateway.NewRestApi(v.stack, jsii.String("Gateway"), &awsapigateway.RestApiProps{
		RestApiName: jsii.String("agents-" + v.stage.Name),
		// The account's role with which API Gateway writes access logs. All stages share it, so it stays when a stage
		// is deleted.
		CloudWatchRole: jsii.Bool(true), CloudWatchRoleRemovalPolicy: awscdk.RemovalPolicy_RETAIN,
		EndpointTypes:    &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL},
		BinaryMediaTypes: jsii.Strings("multipart/form-data", "application/octet-stream"),
		// Only the distribution may call it, with a key that no other client has.
		DefaultMethodOptions: &awsapigateway.MethodOptions{ApiKeyRequired: jsii.Bool(true)},
		DeployOptions: &awsapigateway.StageOptions{
			StageName: jsii.String("api"), MetricsEnabled: jsii.Bool(true),
			ThrottlingRateLimit:  jsii.Number(v.stage.Rate),
			ThrottlingBurstLimit: jsii.Number(v.stage.Burst),
			AccessLogDestination: awsapigateway.NewLogGroupLogDestination(v.logs("gateway")),
			AccessLogFormat:      awsapigateway.AccessLogFormat_Custom(jsii.String(accessLog)),
		},
	})
	for _, r := range []struct {
		id, code, message string
		kind              awsapigateway.ResponseType
	}{
		{"Default4xx", "bad_request", "the request cannot be answered", awsapigateway.ResponseType_DEFAULT_4XX()},
		{"Default5xx", "unavailable", "the service could not be reached; try again",
			awsapigateway.ResponseType_DEFAULT_5XX()},
		{"NoOrigin", "forbidden", "the service is called at its own address, not here",
			awsapigateway.ResponseType_INVALID_API_KEY()},
		{"NoRoute", "not_found", "there is nothing here", awsapigateway.ResponseType_MISSING_AUTHENTICATION_TOKEN()},
		{"TooLarge", "payload_too_large", "the request is too large", awsapigateway.ResponseType_REQUEST_TOO_LARGE()},
		{"Throttled", "rate_limited", "too many requests; try again", awsapigateway.ResponseType_THROTTLED()},
	} {
		options := &awsapigateway.GatewayResponseOptions{
			Type: r.kind, Templates: &map[string]*string{"application/json": jsii.String(problemBody(r.code,
				r.message, "$context.requestId"))},
			ResponseHeaders: &map[string]*string{"X-Request-Id": jsii.String("context.requestId")},
		}
		switch r.id {
		case "NoRoute":
			options.StatusCode = jsii.String("404")
		case "Default5xx", "Throttled":
			(*options.ResponseHeaders)["Retry-After"] = jsii.String("'1'")
		}
		v.API.AddGatewayResponse(jsii.String(r.id), options)
	}
}

// originKey makes the key that the distribution sends to the gateway with each request. Without it the gateway refuses
// a request. So no client can bypass the distribution with its web ACL and its header of the client's address.
func (v *service) originKey() {
	secret := awssecretsmanager.NewSecret(v.stack, jsii.String("OriginKey"), &awssecretsmanager.SecretProps{
		GenerateSecretString: &awssecretsmanager.SecretStringGenerator{PasswordLength: jsii.Number(40),
			ExcludePunctuation: jsii.Bool(true)},
	})
	v.secret = secret.SecretValue()
	key := v.API.AddApiKey(jsii.String("Distribution"), &awsapigateway.ApiKeyOptions{Value: v.secret.UnsafeUnwrap()})
	plan := v.API.AddUsagePlan(jsii.String("Origin"), &awsapigateway.UsagePlanProps{
		ApiStages: &[]*awsapigateway.UsagePlanPerApiStage{{Stage: v.API.DeploymentStage()}},
	})
	plan.AddApiKey(key, nil)
	output(v.stack, "OriginKeyArn", secret.SecretArn())
}

// routes sends requests whose response may be a stream to a function of their own: POST /chat, MCP, A2A, AG-UI, and
// responses that are begun or read. Everything else goes to api.
func (v *service) routes() {
	whole := awsapigateway.NewLambdaIntegration(v.Live["api"], nil)
	streamed := awsapigateway.NewLambdaIntegration(v.Live["chat"], &awsapigateway.LambdaIntegrationOptions{
		ResponseTransferMode: awsapigateway.ResponseTransferMode_STREAM,
		Timeout:              awscdk.Duration_Minutes(jsii.Number(15)),
	})
	below := func(at awsapigateway.IResource, part string) awsapigateway.Resource {
		return at.AddResource(jsii.String(part), nil)
	}
	each := func(at awsapigateway.IResource) { at.AddMethod(jsii.String("ANY"), whole, nil) }
	rest := func(at awsapigateway.IResource) {
		at.AddProxy(&awsapigateway.ProxyResourceOptions{AnyMethod: jsii.Bool(true), DefaultIntegration: whole})
	}
	root := v.API.Root() // the name of a deployment has the order of all that follows in it
	rest(root)
	v1 := below(root, "v1")
	each(v1)
	rest(v1)
	chat, mcp, a2a := below(v1, "chat"), below(v1, "mcp"), below(v1, "a2a")
	each(a2a)
	agent := below(a2a, "{agent_id}")
	rest(agent)
	agui := below(v1, "agui")
	each(agui)
	front, responses := below(agui, "{agent_id}"), below(v1, "responses")
	response := below(responses, "{response_id}")
	rest(response)
	for _, may := range []struct {
		resource awsapigateway.Resource
		method   string
	}{{chat, "POST"}, {mcp, "POST"}, {agent, "POST"}, {front, "POST"}, {responses, "POST"}, {response, "GET"}} {
		each(may.resource)
		may.resource.AddMethod(&may.method, streamed, nil)
	}
}

func (v *service) schedule() {
	awsevents.NewRule(v.stack, jsii.String("EachMinute"), &awsevents.RuleProps{
		Schedule: awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(v.Live["sweeper"],
			&awseventstargets.LambdaFunctionProps{
				RetryAttempts: jsii.Number(0), // the schedule invokes it again after a minute
			})},
	})
}

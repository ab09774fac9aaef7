//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stacks"
	"agentplatform/infra/stage"
)

// templates are the synthesised stacks, by name.
type templates map[string]map[string]any

var functions = []string{"chat", "api", "broker", "reader", "worker", "webhook", "job", "ingest", "sweeper"}

func synthesised(t *testing.T, name string, change func(*stage.Stage)) templates {
	t.Helper()
	binaries := t.TempDir()
	for _, f := range functions {
		require.NoError(t, os.MkdirAll(filepath.Join(binaries, f), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(binaries, f, "bootstrap"), []byte(f), 0o700))
	}
	s, err := stage.Drafted(name)
	require.NoError(t, err)
	s.AlarmEmail = "someone@example.com"
	s.Settings = map[string]string{
		"BEDROCK_MODELS":    "eu.amazon.nova-lite-v1:0, amazon.titan-text, jp.anthropic.claude-sonnet-4-5",
		"BEDROCK_GUARDRAIL": "gr4n9abc:7",
		"EMBEDDING_MODELS":  "bedrock/amazon.titan-embed-text-v2:0:512, openai/text-embedding-3-small",

		"OTEL_EXPORTER_OTLP_ENDPOINT": "https://xray.eu-central-1.amazonaws.com",
	}
	change(&s)
	require.NoError(t, s.Validate())
	out := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(out), AnalyticsReporting: jsii.Bool(false)})
	made := stacks.New(app, s, stacks.Found{Binaries: binaries, Image: "sha256:" + strings.Repeat("0", 64),
		OriginPrefixList: "pl-0123456", Zones: []string{"eu-central-1a", "eu-central-1b"},
		WebACL: "arn:aws:wafv2:us-east-1:123456789012:global/webacl/x/y", Commit: "0123abc", CommitBefore: "9876fed"})
	for _, stack := range []awscdk.Stack{made.Data.Stack, made.Edge.Stack, made.Service.Stack} {
		assert.NotContains(t, *stack.Tags().TagValues(), "commit", "each resource would have it, and change with it")
	}
	app.Synth(nil)
	all := templates{}
	for _, what := range []string{"Data", "Edge", "Service"} {
		b, err := os.ReadFile(filepath.Join(out, what+".template.json"))
		require.NoError(t, err)
		var one map[string]any
		require.NoError(t, json.Unmarshal(b, &one))
		all[what] = one
	}
	return all
}

func (all templates) clone(t *testing.T) templates {
	b, err := json.Marshal(all)
	require.NoError(t, err)
	var c templates
	require.NoError(t, json.Unmarshal(b, &c))
	return c
}

type properties = map[string]any

// of returns the properties of all resources of a type in all stacks, by logical id.
func (all templates) of(kind string) map[string]properties {
	found := map[string]properties{}
	for _, stack := range all {
		for id, v := range object(stack["Resources"]) {
			if r := object(v); r["Type"] == kind {
				found[id] = object(r["Properties"])
			}
		}
	}
	return found
}

func (all templates) the(kind, prefix string) properties {
	for id, p := range all.of(kind) {
		if strings.HasPrefix(id, prefix) {
			return p
		}
	}
	panic("there is no " + kind + " " + prefix)
}

// id is the logical id of a resource.
func (all templates) id(kind, prefix string) string {
	for id := range all.of(kind) {
		if strings.HasPrefix(id, prefix) {
			return id
		}
	}
	panic("there is no " + kind + " " + prefix)
}

// add adds a resource.
func (all templates) add(id, kind string, p properties) {
	object(all["Service"]["Resources"])[id] = map[string]any{"Type": kind, "Properties": p}
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }
func text(v any) string           { b, _ := json.Marshal(v); return string(b) }

func number(v any) float64 { n, _ := v.(float64); return n }

// several are the strings of a member that is one string or a list.
func several(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var all []string
	for _, one := range list(v) {
		if s, ok := one.(string); ok {
			all = append(all, s)
		} else {
			all = append(all, text(one))
		}
	}
	if v != nil && all == nil {
		all = []string{text(v)}
	}
	return all
}

var logicalID = regexp.MustCompile(`(Core|Feed|Blobs|Images|SealingKey|Secrets|RunQueue|WebhookQueue|` +
	`BrokerLive|ReaderLive|JobQueue|IngestQueue|RunDead|WebhookDead|JobDead|IngestDead|PauseMachine)[0-9A-F]{8}`)

// rights of a role as "action on resource"; resources have the names that the program gives them.
func (all templates) rights(role string) []string {
	var found []string
	for id, p := range all.of("AWS::IAM::Policy") {
		if !strings.HasPrefix(id, role) {
			continue
		}
		for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
			statement := object(s)
			for _, action := range several(statement["Action"]) {
				for _, resource := range several(statement["Resource"]) {
					name := resource
					if strings.Contains(resource, ":s3vectors:") {
						name = "Vectors"
					}
					if m := logicalID.FindStringSubmatch(resource); m != nil {
						name = m[1]
						if strings.Contains(resource, "/index/") {
							name += " indexes"
						}
					}
					found = append(found, action+" on "+name)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// roles are the platform's own roles: rights that each may have, and rights that it must never have.
var roles = map[string]struct{ may, never []string }{
	"ChatFunction": {
		[]string{"dynamodb:PutItem on Core", "dynamodb:GetItem on Core", "sqs:SendMessage on RunQueue",
			"s3:PutObject on Blobs", "states:StopExecution on PauseMachine"},
		[]string{"sqs:ReceiveMessage", "states:StartExecution", "sqs:SendMessage on JobQueue", "dynamodb:Scan",
			"s3vectors:", "bedrock:"},
	},
	"ApiFunction": {
		[]string{"dynamodb:PutItem on Core", "dynamodb:Query on Core indexes", "sqs:SendMessage on JobQueue",
			"sqs:SendMessage on WebhookQueue", "sqs:SendMessage on IngestQueue", "kms:GenerateDataKey on SealingKey",
			"lambda:InvokeFunction on BrokerLive", "s3vectors:GetIndex on Vectors",
			"s3vectors:QueryVectors on Vectors", "s3vectors:GetVectors on Vectors", "s3vectors:ListVectors on Vectors",
			"dynamodb:Query on Feed", "dynamodb:PutItem on Feed"},
		[]string{"sqs:ReceiveMessage", "states:StartExecution", "dynamodb:Scan", "s3vectors:Put", "s3vectors:Delete",
			"s3vectors:Create", "kms:Decrypt", "secretsmanager:", "GetItem on Feed", "dynamodb:DeleteItem on Feed"},
	},
	"BrokerFunction": {
		[]string{"dynamodb:PutItem on Core", "dynamodb:GetItem on Core", "s3:PutObject on Blobs",
			"kms:Decrypt on SealingKey", "secretsmanager:GetSecretValue on Secrets"},
		[]string{"sqs:", "states:", "on Feed", "kms:GenerateDataKey", "s3vectors:", "bedrock:", "lambda:"},
	},
	"ReaderFunction": {nil, []string{""}},
	"WorkerFunction": {
		[]string{"lambda:InvokeFunction on ReaderLive", "sqs:ReceiveMessage on RunQueue", "sqs:SendMessage on RunQueue",
			"states:StartExecution on PauseMachine", "dynamodb:PutItem on Feed", "kms:Decrypt on SealingKey",
			"secretsmanager:GetSecretValue on Secrets", "s3vectors:GetIndex on Vectors",
			"s3vectors:QueryVectors on Vectors", "s3vectors:GetVectors on Vectors", "s3vectors:ListVectors on Vectors"},
		[]string{"sqs:ReceiveMessage on WebhookQueue", "sqs:SendMessage on JobQueue", "dynamodb:Scan",
			"kms:GenerateDataKey", "s3vectors:Put", "s3vectors:Delete", "s3vectors:Create"},
	},
	"WebhookFunction": {
		[]string{"sqs:ReceiveMessage on WebhookQueue", "dynamodb:PutItem on Core", "s3:GetObject on Blobs",
			"kms:Decrypt on SealingKey", "secretsmanager:GetSecretValue on Secrets"},
		[]string{"sqs:SendMessage", "s3:PutObject", "s3:DeleteObject", "states:", "on Feed", "kms:GenerateDataKey",
			"s3vectors:", "bedrock:"},
	},
	"JobFunction": {
		[]string{"sqs:ReceiveMessage on JobQueue", "dynamodb:DeleteItem on Core", "s3:DeleteObject on Blobs",
			"sqs:SendMessage on IngestQueue", "s3vectors:DeleteVectors on Vectors", "s3vectors:DeleteIndex on Vectors",
			"s3vectors:QueryVectors on Vectors", "s3vectors:GetVectors on Vectors", "s3vectors:GetIndex on Vectors",
			"s3vectors:PutVectors on Vectors", "s3vectors:CreateIndex on Vectors"},
		[]string{"sqs:ReceiveMessage on RunQueue", "states:StartExecution", "on Feed", "kms:", "secretsmanager:",
			"bedrock:"},
	},
	"IngestFunction": {
		[]string{"sqs:ReceiveMessage on IngestQueue", "dynamodb:PutItem on Core", "s3:PutObject on Blobs",
			"secretsmanager:GetSecretValue on Secrets", "s3vectors:PutVectors on Vectors",
			"s3vectors:CreateIndex on Vectors", "s3vectors:GetIndex on Vectors"},
		[]string{"sqs:SendMessage", "states:", "on Feed", "kms:", "s3vectors:Delete"},
	},
	"SweeperFunction": {
		[]string{"dynamodb:Query on Core indexes", "sqs:SendMessage on RunQueue", "sqs:SendMessage on WebhookQueue",
			"sqs:SendMessage on JobQueue", "sqs:SendMessage on IngestQueue"},
		[]string{"sqs:ReceiveMessage", "states:StartExecution", "on Feed", "dynamodb:Scan", "kms:", "secretsmanager:",
			"s3vectors:", "bedrock:"},
	},
	"StreamTaskTaskRole": {
		[]string{"dynamodb:GetItem on Core", "dynamodb:PutItem on Feed", "s3:GetObject on Blobs"},
		[]string{"dynamodb:PutItem on Core", "dynamodb:DeleteItem on Core", "on Core indexes", "sqs:", "states:",
			"s3:PutObject", "s3vectors:"},
	},
	"PauseMachineRole": {
		[]string{"sqs:SendMessage on RunQueue"},
		[]string{"dynamodb:", "on WebhookQueue", "on JobQueue", "on IngestQueue", "lambda:", "s3:"},
	},
}

// stars are the statements that need every resource: their actions accept no narrower one.
var stars = map[string]string{
	"ecr:GetAuthorizationToken": "a token is for the registry, not for a repository",
	"xray:PutTraceSegments":     "X-Ray has no resource that spans are put into",
}

// meanings are the requirements on the templates: each check returns what is wrong, and each has a change to the
// templates that the check must detect.
var meanings = []struct {
	name  string
	check func(templates) []string
	spoil func(templates)
}{
	{"each role may what it needs, and no more", func(all templates) (wrong []string) {
		for role, r := range roles {
			rights := all.rights(role)
			for _, may := range r.may {
				if !slices.Contains(rights, may) {
					wrong = append(wrong, role+" may not "+may)
				}
			}
			for _, never := range r.never {
				for _, right := range rights {
					if strings.Contains(right, never) {
						wrong = append(wrong, role+" may "+right)
					}
				}
			}
		}
		for id, role := range all.of("AWS::IAM::Role") {
			for _, managed := range list(role["ManagedPolicyArns"]) {
				if strings.Contains(id, "FunctionServiceRole") && !strings.Contains(text(managed), harmless[0]) {
					wrong = append(wrong, id+" has the policy "+text(managed))
				}
			}
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "WebhookFunction")
		document := object(p["PolicyDocument"])
		document["Statement"] = append(list(document["Statement"]),
			properties{"Action": "s3:PutObject", "Resource": properties{"Fn::GetAtt": []any{"BlobsF0F01DC6", "Arn"}}})
	}},
	{"no right to every resource but the listed", func(all templates) (wrong []string) {
		for id, p := range all.of("AWS::IAM::Policy") {
			for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
				statement := object(s)
				for _, action := range several(statement["Action"]) {
					if strings.HasSuffix(action, "*") {
						wrong = append(wrong, id+" may "+action)
					}
					if slices.Contains(several(statement["Resource"]), "*") && stars[action] == "" {
						wrong = append(wrong, id+" may "+action+" on everything")
					}
				}
			}
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "ApiFunction")
		object(list(object(p["PolicyDocument"])["Statement"])[0])["Resource"] = "*"
	}},
	{"what the internet reaches decrypts nothing", templates.decrypting, func(all templates) {
		plant(all, "ApiFunction", properties{"Action": "kms:D*", "Resource": "arn:aws:kms:*:*:key/*"})
	}},
	{"what the internet reaches is given no secret", templates.opened, func(all templates) {
		plant(all, "StreamTaskTaskRole", properties{"Effect": "Allow", "Action": "secretsmanager:Get*",
			"Resource": "arn:aws:secretsmanager:*"})
	}},
	{"a secret is sealed and opened for an owner who is named", func(all templates) (wrong []string) {
		const id = "0123456789abcdef01234567"
		organization, toolkit, ownToolkit := id, id+"/"+id, "-/"+id
		want := map[string][]string{
			"ApiFunction kms:GenerateDataKey": {organization, toolkit, ownToolkit},
			"BrokerFunction kms:Decrypt":      {organization, toolkit, ownToolkit},
			"WebhookFunction kms:Decrypt":     {organization},
			"WorkerFunction kms:Decrypt":      {toolkit, ownToolkit},
		}
		for role := range roles {
			for _, s := range all.statements(role) {
				for _, action := range several(s["Action"]) {
					if !strings.HasPrefix(action, "kms:") {
						continue
					}
					conditions := object(s["Condition"])
					keys := object(conditions["ForAllValues:StringEquals"])["kms:EncryptionContextKeys"]
					if !slices.Equal(several(keys), []string{"owner"}) {
						wrong = append(wrong, role+" may "+action+" with any context")
					}
					patterns := several(object(conditions["StringLike"])["kms:EncryptionContext:owner"])
					var owners []string
					for _, owner := range []string{organization, toolkit, ownToolkit, "", "-", "another"} {
						if slices.ContainsFunc(patterns, func(p string) bool { return like(p, owner) }) {
							owners = append(owners, owner)
						}
					}
					if !slices.Equal(owners, want[role+" "+action]) {
						wrong = append(wrong, fmt.Sprint(role, " may ", action, " for ", owners))
					}
					delete(want, role+" "+action)
				}
			}
		}
		for who := range want {
			wrong = append(wrong, who+" is missing")
		}
		return wrong
	}, func(all templates) {
		for _, s := range all.statements("WebhookFunction") {
			delete(s, "Condition")
		}
	}},
	{"X-Ray takes spans of who leaves them, and of nobody else", func(all templates) (wrong []string) {
		leave := []string{"ApiFunction", "BrokerFunction", "ChatFunction", "IngestFunction", "JobFunction",
			"StreamTaskTaskRole", "WebhookFunction", "WorkerFunction"}
		for role := range roles {
			var want []string
			if slices.Contains(leave, role) {
				want = []string{"xray:PutTraceSegments on *"}
			}
			may := slices.DeleteFunc(all.rights(role), func(r string) bool { return !strings.HasPrefix(r, "xray:") })
			if !slices.Equal(may, want) {
				wrong = append(wrong, fmt.Sprint(role, " may ", may))
			}
		}
		return wrong
	}, func(all templates) {
		plant(all, "SweeperFunction", properties{"Action": "xray:PutTraceSegments", "Resource": "*"})
	}},
	{"the worker alone calls models, and those that are listed", func(all templates) (wrong []string) {
		calls := 0
		for id, p := range all.of("AWS::IAM::Policy") {
			for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
				statement := object(s)
				if !strings.Contains(text(statement["Action"]), "bedrock:InvokeModelWithResponseStream") {
					continue
				}
				calls++
				resources := text(statement["Resource"])
				for _, listed := range []string{"inference-profile/eu.amazon.nova-lite-v1:0",
					"foundation-model/amazon.nova-lite-v1:0", "foundation-model/amazon.titan-text"} {
					if !strings.Contains(resources, listed+`"`) {
						wrong = append(wrong, id+" may not call "+listed)
					}
				}
				if !strings.HasPrefix(id, "WorkerFunction") || strings.Contains(resources, "foundation-model/*") {
					wrong = append(wrong, id+" may call "+resources)
				}
			}
		}
		if calls != 1 {
			wrong = append(wrong, fmt.Sprintf("%d statements let call models", calls))
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "ChatFunction")
		document := object(p["PolicyDocument"])
		document["Statement"] = append(list(document["Statement"]),
			properties{"Action": "bedrock:InvokeModelWithResponseStream",
				"Resource": "arn:aws:bedrock:*::foundation-model/*"})
	}},
	{"who searches and who ingests calls embedding models, and those that are listed", func(all templates) (
		wrong []string,
	) {
		may := map[string]bool{}
		for id, p := range all.of("AWS::IAM::Policy") {
			for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
				statement := object(s)
				if !slices.Contains(several(statement["Action"]), "bedrock:InvokeModel") {
					continue
				}
				role, _, _ := strings.Cut(id, "Function")
				may[role] = true
				resources := text(statement["Resource"])
				if !strings.Contains(resources, `foundation-model/amazon.titan-embed-text-v2:0"`) ||
					strings.Contains(resources, "text-embedding-3") || strings.Contains(resources, "*\"") {
					wrong = append(wrong, id+" may call "+resources)
				}
			}
		}
		if !maps.Equal(may, map[string]bool{"Api": true, "Worker": true, "Ingest": true}) {
			wrong = append(wrong, fmt.Sprint("embedding models are called by ", may))
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "IngestFunction")
		for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
			if statement := object(s); text(statement["Action"]) == `"bedrock:InvokeModel"` {
				statement["Action"] = "bedrock:Nothing"
			}
		}
	}},
	{"the index of documents is reached by its indexes alone, and kept", func(all templates) (wrong []string) {
		bucket := all.the("AWS::S3Vectors::VectorBucket", "Vectors")
		name := text(bucket["VectorBucketName"])
		if !strings.Contains(name, "AWS::StackId") {
			wrong = append(wrong, "another life of the stack would have the same bucket: "+name)
		}
		for id, v := range object(all["Data"]["Resources"]) {
			if r := object(v); r["Type"] == "AWS::S3Vectors::VectorBucket" && r["DeletionPolicy"] != "Retain" {
				wrong = append(wrong, id+" would be deleted, which CloudFormation cannot while it has indexes")
			}
		}
		for id, p := range all.of("AWS::IAM::Policy") {
			for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
				statement := object(s)
				resource := text(statement["Resource"])
				action := text(statement["Action"])
				ofBucket := action == `"s3vectors:GetVectorBucket"`
				if strings.Contains(action, "s3vectors:") && (!strings.Contains(resource, ":bucket/") ||
					strings.Contains(resource, "/index/*") == ofBucket) {
					wrong = append(wrong, id+" may "+action+" on "+resource)
				}
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::S3Vectors::VectorBucket", "Vectors")["VectorBucketName"] = "agents" }},
	{"a message stays hidden for as long as its function may run", func(all templates) (wrong []string) {
		for id, m := range all.of("AWS::Lambda::EventSourceMapping") {
			queue := all.target("AWS::SQS::Queue", m["EventSourceArn"])
			function := all.invoked(m["FunctionName"])
			if function == nil || number(queue["VisibilityTimeout"]) < number(function["Timeout"]) {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::SQS::Queue", "RunQueue")["VisibilityTimeout"] = 60.0 }},
	{"batches report their failures one by one, one message each, bounded", func(all templates) (wrong []string) {
		mappings := all.of("AWS::Lambda::EventSourceMapping")
		if len(mappings) != 4 {
			wrong = append(wrong, "there are not four triggers")
		}
		for id, m := range mappings {
			if !slices.Contains(several(m["FunctionResponseTypes"]), "ReportBatchItemFailures") ||
				number(m["BatchSize"]) != 1 ||
				number(object(m["ScalingConfig"])["MaximumConcurrency"]) < 2 {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) {
		delete(all.the("AWS::Lambda::EventSourceMapping", "Worker"), "FunctionResponseTypes")
	}},
	{"recursion is allowed where it is meant", func(all templates) (wrong []string) {
		for id, f := range all.of("AWS::Lambda::Function") {
			want := "Terminate"
			if strings.HasPrefix(id, "WorkerFunction") {
				want = "Allow"
			}
			if f["RecursiveLoop"] != want {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::Lambda::Function", "WorkerFunction")["RecursiveLoop"] = "Terminate" }},
	{"every queue has dead letters, and an alarm for them", func(all templates) (wrong []string) {
		alarms := text(all.of("AWS::CloudWatch::Alarm"))
		dead := map[string]bool{}
		for id, q := range all.of("AWS::SQS::Queue") {
			if policy := object(q["RedrivePolicy"]); policy != nil {
				for name := range all.of("AWS::SQS::Queue") {
					if strings.Contains(text(policy["deadLetterTargetArn"]), name) {
						dead[name] = true
					}
				}
			} else if !strings.Contains(id, "Dead") {
				wrong = append(wrong, id+" has no dead letters")
			}
		}
		for id := range dead {
			if !strings.Contains(alarms, id) {
				wrong = append(wrong, "no alarm for "+id)
			}
		}
		if len(dead) != 4 {
			wrong = append(wrong, fmt.Sprint(len(dead), " queues of dead letters"))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::SQS::Queue", "JobQueue"), "RedrivePolicy") }},
	{"logs end, and each function has its own", func(all templates) (wrong []string) {
		groups := all.of("AWS::Logs::LogGroup")
		for id, g := range groups {
			if number(g["RetentionInDays"]) < 1 {
				wrong = append(wrong, id+" is kept for ever")
			}
		}
		used := map[string]bool{}
		for id, f := range all.of("AWS::Lambda::Function") {
			group := text(object(f["LoggingConfig"])["LogGroup"])
			if group == "null" || used[group] {
				wrong = append(wrong, id+" has no log group of its own")
			}
			used[group] = true
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::Logs::LogGroup", "ChatLogs"), "RetentionInDays") }},
	{"nothing in the network can be reached from outside, and there is no NAT", func(all templates) (wrong []string) {
		for id, b := range all.of("AWS::ElasticLoadBalancingV2::LoadBalancer") {
			if b["Scheme"] != "internal" {
				wrong = append(wrong, id+" is public")
			}
		}
		for _, kind := range []string{"AWS::EC2::NatGateway", "AWS::EC2::EIP"} {
			for id := range all.of(kind) {
				wrong = append(wrong, id)
			}
		}
		for kind, member := range map[string]string{"AWS::EC2::SecurityGroup": "SecurityGroupIngress",
			"AWS::EC2::SecurityGroupIngress": "CidrIp"} {
			for id, p := range all.of(kind) {
				if strings.Contains(text(p[member]), "0.0.0.0/0") {
					wrong = append(wrong, id+" lets everybody in")
				}
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::ElasticLoadBalancingV2::LoadBalancer", "Balancer")["Scheme"] = "internet-facing"
	}},
	{"what may stream does so by the function chat, and nothing else", func(all templates) (wrong []string) {
		streaming := map[any]int{}
		for id, m := range all.of("AWS::ApiGateway::Method") {
			integration := object(m["Integration"])
			if integration["ResponseTransferMode"] != "STREAM" {
				continue
			}
			streaming[m["HttpMethod"]]++
			if !strings.Contains(text(integration["Uri"]), "/response-streaming-invocations") ||
				!strings.Contains(text(integration["Uri"]), "ChatLive") {
				wrong = append(wrong, id)
			}
		}
		// POST: messages, MCP, A2A, AG-UI, responses; GET: a response
		if !maps.Equal(streaming, map[any]int{"POST": 5, "GET": 1}) {
			wrong = append(wrong, fmt.Sprint("these stream: ", streaming))
		}
		return wrong
	}, func(all templates) {
		for _, m := range all.of("AWS::ApiGateway::Method") {
			delete(object(m["Integration"]), "ResponseTransferMode")
		}
	}},
	{"forms reach the functions unharmed", func(all templates) (wrong []string) {
		kinds := several(all.the("AWS::ApiGateway::RestApi", "Gateway")["BinaryMediaTypes"])
		if !slices.Contains(kinds, "multipart/form-data") || slices.Contains(kinds, "*/*") {
			wrong = append(wrong, fmt.Sprint(kinds))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ApiGateway::RestApi", "Gateway"), "BinaryMediaTypes") }},
	{"files of the panel are kept by the distribution, and compressed there", func(all templates) (wrong []string) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		var paths []string
		for _, b := range list(config["CacheBehaviors"]) {
			paths = append(paths, fmt.Sprint(object(b)["PathPattern"]))
			if object(b)["PathPattern"] == "/admin/assets/*" && object(b)["Compress"] != true {
				wrong = append(wrong, "files are not compressed")
			}
		}
		files, page := slices.Index(paths, "/admin/assets/*"), slices.Index(paths, "/admin*")
		if files < 0 || page < files {
			wrong = append(wrong, "the page's behaviour comes before that of its files")
		}
		return wrong
	}, func(all templates) {
		config := object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])
		slices.Reverse(list(config["CacheBehaviors"]))
	}},
	{"pages may send files to the bucket", func(all templates) (wrong []string) {
		if !strings.Contains(text(all.the("AWS::S3::Bucket", "Blobs")["CorsConfiguration"]), `"PUT"`) {
			wrong = append(wrong, "the bucket takes no file of a page")
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::S3::Bucket", "Blobs"), "CorsConfiguration") }},
	{"tables expire what has a life, and the core can be put back", func(all templates) (wrong []string) {
		for id, table := range all.of("AWS::DynamoDB::GlobalTable") {
			if object(table["TimeToLiveSpecification"])["AttributeName"] != "ttl" {
				wrong = append(wrong, id+" expires nothing")
			}
			for _, index := range list(table["GlobalSecondaryIndexes"]) {
				if object(object(index)["Projection"])["ProjectionType"] != "KEYS_ONLY" {
					wrong = append(wrong, id+" has an index of more than keys")
				}
			}
		}
		replicas := text(all.the("AWS::DynamoDB::GlobalTable", "Core")["Replicas"])
		if !strings.Contains(replicas, `"PointInTimeRecoveryEnabled":true`) {
			wrong = append(wrong, "the core cannot be put back")
		}
		return wrong
	}, func(all templates) {
		object(object(list(all.the("AWS::DynamoDB::GlobalTable",
			"Core")["Replicas"])[0])["PointInTimeRecoverySpecification"])["PointInTimeRecoveryEnabled"] = false
	}},
	{"CloudFront, and nobody else, reaches the balancer", func(all templates) (wrong []string) {
		rules := 0
		for id, p := range all.of("AWS::EC2::SecurityGroup") {
			if ingress := text(p["SecurityGroupIngress"]); strings.HasPrefix(id, "Balancer") && ingress != "null" {
				rules++
				if !strings.Contains(ingress, `"SourcePrefixListId":"pl-0123456"`) ||
					strings.Contains(ingress, "Cidr") {
					wrong = append(wrong, id+" lets in "+ingress)
				}
			}
		}
		for id, p := range all.of("AWS::EC2::SecurityGroupIngress") {
			if !strings.HasPrefix(id, "Balancer") {
				continue
			}
			rules++
			if p["SourcePrefixListId"] != "pl-0123456" || p["FromPort"] != 80.0 {
				wrong = append(wrong, id+" lets in "+text(p))
			}
		}
		if rules != 1 {
			wrong = append(wrong, fmt.Sprint(rules, " rules let the balancer be reached"))
		}
		return wrong
	}, func(all templates) {
		for id, p := range all.of("AWS::EC2::SecurityGroupIngress") {
			if strings.HasPrefix(id, "Balancer") {
				delete(p, "SourcePrefixListId")
				p["CidrIp"] = "10.0.0.0/16"
			}
		}
		for id, p := range all.of("AWS::EC2::SecurityGroup") {
			if strings.HasPrefix(id, "Balancer") {
				p["SecurityGroupIngress"] = []any{properties{"CidrIp": "10.0.0.0/16"}}
			}
		}
	}},
	{"the network lies in the zones that CloudFront reaches", func(all templates) (wrong []string) {
		for id, p := range all.of("AWS::EC2::Subnet") {
			if zone := p["AvailabilityZone"]; zone != "eu-central-1a" && zone != "eu-central-1b" {
				wrong = append(wrong, id+" is in "+text(zone))
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::EC2::Subnet", "Network")["AvailabilityZone"] = properties{"Fn::Select": []any{0}}
	}},
	{"the gateway is called by the distribution alone", func(all templates) (wrong []string) {
		for id, m := range all.of("AWS::ApiGateway::Method") {
			if m["ApiKeyRequired"] != true {
				wrong = append(wrong, id+" is open to everybody")
			}
		}
		key := text(all.the("AWS::ApiGateway::ApiKey", "Gateway")["Value"])
		origins := list(object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"])["Origins"])
		shown := 0
		for _, o := range origins {
			origin := object(o)
			if origin["VpcOriginConfig"] != nil {
				continue
			}
			for _, h := range list(origin["OriginCustomHeaders"]) {
				if object(h)["HeaderName"] == "X-Api-Key" && text(object(h)["HeaderValue"]) == key {
					shown++
				}
			}
		}
		if shown != 2 || !strings.Contains(key, "resolve:secretsmanager:") {
			wrong = append(wrong, fmt.Sprint(shown, " origins show the key ", key))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ApiGateway::Method", "Gatewayv1chatPOST"), "ApiKeyRequired") }},
	{"alarms can tell, and somebody hears it", func(all templates) (wrong []string) {
		topics := map[string]bool{}
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			for _, action := range list(a["AlarmActions"]) {
				topic := fmt.Sprint(object(action)["Ref"])
				if _, ok := all.of("AWS::SNS::Topic")[topic]; !ok {
					wrong = append(wrong, id+" tells no topic")
				}
				topics[topic] = true
			}
		}
		for topic := range topics {
			if all.target("AWS::SNS::Topic", properties{"Ref": topic})["KmsMasterKeyId"] != nil {
				wrong = append(wrong, topic+" is encrypted: its key's policy would have to admit CloudWatch")
			}
			if !all.admits(topic, "cloudwatch.amazonaws.com") {
				wrong = append(wrong, topic+" does not let CloudWatch publish")
			}
			heard := false
			for _, s := range all.of("AWS::SNS::Subscription") {
				heard = heard || strings.Contains(text(s["TopicArn"]), topic)
			}
			if !heard {
				wrong = append(wrong, topic+" has nobody who hears it")
			}
		}
		if len(topics) != 1 {
			wrong = append(wrong, fmt.Sprint(len(topics), " topics"))
		}
		return wrong
	}, func(all templates) {
		document := object(all.the("AWS::SNS::TopicPolicy", "Alarms")["PolicyDocument"])
		document["Statement"] = slices.DeleteFunc(list(document["Statement"]),
			func(s any) bool { return object(s)["Effect"] == "Allow" })
	}},
	{"errors that are handled one by one raise an alarm, too", func(all templates) (wrong []string) {
		alarms := all.of("AWS::CloudWatch::Alarm")
		for _, program := range append([]string{"stream"}, functions...) {
			name := "Logged" + strings.ToUpper(program[:1]) + program[1:]
			filter := all.the("AWS::Logs::MetricFilter", name)
			group := all.target("AWS::Logs::LogGroup", filter["LogGroupName"])
			if group == nil || filter["FilterPattern"] != `{ $.level = "ERROR" }` {
				wrong = append(wrong, name+" filters "+text(filter))
			}
			heard := false
			for _, a := range alarms {
				heard = heard || strings.Contains(text(a["Metrics"]), `"`+name+`"`)
			}
			if !heard {
				wrong = append(wrong, name+" raises no alarm")
			}
		}
		return wrong
	}, func(all templates) {
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			if strings.HasPrefix(id, "WorkerFailing") {
				delete(a, "Metrics")
			}
		}
	}},
	{"what is invoked is a version, which a canary can take back", func(all templates) (wrong []string) {
		for _, kind := range []string{"AWS::Lambda::EventSourceMapping", "AWS::Events::Rule",
			"AWS::ApiGateway::Method"} {
			for id, p := range all.of(kind) {
				invoked := []any{p["FunctionName"], p["Targets"], object(p["Integration"])["Uri"]}
				if object(p["Integration"])["Type"] != "MOCK" && all.target("AWS::Lambda::Alias", invoked) == nil {
					wrong = append(wrong, id+" invokes "+text(invoked))
				}
			}
		}
		for id, r := range object(all["Service"]["Resources"]) {
			resource := object(r)
			if resource["Type"] == "AWS::Lambda::Alias" &&
				object(resource["UpdatePolicy"])["CodeDeployLambdaAliasUpdate"] == nil {
				wrong = append(wrong, id+" is moved at once")
			}
			if resource["Type"] == "AWS::Lambda::Version" && resource["DeletionPolicy"] != "Retain" {
				wrong = append(wrong, id+" would be gone when it is needed")
			}
		}
		for id, g := range all.of("AWS::CodeDeploy::DeploymentGroup") {
			least := 2
			if strings.HasPrefix(id, "Reader") { // it is throttled by many files, whatever its version
				least = 1
			}
			if len(list(object(g["AlarmConfiguration"])["Alarms"])) < least ||
				!strings.Contains(text(g["AutoRollbackConfiguration"]), "DEPLOYMENT_STOP_ON_ALARM") {
				wrong = append(wrong, id+" goes on whatever happens")
			}
		}
		return wrong
	}, func(all templates) {
		for _, r := range object(all["Service"]["Resources"]) {
			if object(r)["Type"] == "AWS::Lambda::Alias" {
				delete(object(r), "UpdatePolicy")
			}
		}
	}},
	{"no function can take the concurrency of another", func(all templates) (wrong []string) {
		sum := 0.0
		for id, f := range all.of("AWS::Lambda::Function") {
			n := number(f["ReservedConcurrentExecutions"])
			if n < 1 {
				wrong = append(wrong, id+" has no part of its own")
			}
			sum += n
		}
		for id, m := range all.of("AWS::Lambda::EventSourceMapping") {
			function := all.invoked(m["FunctionName"])
			if number(object(m["ScalingConfig"])["MaximumConcurrency"]) >
				number(function["ReservedConcurrentExecutions"]) {
				wrong = append(wrong, id+" takes more messages than its function can handle")
			}
		}
		if sum > 900 {
			wrong = append(wrong, fmt.Sprint("all parts are ", sum))
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::Lambda::Function", "WorkerFunction")["ReservedConcurrentExecutions"] = 10.0
	}},
	{"a sweep that fails is not tried again beside the next", func(all templates) (wrong []string) {
		config := all.the("AWS::Lambda::EventInvokeConfig", "Sweeper")
		if config["MaximumRetryAttempts"] != 0.0 || number(config["MaximumEventAgeInSeconds"]) > 60 {
			wrong = append(wrong, text(config))
		}
		return wrong
	}, func(all templates) {
		delete(all.the("AWS::Lambda::EventInvokeConfig", "Sweeper"), "MaximumRetryAttempts")
	}},
	{"requests leave a line, without what is secret in them", func(all templates) (wrong []string) {
		setting := object(all.the("AWS::ApiGateway::Stage", "Gateway")["AccessLogSetting"])
		format := fmt.Sprint(setting["Format"])
		if setting["DestinationArn"] == nil || !json.Valid([]byte(format)) {
			wrong = append(wrong, "no line, or none in JSON: "+format)
		}
		for _, secret := range []string{"querystring", "header", "body", "apiKey", "authorizer"} {
			if strings.Contains(format, secret) {
				wrong = append(wrong, "the line has "+secret)
			}
		}
		if object(object(all.the("AWS::CloudFront::Distribution",
			"Front")["DistributionConfig"])["Logging"])["IncludeCookies"] == true {
			wrong = append(wrong, "cookies are logged")
		}
		for id, f := range all.of("AWS::Lambda::Function") {
			if object(f["LoggingConfig"])["SystemLogLevel"] != "INFO" {
				wrong = append(wrong, id+" does not report its memory")
			}
		}
		return wrong
	}, func(all templates) {
		delete(all.the("AWS::ApiGateway::Stage", "Gateway"), "AccessLogSetting")
	}},
	{"objects that an earlier table names are there", func(all templates) (wrong []string) {
		bucket := all.the("AWS::S3::Bucket", "Blobs")
		if object(bucket["VersioningConfiguration"])["Status"] != "Enabled" {
			wrong = append(wrong, "the bucket has no versions")
		}
		kept := text(object(bucket["LifecycleConfiguration"])["Rules"])
		recovery := number(object(object(list(all.the("AWS::DynamoDB::GlobalTable",
			"Core")["Replicas"])[0])["PointInTimeRecoverySpecification"])["RecoveryPeriodInDays"])
		if !strings.Contains(kept, fmt.Sprintf(`"NoncurrentDays":%v`, recovery)) {
			wrong = append(wrong, fmt.Sprint("the table goes back ", recovery, " days, objects: ", kept))
		}
		for id, p := range all.of("AWS::IAM::Policy") {
			if strings.Contains(text(p), "s3:DeleteObjectVersion") || strings.Contains(text(p), `"s3:*"`) {
				wrong = append(wrong, id+" may destroy versions")
			}
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::S3::Bucket", "Blobs"), "VersioningConfiguration") }},
	{"which commit is deployed is said by outputs, and by nothing that would change a resource", func(all templates) (
		wrong []string,
	) {
		for name, commit := range map[string]string{"Commit": "0123abc", "CommitBefore": "9876fed"} {
			if said := object(object(all["Service"]["Outputs"])[name])["Value"]; said != commit {
				wrong = append(wrong, fmt.Sprint(name, " is ", said))
			}
			for what, stack := range all {
				if strings.Contains(text(stack["Resources"]), commit) {
					wrong = append(wrong, "a resource of "+what+" names "+commit)
				}
			}
		}
		return wrong
	}, func(all templates) { delete(object(all["Service"]["Outputs"]), "CommitBefore") }},
	{"the address that is refused is the client's own", func(all templates) (wrong []string) {
		acl := all.the("AWS::WAFv2::WebACL", "WebAcl")
		rules := text(acl["Rules"])
		if acl["Scope"] != "CLOUDFRONT" || !strings.Contains(rules, `"AggregateKeyType":"IP"`) ||
			!strings.Contains(rules, `"Block"`) {
			wrong = append(wrong, rules)
		}
		front := all.the("AWS::CloudFront::Distribution", "Front")
		if object(front["DistributionConfig"])["WebACLId"] == nil {
			wrong = append(wrong, "the distribution has no web ACL")
		}
		return wrong
	}, func(all templates) { all.the("AWS::WAFv2::WebACL", "WebAcl")["Scope"] = "REGIONAL" }},
	{"what a stage costs is found by its tag", func(all templates) (wrong []string) {
		if all.the("AWS::ECS::Service", "Stream")["PropagateTags"] != "SERVICE" {
			wrong = append(wrong, "tasks have no tags")
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ECS::Service", "Stream"), "PropagateTags") }},
	{"a guardrail may be applied, and profiles of every geography called", func(all templates) (wrong []string) {
		worker := text(all.of("AWS::IAM::Policy"))
		for _, needed := range []string{"bedrock:ApplyGuardrail", ":guardrail/gr4n9abc", "inference-profile/jp.",
			`foundation-model/anthropic.claude-sonnet-4-5"`} {
			if !strings.Contains(worker, needed) {
				wrong = append(wrong, "nothing about "+needed)
			}
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "WorkerFunction")
		document := object(p["PolicyDocument"])
		document["Statement"] = slices.DeleteFunc(list(document["Statement"]),
			func(s any) bool { return strings.Contains(text(s), "ApplyGuardrail") })
	}},
	{"the service imports what the data stack always exports", func(all templates) (wrong []string) {
		var exported []string
		for _, o := range object(all["Data"]["Outputs"]) {
			if name := object(object(o)["Export"])["Name"]; name != nil {
				exported = append(exported, strings.TrimPrefix(fmt.Sprint(name), "agents-prod-data:"))
			}
		}
		slices.Sort(exported)
		if !slices.Equal(exported, exports) {
			wrong = append(wrong, fmt.Sprint("the data stack exports ", exported, ". An export that goes while the "+
				"service still imports it stops every deploy: add to the list, and never take from it in the deploy "+
				"that stops using it"))
		}
		return wrong
	}, func(all templates) {
		for name, o := range object(all["Data"]["Outputs"]) {
			if object(o)["Export"] != nil {
				delete(object(all["Data"]["Outputs"]), name)
				return
			}
		}
	}},
	{"every alarm tells somebody, and has an entry in the runbook", func(all templates) (wrong []string) {
		runbook, err := os.ReadFile("../README.md")
		if err != nil {
			return []string{err.Error()}
		}
		n := len(all.of("AWS::CloudWatch::Alarm")) - 1 // SpansDropped is of stages that send traces alone
		if !strings.Contains(string(runbook), fmt.Sprint(n, " alarms")) {
			wrong = append(wrong, fmt.Sprint("what it costs does not know of ", n, " alarms"))
		}
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			name := strings.TrimPrefix(fmt.Sprint(a["AlarmName"]), "agents-prod-")
			if !strings.Contains(string(runbook), "**"+name+"**") {
				wrong = append(wrong, name+" has no entry")
			}
			if len(list(a["AlarmActions"])) == 0 {
				wrong = append(wrong, id+" tells nobody")
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::CloudWatch::Alarm", "GatewayErrors")["AlarmName"] = "agents-prod-Unheard"
	}},
}

// like says whether a text matches a pattern of IAM.
func like(pattern, text string) bool {
	quoted := regexp.QuoteMeta(pattern)
	wild := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted)
	return regexp.MustCompile("(?s)^" + wild + "$").MatchString(text)
}

// statements of a role's own policies.
func (all templates) statements(role string) (found []properties) {
	for id, p := range all.of("AWS::IAM::Policy") {
		if !strings.HasPrefix(id, role) {
			continue
		}
		for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
			found = append(found, object(s))
		}
	}
	return found
}

// plant adds a statement to a policy.
func plant(all templates, role string, statement properties) {
	document := object(all.the("AWS::IAM::Policy", role)["PolicyDocument"])
	document["Statement"] = append(list(document["Statement"]), statement)
}

// opening are the actions by which a secret can be read, or the right to read it be had. An invocation of the broker
// is none: it gives no secret out.
var opening = []string{"kms:Decrypt", "kms:ReEncryptFrom", "kms:CreateGrant", "kms:PutKeyPolicy",
	"secretsmanager:GetSecretValue", "secretsmanager:BatchGetSecretValue", "secretsmanager:PutResourcePolicy",
	"ssm:GetParameter", "sts:AssumeRole", "iam:PassRole", "iam:PutRolePolicy", "iam:AttachRolePolicy",
	"lambda:InvokeFunction", "lambda:InvokeAsync", "lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration",
	"lambda:GetFunction"}

// harmless are policies of AWS that let nobody read a secret: to write logs.
var harmless = []string{"service-role/AWSLambdaBasicExecutionRole"}

// public are the roles of whatever takes requests from outside: the functions that a method of the API or an address
// of their own leads to, and the tasks behind the load balancer.
func (all templates) public() (ids map[string]bool, wrong []string) {
	ids = map[string]bool{}
	entrances := []any{}
	for _, m := range all.of("AWS::ApiGateway::Method") {
		entrances = append(entrances, object(m["Integration"])["Uri"])
	}
	for _, u := range all.of("AWS::Lambda::Url") {
		entrances = append(entrances, u["TargetFunctionArn"])
	}
	for _, p := range all.of("AWS::Lambda::Permission") {
		if p["Principal"] != "events.amazonaws.com" { // the schedule, which is ours
			entrances = append(entrances, p["FunctionName"])
		}
	}
	functions := all.of("AWS::Lambda::Function")
	reached := map[string]bool{}
	for _, e := range entrances {
		for _, alias := range all.aliases(e) {
			e = []any{e, alias["FunctionName"]}
		}
		for id, f := range functions {
			if strings.Contains(text(e), `"`+id+`"`) {
				reached[id] = true
				ids[all.role(f["Role"])] = true
			}
		}
	}
	for _, must := range []string{"ChatFunction", "ApiFunction"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(reached)),
			func(id string) bool { return strings.HasPrefix(id, must) }) {
			wrong = append(wrong, "no request leads to "+must+": the walk is broken")
		}
	}
	tasks := all.of("AWS::ECS::TaskDefinition")
	if len(tasks) == 0 {
		wrong = append(wrong, "there is no task: the walk is broken")
	}
	for _, task := range tasks {
		ids[all.role(task["TaskRoleArn"])] = true
	}
	return ids, wrong
}

// aliases are those that a reference refers to.
func (all templates) aliases(reference any) (found []properties) {
	for id, p := range all.of("AWS::Lambda::Alias") {
		if strings.Contains(text(reference), `"`+id+`"`) {
			found = append(found, p)
		}
	}
	return found
}

// role is the logical id of the role that a reference refers to.
func (all templates) role(reference any) string {
	for id := range all.of("AWS::IAM::Role") {
		if strings.Contains(text(reference), `"`+id+`"`) {
			return id
		}
	}
	return ""
}

// decrypting says which secrets whatever takes requests from outside can read, by its role's policies or those of the
// key and the secret.
func (all templates) decrypting() []string {
	public, wrong := all.public()
	described := all.of("AWS::IAM::Role")
	for id := range public {
		role, there := described[id]
		if !there {
			wrong = append(wrong, "a role is not in the templates: the walk is broken")
			continue
		}
		for _, managed := range list(role["ManagedPolicyArns"]) {
			if !slices.ContainsFunc(harmless, func(h string) bool { return strings.Contains(text(managed), h) }) {
				wrong = append(wrong, id+" has the policy "+text(managed))
			}
		}
		documents := []any{}
		for _, inline := range list(role["Policies"]) {
			documents = append(documents, object(inline)["PolicyDocument"])
		}
		attached := 0
		for _, kind := range []string{"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"} {
			for _, p := range all.of(kind) {
				if strings.Contains(text(p["Roles"]), `"`+id+`"`) {
					documents = append(documents, p["PolicyDocument"])
					attached++
				}
			}
		}
		if attached == 0 {
			wrong = append(wrong, id+" has no policy: the walk is broken")
		}
		for _, d := range documents {
			for _, s := range list(object(d)["Statement"]) {
				wrong = append(wrong, readable(id, object(s))...)
			}
		}
	}
	// A key or a secret may let somebody in by itself; the account's own line leaves it to the roles.
	for kind, member := range map[string]string{
		"AWS::KMS::Key": "KeyPolicy", "AWS::SecretsManager::ResourcePolicy": "ResourcePolicy",
	} {
		for id, p := range all.of(kind) {
			for _, s := range list(object(p[member])["Statement"]) {
				who := text(object(s)["Principal"])
				if object(s)["Effect"] == "Allow" && !strings.Contains(who, ":root") {
					wrong = append(wrong, id+" lets in "+who)
				}
			}
		}
	}
	return wrong
}

// readable says by which actions a statement lets a role read secrets.
func readable(role string, s properties) (wrong []string) {
	if s["Effect"] == "Deny" {
		return nil
	}
	if s["NotAction"] != nil {
		return []string{role + " may all but some"}
	}
	for _, pattern := range several(s["Action"]) {
		for _, action := range opening {
			if !like(strings.ToLower(pattern), strings.ToLower(action)) {
				continue
			}
			resources := several(s["Resource"])
			asks := pattern == "lambda:InvokeFunction" && len(resources) == 1 &&
				strings.Contains(resources[0], `"BrokerLive`)
			if !asks {
				wrong = append(wrong, role+" may "+pattern+" on "+strings.Join(resources, ", "))
			}
		}
	}
	return wrong
}

// invoked is the function behind a reference to its alias.
func (all templates) invoked(reference any) properties {
	if alias := all.target("AWS::Lambda::Alias", reference); alias != nil {
		return all.target("AWS::Lambda::Function", alias["FunctionName"])
	}
	return nil
}

// exports are the names under which the data stack's resources are known to the service.
var exports = []string{
	"ExportsOutputFnGetAttBlobsF0F01DC6Arn220BCD82", "ExportsOutputFnGetAttCoreC65142A7ArnA1AA4B71",
	"ExportsOutputFnGetAttFeed908EF2E5Arn88DE9EF6", "ExportsOutputFnGetAttImages2D38C313Arn6C6DDC6E",
	"ExportsOutputFnGetAttSealingKey98C9818DArn294F2DA0", "ExportsOutputRefAWSStackIdB2DD5BAA",
	"ExportsOutputRefBlobsF0F01DC64D846A39", "ExportsOutputRefCoreC65142A72FB2EE7E",
	"ExportsOutputRefFeed908EF2E5E4FE5E5A", "ExportsOutputRefImages2D38C3131DF9B1C4",
	"ExportsOutputRefSealingKey98C9818D6F428BC9", "ExportsOutputRefSecretsA3BCC2E9DC08B2BB",
}

// admits says whether a topic's policy lets a service of this account publish.
func (all templates) admits(topic, service string) bool {
	for _, p := range all.of("AWS::SNS::TopicPolicy") {
		if !strings.Contains(text(p["Topics"]), topic) {
			continue
		}
		for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
			statement := object(s)
			if statement["Effect"] == "Allow" && object(statement["Principal"])["Service"] == service &&
				strings.EqualFold(fmt.Sprint(statement["Action"]), "sns:Publish") &&
				strings.Contains(text(statement["Condition"]), `"aws:SourceAccount":{"Ref":"AWS::AccountId"}`) {
				return true
			}
		}
	}
	return false
}

// target is the resource that a reference refers to.
func (all templates) target(kind string, reference any) properties {
	for id, p := range all.of(kind) {
		if strings.Contains(text(reference), `"`+id+`"`) {
			return p
		}
	}
	return nil
}

// Where spans go to a collector, or nowhere, X-Ray is not spoken of.
func TestNoRightToXRayWithoutItsAddress(t *testing.T) {
	defer jsii.Close()
	elsewhere := synthesised(t, "prod", func(s *stage.Stage) {
		s.Settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = "https://xray.example.com"
	})
	assert.NotContains(t, text(elsewhere.of("AWS::IAM::Policy")), "xray:")
}

func TestTheTemplatesMeetTheirRequirements(t *testing.T) {
	defer jsii.Close()
	all := synthesised(t, "prod", func(*stage.Stage) {})
	for _, m := range meanings {
		t.Run(m.name, func(t *testing.T) {
			assert.Empty(t, m.check(all))
			broken := all.clone(t)
			m.spoil(broken)
			assert.NotEmpty(t, m.check(broken), "the check does not notice when it is broken")
		})
	}
	t.Run("what holds data keeps its name, and is kept", func(t *testing.T) {
		var ids []string
		for id, v := range object(all["Data"]["Resources"]) {
			r := object(v)
			switch r["Type"] {
			case "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::ECR::Repository",
				"AWS::KMS::Key", "AWS::SecretsManager::Secret", "AWS::S3Vectors::VectorBucket":
				ids = append(ids, id)
				if !strings.HasPrefix(id, "Feed") {
					assert.Equal(t, "Retain", r["DeletionPolicy"], id)
				}
			}
		}
		slices.Sort(ids)
		// Another logical id means a new, empty resource: never change one of these.
		assert.Equal(t, []string{"BlobsF0F01DC6", "CoreC65142A7", "Feed908EF2E5", "Images2D38C313",
			"SealingKey98C9818D", "SecretsA3BCC2E9", "Vectors"}, ids)
		core := text(all.the("AWS::DynamoDB::GlobalTable", "Core")["Replicas"])
		assert.Contains(t, core, `"DeletionProtectionEnabled":true`)
	})
	t.Run("each way in is looked at", func(t *testing.T) {
		for _, role := range []string{"ChatFunction", "ApiFunction", "StreamTaskTaskRole"} {
			for _, statement := range []properties{
				{"Action": "kms:Decrypt", "Resource": "*"},
				{"Action": []any{"s3:GetObject", "secretsmanager:*"}, "Resource": "*"},
				{"Action": "lambda:InvokeFunction", "Resource": "arn:aws:lambda:*:*:function:worker"},
				{"NotAction": "s3:GetObject", "Resource": "*"}, {"Action": "*", "Resource": "*"},
			} {
				broken := all.clone(t)
				plant(broken, role, statement)
				assert.NotEmpty(t, broken.decrypting(), "%s %v", role, statement)
			}
		}
		behind := properties{"Fn::GetAtt": []any{all.id("AWS::Lambda::Function", "BrokerFunction"), "Arn"}}
		for _, broken := range []func(templates){
			func(all templates) { // another way to a function that decrypts
				for _, m := range all.of("AWS::ApiGateway::Method") {
					object(m["Integration"])["Uri"] = behind
					return
				}
			},
			func(all templates) {
				all.add("Door", "AWS::Lambda::Url", properties{"TargetFunctionArn": behind})
			},
			func(all templates) {
				all.add("Door", "AWS::Lambda::Permission", properties{"Principal": "*", "FunctionName": behind})
			},
			func(all templates) {
				key := all.the("AWS::KMS::Key", "SealingKey")
				object(list(object(key["KeyPolicy"])["Statement"])[0])["Principal"] = properties{"AWS": "*"}
			},
			func(all templates) {
				role := all.the("AWS::IAM::Role", "ApiFunction")
				role["ManagedPolicyArns"] = append(list(role["ManagedPolicyArns"]),
					"arn:aws:iam::aws:policy/PowerUserAccess")
			},
		} {
			spoilt := all.clone(t)
			broken(spoilt)
			assert.NotEmpty(t, spoilt.decrypting())
		}
	})
	t.Run("each grant is needed", func(t *testing.T) { eachGrantIsNeeded(t, all) })
	t.Run("each role is listed here", func(t *testing.T) {
		for id := range all.of("AWS::IAM::Policy") {
			known := slices.ContainsFunc(slices.Collect(maps.Keys(roles)),
				func(role string) bool { return strings.HasPrefix(id, role) })
			assert.True(t, known || strings.HasPrefix(id, "StreamTaskExecutionRole"), id)
		}
	})
}

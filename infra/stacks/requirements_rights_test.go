//go:build infra

package stacks_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"

	"agentplatform/infra/stage"
	"agentplatform/internal/store/record"
)

// The requirements on the rights of roles, and on rights that they must never have. infra/local checks, with running
// programs, that each grant is needed and none is missing.

var rightsRequirements = []requirement{
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
		push, ownPush := record.PushSealedFor(id), record.PushSealedFor(record.NoOrganization)
		want := map[string][]string{
			"ApiFunction kms:GenerateDataKey":  {organization, toolkit, ownToolkit},
			"ChatFunction kms:GenerateDataKey": {push, ownPush},
			"BrokerFunction kms:Decrypt":       {organization, toolkit, ownToolkit},
			"WebhookFunction kms:Decrypt":      {organization, push, ownPush},
			"WorkerFunction kms:Decrypt":       {toolkit, ownToolkit},
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
					for _, owner := range []string{
						organization, push, ownPush, toolkit, ownToolkit, "", "-", "another",
					} {
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
	{"a guardrail may be applied, and profiles of every geography called", func(all templates) (wrong []string) {
		var worker strings.Builder
		for _, s := range all.statements("WorkerFunction") {
			worker.WriteString(text(s))
		}
		needed := []string{"bedrock:ApplyGuardrail", ":guardrail/gr4n9abc",
			`foundation-model/anthropic.claude-sonnet-4-5"`}
		for _, geography := range geographies {
			needed = append(needed, "inference-profile/"+geography+".anthropic.claude-sonnet-4-5")
		}
		for _, n := range needed {
			if !strings.Contains(worker.String(), n) {
				wrong = append(wrong, "nothing about "+n)
			}
		}
		return wrong
	}, func(all templates) {
		p := all.the("AWS::IAM::Policy", "WorkerFunction")
		document := object(p["PolicyDocument"])
		document["Statement"] = slices.DeleteFunc(list(document["Statement"]),
			func(s any) bool { return strings.Contains(text(s), "ApplyGuardrail") })
	}},
}

var logicalID = regexp.MustCompile(`(Core|Feed|Blobs|Images|SealingKey|Secrets|RunQueue|WebhookQueue|` +
	`BrokerLive|ReaderLive|JobQueue|IngestQueue|RunDead|WebhookDead|JobDead|IngestDead|PauseMachine)[0-9A-F]{8}`)

// rights returns the rights of a role as "action on resource". Resources have the names that the program gives them.
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

// roles has the platform's own roles: rights that each may have, and rights that it must never have.
var roles = map[string]struct{ may, never []string }{
	"ChatFunction": {
		[]string{"dynamodb:PutItem on Core", "dynamodb:GetItem on Core", "sqs:SendMessage on RunQueue",
			"s3:PutObject on Blobs", "states:StopExecution on PauseMachine",
			"kms:GenerateDataKey on SealingKey"},
		[]string{"sqs:ReceiveMessage", "states:StartExecution", "sqs:SendMessage on JobQueue", "dynamodb:Scan",
			"s3vectors:", "bedrock:", "kms:Decrypt", "secretsmanager:"},
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

// stars has the statements that need every resource, because their actions accept no narrower one.
var stars = map[string]string{
	"ecr:GetAuthorizationToken": "a token is for the registry, not for a repository",
	"xray:PutTraceSegments":     "X-Ray has no resource that spans are put into",
}

// like reports whether a string matches a pattern of IAM.
func like(pattern, text string) bool {
	quoted := regexp.QuoteMeta(pattern)
	wild := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted)
	return regexp.MustCompile("(?s)^" + wild + "$").MatchString(text)
}

// statements returns the statements of a role's own policies.
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

// A stage without a trace collector, or with one that is not X-Ray, has no right to X-Ray.
func TestNoRightToXRayWithoutItsAddress(t *testing.T) {
	defer jsii.Close()
	elsewhere := synthesised(t, "prod", func(s *stage.Stage) {
		s.Settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = "https://xray.example.com"
	})
	assert.NotContains(t, text(elsewhere.of("AWS::IAM::Policy")), "xray:")
}

//go:build infra

package stacks_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"

	"agentplatform/infra/stage"
)

// requirement is a requirement on the templates. check returns the violations. spoil changes the templates in a way
// that check must detect.
type requirement struct {
	name  string
	check func(templates) []string
	spoil func(templates)
}

var requirements = slices.Concat(rightsRequirements, functionsRequirements, frontRequirements, dataRequirements,
	opsRequirements)

func TestTheTemplatesMeetTheirRequirements(t *testing.T) {
	defer jsii.Close()
	all := synthesised(t, "prod", func(s *stage.Stage) {
		s.WarmWrites = 10_000
		s.Domain, s.Certificate = "agents.example.com", "arn:aws:acm:us-east-1:123456789012:certificate/x"
	})
	for _, m := range requirements {
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
		// Another logical id means a new, empty resource. Never change one of these.
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

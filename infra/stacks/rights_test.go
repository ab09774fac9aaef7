//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/iam"
)

// The decisions of the policies on calls. infra/local checks, with running programs, that each grant is needed and none
// is missing.

// decided returns the stacks' policies, ready to decide.
func (all templates) decided() (*iam.Stacks, error) {
	raw := map[string][]byte{}
	for name, t := range all {
		b, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		raw[name] = b
	}
	return iam.Read(raw, "eu-central-1", "123456789012")
}

// secretCalls returns all calls that would give a secret to a program: of each key for owners of each kind and for
// none, and of each secret.
func (all templates) secretCalls(s *iam.Stacks) (calls []iam.Call) {
	const here, id = "eu-central-1:123456789012:", "0123456789abcdef01234567"
	for key := range all.of("AWS::KMS::Key") {
		arn := "arn:aws:kms:" + here + "key/" + s.Name(key)
		for _, action := range []string{"kms:Decrypt", "kms:ReEncryptFrom"} {
			calls = append(calls, iam.Call{Action: action, Resource: arn})
			for _, owner := range []string{id, id + "/" + id, "-/" + id} {
				calls = append(calls, iam.Call{Action: action, Resource: arn, Context: bound(owner)})
			}
		}
	}
	for secret := range all.of("AWS::SecretsManager::Secret") {
		calls = append(calls, iam.Call{Action: "secretsmanager:GetSecretValue",
			Resource: "arn:aws:secretsmanager:" + here + "secret:" + s.Name(secret)})
	}
	return calls
}

func bound(owner string) map[string][]string {
	return map[string][]string{"kms:encryptioncontext:owner": {owner}, "kms:encryptioncontextkeys": {"owner"}}
}

// opened returns the secrets that programs with requests from outside can read, by evaluation of the policies. It also
// returns an error if the broker, which is there to open secrets, can open none.
func (all templates) opened() []string {
	s, err := all.decided()
	if err != nil {
		return []string{err.Error()}
	}
	if _, err := s.Programs(); err != nil {
		return []string{err.Error()}
	}
	public, wrong := all.public()
	calls := all.secretCalls(s)
	for role := range public {
		for _, c := range calls {
			if s.Decide(s.Name(role), c).Allowed {
				wrong = append(wrong, fmt.Sprint(s.Name(role), " may ", c, " ", c.Context))
			}
		}
	}
	if !slices.ContainsFunc(calls, func(c iam.Call) bool {
		return strings.HasPrefix(c.Action, "kms:") && s.Decide("BrokerFunctionServiceRole", c).Allowed
	}) {
		wrong = append(wrong, "the broker opens nothing: the evaluation is broken")
	}
	return wrong
}

// eachGrantIsNeeded removes each grant in turn, and checks that a call which needs it is then refused.
func eachGrantIsNeeded(t *testing.T, all templates) {
	s, err := all.decided()
	require.NoError(t, err)
	programs, err := s.Programs()
	require.NoError(t, err)
	assert.Len(t, programs, len(functions)+1, "the functions and the stream service")
	grants := s.Grants()
	assert.Greater(t, len(grants), 150)
	for _, g := range grants {
		call := iam.Call{Action: g.Action, Context: bound("-/0123456789abcdef01234567"),
			Resource: strings.NewReplacer("*", "x", "?", "x").Replace(g.Resource)}
		switch g.Role {
		case "WebhookFunctionServiceRole":
			call.Context = bound("0123456789abcdef01234567")
		case "ChatFunctionServiceRole":
			call.Context = bound("0123456789abcdef01234567/push")
		}
		call.Context["aws:securetransport"] = []string{"true"}
		with, without := s.Decide(g.Role, call), s.Without(g).Decide(g.Role, call)
		assert.True(t, with.Allowed, "%s: %s", g, with.Why)
		assert.Equal(t, []iam.Grant{g}, with.By, "granted twice")
		assert.False(t, without.Allowed, "%s is not missed", g)
		call.Context["aws:securetransport"] = []string{"false"}
		if strings.HasPrefix(g.Action, "s3:") || strings.HasPrefix(g.Action, "sqs:") {
			assert.Contains(t, s.Decide(g.Role, call).Why, "denies", "without TLS")
		}
	}
}

// opening has the actions by which a role can read a secret, or get the right to read it. An invocation of the broker
// is not one: the broker returns no secret.
var opening = []string{"kms:Decrypt", "kms:ReEncryptFrom", "kms:CreateGrant", "kms:PutKeyPolicy",
	"secretsmanager:GetSecretValue", "secretsmanager:BatchGetSecretValue", "secretsmanager:PutResourcePolicy",
	"ssm:GetParameter", "sts:AssumeRole", "iam:PassRole", "iam:PutRolePolicy", "iam:AttachRolePolicy",
	"lambda:InvokeFunction", "lambda:InvokeAsync", "lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration",
	"lambda:GetFunction"}

// harmless has the policies of AWS that give no right to read a secret: they let a program write logs.
var harmless = []string{"service-role/AWSLambdaBasicExecutionRole"}

// public returns the roles of programs with requests from outside. These are functions behind a method of the API or
// with a URL of their own, and the tasks behind the load balancer.
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

// role returns the logical id of the role that a reference refers to.
func (all templates) role(reference any) string {
	for id := range all.of("AWS::IAM::Role") {
		if strings.Contains(text(reference), `"`+id+`"`) {
			return id
		}
	}
	return ""
}

// decrypting returns the secrets that programs with requests from outside can read, by the policies of their role, of
// the key or of the secret.
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
	// A key or a secret may admit a role by itself. The line with the account leaves the decision to the roles.
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

// readable returns the actions by which a statement lets a role read secrets.
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

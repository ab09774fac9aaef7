//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/iam"
)

// What the policies mean for calls. That each grant is needed, and none is missing, is seen where the programs run: in
// infra/local.

// decided are the stacks' policies, ready to decide.
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

// secretCalls are all calls that would give a secret to a program: of each key for owners of each kind and for none,
// and of each secret.
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

// opened says which secrets whatever takes requests from outside is given, as the policies are evaluated, and whether
// the broker is given none, which is there for that.
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

// eachGrantIsNeeded takes each grant away in turn, and sees that a call which needs it is refused then.
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
		if g.Role == "WebhookFunctionServiceRole" {
			call.Context = bound("0123456789abcdef01234567")
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

package main

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stage"
)

// fresh returns the answers of an account in which a stage deploys without findings.
func fresh() *answers {
	return &answers{
		stage: stage.Stage{Name: "x", AlarmEmail: "a@example.com", BudgetUSD: 50, Workers: 50, Senders: 20,
			Ingesters:   5,
			StreamTasks: 2, Rate: 200, Burst: 100, WarmWrites: 10_000, WarmReads: 20_000, Domain: "agents.example.com",
			Certificate: "arn:aws:acm:us-east-1:123456789012:certificate/1"},
		region: "eu-central-1", commit: "abc",
		stacks: map[string]string{}, outputs: map[string]string{},
		concurrency: 1000, unreserved: 1000,
		quotas: map[string]float64{"requests": 10_000, "burst": 5000, "writes": 40_000, "reads": 40_000, "cpus": 6,
			"vpcs": 5, "rules": 60, "pauses": 150},
		vpcs: 1, zones: []zone{{"eu-central-1b", "euc1-az3"}, {"eu-central-1a", "euc1-az2"}, {"eu-central-1c",
			"euc1-az1"}},
		list: prefixList{"pl-1", 0}, distributions: 1, models: map[string]model{},
		certificate: certificate{true, "ISSUED", []string{"*.example.com"}},
		subscriptions: []subscription{{"arn:aws:sns:eu-central-1:123456789012:agents-x-service-Alarms1",
			"arn:confirmed"}},
		tag: "Active",
	}
}

func findingsOf(t *testing.T, name string, a *answers) []finding {
	t.Helper()
	i := slices.IndexFunc(checks, func(k check) bool { return k.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return checks[i].evaluate(a)
}

func TestAReadyAccountHasNoFindings(t *testing.T) {
	for _, k := range checks {
		assert.Empty(t, k.evaluate(fresh()), k.name)
	}
	a := fresh()
	f, known := a.facts()
	assert.True(t, known)
	assert.Equal(t, facts{"x", "abc", "", "pl-1", []string{"eu-central-1a", "eu-central-1b"}, false}, f)
	a.dirty = true
	f, _ = a.facts()
	assert.Equal(t, "abc-dirty", f.Commit)
}

// A deploy that is repeated keeps the commit that it replaced.
func TestTheCommitBefore(t *testing.T) {
	for _, c := range []struct{ deployed, before, want string }{
		{"", "", ""}, {"old", "", "old"}, {"old", "older", "old"}, {"abc", "old", "old"}, {"abc", "", ""},
	} {
		a := fresh()
		a.outputs["Commit"], a.outputs["CommitBefore"] = c.deployed, c.before
		f, _ := a.facts()
		assert.Equal(t, c.want, f.Before, c)
	}
}

func TestVerdicts(t *testing.T) {
	big := stage.Stage{Name: "x", Workers: 400, Senders: 50, Ingesters: 20, Chats: 200, Requests: 150,
		Concurrency: 1000}
	stack := func(name, status string) func(*answers) {
		return func(a *answers) { a.stacks["agents-x-"+name] = status }
	}
	bedrock := func(m model) func(*answers) { return func(a *answers) { a.models["m"] = m } }
	tested := map[string]bool{}
	for _, c := range []struct {
		check, because string
		plant          func(*answers)
		fatal          bool
		want           string // words of the one sentence
	}{
		{"credentials", "no Region", func(a *answers) { a.region = "" }, true, "AWS_REGION"},
		{"commit", "changes", func(a *answers) { a.dirty = true }, false, "uncommitted changes"},
		{"commit", "changes of a precious stage", func(a *answers) { a.dirty, a.stage.Precious = true, true }, true,
			"commit them"},
		{"stacks", "a creation that failed", stack("data", "ROLLBACK_COMPLETE"), false, "deletes it first"},
		{"stacks", "one that is protected", func(a *answers) {
			a.stacks["agents-x-data"], a.stage.Precious = "ROLLBACK_COMPLETE", true
		}, true, "update-termination-protection"},
		{"stacks", "a deletion that failed", stack("service", "DELETE_FAILED"), true, "delete-stack"},
		{"stacks", "a rollback that failed", stack("service", "UPDATE_ROLLBACK_FAILED"), true,
			"continue-update-rollback"},
		{"stacks", "somebody else's deploy", stack("service", "UPDATE_IN_PROGRESS"), true, "another deploy"},
		{"leftovers", "a bucket of an earlier life", func(a *answers) { a.left = []string{"the bucket b"} }, false,
			"the bucket b"},
		{"zones", "a Region without", func(a *answers) { a.region = "eu-nowhere-1" }, true, "another Region"},
		{"zones", "one zone", func(a *answers) { a.zones = a.zones[:1] }, true, "fewer than two"},
		{"zones", "the network is in one that is not admitted", func(a *answers) {
			a.region, a.kept = "us-east-1", []string{"us-east-1a", "us-east-1b"}
			a.zones = []zone{{"us-east-1a", "use1-az3"}, {"us-east-1b", "use1-az1"}, {"us-east-1c", "use1-az2"}}
		}, false, "us-east-1a"},
		{"CloudFront's prefix list", "none", func(a *answers) { a.list = prefixList{} }, true, "no prefix list"},
		{"CloudFront's prefix list", "no room for its rules", func(a *answers) { a.quotas["rules"] = 50 }, true,
			"counts as 55 rules"},
		{"CloudFront's prefix list", "it has grown", func(a *answers) { a.list.entries = 70 }, true, "counts as 70 " +
			"rules"},
		{"VPCs", "all are taken", func(a *answers) { a.vpcs = 5 }, true, "L-F678F1CE"},
		{"CloudFront", "no distribution", func(a *answers) { a.distributions = 0 }, false, "must be verified"},
		{"certificate", "none", func(a *answers) { a.certificate = certificate{} }, true, "request-certificate"},
		{"certificate", "not issued", func(a *answers) { a.certificate.status = "PENDING_VALIDATION" }, true, "DNS"},
		{"certificate", "a star stands for one label", func(a *answers) {
			a.stage.Domain = "a.agents.example.com"
		}, true, "not for a.agents.example.com"},
		{"certificate", "of another domain", func(a *answers) { a.certificate.names = []string{"example.com"} }, true,
			"not for agents.example.com"},
		{"Lambda's concurrency", "a new account", func(a *answers) { a.concurrency, a.unreserved = 10, 10 }, false,
			"L-B99A9384"},
		{"Lambda's concurrency", "parts in a new account", func(a *answers) {
			a.stage, a.concurrency, a.unreserved = big, 10, 10
		}, true, "set Concurrency to 0"},
		{"Lambda's concurrency", "others have parts, too", func(a *answers) { a.stage, a.unreserved = big, 900 }, true,
			"others have reserved 100"},
		{"Lambda's concurrency", "it counts on more", func(a *answers) {
			a.stage = big
			a.stage.Concurrency = 2000
		}, false, "counts on 2000"},
		{"API Gateway's throttle", "the rate", func(a *answers) { a.stage.Rate = 20_000 }, false, "L-8A5B8E43"},
		{"API Gateway's throttle", "the burst", func(a *answers) { a.stage.Burst = 6000 }, false, "lower Burst"},
		{"DynamoDB's throughput", "writes", func(a *answers) { a.stage.WarmWrites = 40_001 }, true, "L-AB614373"},
		{"DynamoDB's throughput", "reads", func(a *answers) { a.stage.WarmReads = 40_001 }, true, "L-CF0CBE56"},
		{"Fargate's CPUs", "too few for the tasks", func(a *answers) { a.stage.StreamTasks = 7 }, true, "L-3032A538"},
		{"Fargate's CPUs", "too few for a deploy", func(a *answers) { a.stage.StreamTasks = 4 }, false, "old and new"},
		{"Step Functions", "too slow", func(a *answers) { a.stage.Workers = 1600 }, false, "begins 150 waits"},
		{"models of Bedrock", "not known", bedrock(model{}), false, "is not a model"},
		{"models of Bedrock", "another Region", bedrock(model{known: true, region: "NOT_AVAILABLE"}), false,
			"inference profile"},
		{"models of Bedrock", "terms", bedrock(model{known: true, region: "AVAILABLE", agreement: "NOT_AVAILABLE"}),
			false, "are not accepted"},
		{"models of Bedrock", "no access", bedrock(model{known: true, region: "AVAILABLE", agreement: "AVAILABLE",
			entitlement: "NOT_AVAILABLE"}), false, "ask for access"},
		{"mail of alarms", "no address", func(a *answers) { a.stage.AlarmEmail = "" }, false, "no AlarmEmail"},
		{"mail of alarms", "the first deploy", func(a *answers) { a.subscriptions = nil }, false, "will send a mail"},
		{"mail of alarms", "not confirmed", func(a *answers) {
			a.subscriptions[0].state = "PendingConfirmation"
		}, false,
			"has not confirmed"},
		{"mail of alarms", "ended by a click", func(a *answers) {
			a.subscriptions, a.stacks["agents-x-service"] = nil, "UPDATE_COMPLETE"
		}, false, "no longer subscribed"},
		{"budget", "a tag that Billing has not seen", func(a *answers) { a.tag = "" }, false, "24 hours"},
		{"budget", "a tag that is not active", func(a *answers) { a.tag = "Inactive" }, false, "TagKey=stage"},
	} {
		a := fresh()
		c.plant(a)
		found := findingsOf(t, c.check, a)
		tested[c.check] = true
		if assert.Len(t, found, 1, "%s: %s", c.check, c.because) {
			assert.Equal(t, c.fatal, found[0].fatal, "%s: %s: %s", c.check, c.because, found[0].text)
			assert.Contains(t, found[0].text, c.want, "%s: %s", c.check, c.because)
			assert.NotContains(t, found[0].text, "%!", "%s: %s", c.check, c.because)
		}
	}
	for _, k := range checks {
		assert.True(t, tested[k.name], "no verdict of %q is tested", k.name)
	}
}

func TestWhatIsThereAlreadyIsNotAnObstacle(t *testing.T) {
	a := fresh()
	a.stacks["agents-x-data"], a.stacks["agents-x-service"] = "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"
	a.vpcs, a.left = 5, []string{"the bucket agents-x-data-1"} // its own
	a.stage.Workers, a.stage.Chats, a.stage.Requests, a.stage.Concurrency = 50, 20, 20, 1000
	a.unreserved = 700 // the stage's reserved parts
	for _, k := range checks {
		assert.Empty(t, k.evaluate(a), k.name)
	}
}

func TestZonesThatCloudFrontDoesNotReachAreLeftOut(t *testing.T) {
	a := fresh()
	a.region = "us-east-1"
	a.zones = []zone{{"us-east-1a", "use1-az3"}, {"us-east-1b", "use1-az1"}, {"us-east-1c", "use1-az2"}}
	assert.Equal(t, []string{"us-east-1b", "us-east-1c"}, a.choice())
	a.kept = []string{"us-east-1c", "us-east-1d"}
	assert.Equal(t, a.kept, a.choice(), "a network keeps its zones")
}

func TestWhatMayNotBeAskedIsAWarning(t *testing.T) {
	for _, k := range checks {
		found := unanswered(k, &smithy.GenericAPIError{Code: "AccessDeniedException"})
		require.Len(t, found, 1)
		assert.Equal(t, k.name == identityCheck, found[0].fatal, k.name)
		if !found[0].fatal {
			assert.Contains(t, found[0].text, "may not call "+k.asks)
		}
		assert.Contains(t, unanswered(k, errors.New("a\nb"))[0].text, "a b", "one line")
	}
}

func TestEveryQuotaCanBeRaised(t *testing.T) {
	for _, key := range slices.Sorted(maps.Keys(quotas)) {
		assert.Contains(t, raise(key, 7), quotas[key].service)
		assert.Contains(t, raise(key, 7), "7")
	}
}

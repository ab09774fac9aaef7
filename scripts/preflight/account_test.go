package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stage"
)

// services implements the used operations of AWS, as the SDK's own deserializers read them. None of it has been tried
// against AWS. It answers by the action. Each protocol has the action in another place: in a header, in the form, or in
// the path.
type services struct {
	t       *testing.T
	answers map[string]string
	denies  map[string]bool
	actions []string
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	assert.NoError(s.t, err)
	assert.Contains(s.t, r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key/", "it is signed")
	kind, action := "rest", r.Method+" "+r.URL.EscapedPath()
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		kind, action = "json", target[strings.LastIndex(target, ".")+1:]
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	} else if _, form, found := strings.Cut(string(body), "Action="); found {
		kind = "query"
		action, _, _ = strings.Cut(form, "&")
	} else if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/2020-05-31/") { // S3 and CloudFront
		kind = "xml"
	}
	s.actions = append(s.actions, action)
	key := action
	for name := range s.answers { // in some cases the parameters matter, too
		if of, what, found := strings.Cut(name, "?"); found && of == action && strings.Contains(string(body), what) {
			key = name
		}
	}
	answer, known := s.answers[key]
	refuse := func(status int, code string) {
		if kind == "rest" {
			w.Header().Set("X-Amzn-ErrorType", code+":http://internal.amazon.com/")
		}
		w.WriteHeader(status)
		switch kind {
		case "json":
			_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws#%s","message":"no"}`, code)
		case "query":
			form := `<ErrorResponse><Error><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`
			if strings.Contains(string(body), "2016-11-15") {
				form = `<Response><Errors><Error><Code>%s</Code><Message>no</Message></Error></Errors></Response>`
			}
			_, _ = fmt.Fprintf(w, form, code)
		case "xml":
			_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, code)
		default:
			_, _ = fmt.Fprint(w, `{"message":"no"}`)
		}
	}
	switch {
	case s.denies[action]:
		refuse(http.StatusForbidden, "AccessDeniedException")
	case !known:
		s.t.Errorf("nobody expected %s: %s", key, body)
		refuse(http.StatusBadRequest, "Unexpected")
	case strings.HasPrefix(answer, "!"):
		refuse(http.StatusBadRequest, answer[1:])
	default:
		_, _ = io.WriteString(w, answer)
	}
}

func accountOn(t *testing.T, s *services) *account {
	t.Helper()
	s.t = t
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &account{aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	}}
}

func quotaAnswer(value float64) string { return fmt.Sprintf(`{"Quota":{"Value":%f}}`, value) }

// ready returns an account in which the stage deploys, with a few warnings.
func ready() *services {
	return &services{denies: map[string]bool{}, answers: map[string]string{
		"GetCallerIdentity": `<GetCallerIdentityResponse><GetCallerIdentityResult>
			<Arn>arn:aws:iam::123456789012:user/a</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>`,
		"DescribeStacks": "!ValidationError",
		"DescribeStacks?agents-x-data": `<DescribeStacksResponse><DescribeStacksResult><Stacks><member>
			<StackName>agents-x-data</StackName><StackStatus>UPDATE_COMPLETE</StackStatus>
			<CreationTime>2026-01-01T00:00:00Z</CreationTime></member></Stacks></DescribeStacksResult>
			</DescribeStacksResponse>`,
		"GET /": `<ListAllMyBucketsResult><Buckets><Bucket><Name>agents-x-data-blobs1</Name></Bucket></Buckets>
			</ListAllMyBucketsResult>`,
		"ListTables": `{"TableNames":["agents-x-data-Core1","agents-y-data-Core1"]}`,
		"DescribeAvailabilityZones": `<DescribeAvailabilityZonesResponse><availabilityZoneInfo>
			<item><zoneName>us-east-1b</zoneName><zoneId>use1-az1</zoneId></item>
			<item><zoneName>us-east-1a</zoneName><zoneId>use1-az3</zoneId></item>
			<item><zoneName>us-east-1c</zoneName><zoneId>use1-az2</zoneId></item>
			</availabilityZoneInfo></DescribeAvailabilityZonesResponse>`,
		"DescribeSubnets": `<DescribeSubnetsResponse><subnetSet></subnetSet></DescribeSubnetsResponse>`,
		"DescribeManagedPrefixLists": `<DescribeManagedPrefixListsResponse><prefixListSet><item>
			<prefixListId>pl-3b927c52</prefixListId></item></prefixListSet></DescribeManagedPrefixListsResponse>`,
		"DescribeVpcs": `<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId></item>
			<item><vpcId>vpc-2</vpcId></item>			</vpcSet></DescribeVpcsResponse>`,
		"GET /2020-05-31/distribution": `<DistributionList><Quantity>1</Quantity></DistributionList>`,
		"DescribeCertificate": `{"Certificate":{"Status":"ISSUED",
			"SubjectAlternativeNames":["agents.example.com"]}}`,
		"GET /2016-08-19/account-settings": `{"AccountLimit":{"ConcurrentExecutions":1000,
			"UnreservedConcurrentExecutions":900}}`,
		"GetServiceQuota":                      quotaAnswer(60),
		"GetServiceQuota?L-8A5B8E43":           "!NoSuchResourceException",
		"GetAWSDefaultServiceQuota?L-8A5B8E43": quotaAnswer(10_000),
		"GetServiceQuota?L-CDF5615A":           quotaAnswer(5000),
		"ListServiceQuotas": `{"Quotas":[{"QuotaName":"StartExecution throttle token refill rate per second",
			"Value":300}]}`,
		"GET /inference-profiles/us.anthropic.claude-x-v1%3A0": `{"models":[
			{"modelArn":"arn:aws:bedrock:us-east-2::foundation-model/anthropic.claude-x-v1:0"}]}`,
		"GET /foundation-model-availability/anthropic.claude-x-v1%3A0": `{"agreementAvailability":{
			"status":"NOT_AVAILABLE"},"authorizationStatus":"AUTHORIZED","entitlementAvailability":"AVAILABLE",
			"regionAvailability":"NOT_AVAILABLE"}`,
		"GET /foundation-model-availability/amazon.titan-embed-text-v2%3A0": `{"agreementAvailability":{
			"status":"AVAILABLE"},"authorizationStatus":"AUTHORIZED","entitlementAvailability":"AVAILABLE",
			"regionAvailability":"AVAILABLE"}`,
		"ListSubscriptions": `<ListSubscriptionsResponse><ListSubscriptionsResult><Subscriptions><member>
			<Endpoint>A@example.com</Endpoint><SubscriptionArn>PendingConfirmation</SubscriptionArn>
			<TopicArn>arn:aws:sns:us-east-1:123456789012:agents-x-service-Alarms1</TopicArn></member></Subscriptions>
			</ListSubscriptionsResult></ListSubscriptionsResponse>`,
		"ListCostAllocationTags": `{"CostAllocationTags":[
			{"TagKey":"stage","Type":"UserDefined","Status":"Inactive"}]}`,
	}}
}

func staged() stage.Stage {
	return stage.Stage{Name: "x", AlarmEmail: "a@example.com", BudgetUSD: 50, Workers: 50, Senders: 20, Ingesters: 5,
		StreamTasks: 1, Rate: 200, Burst: 100, WarmWrites: 50, WarmReads: 50, AddressRate: 100,
		Domain: "agents.example.com", Certificate: "arn:aws:acm:us-east-1:123456789012:certificate/1",
		Settings: map[string]string{"BEDROCK_MODELS": "us.anthropic.claude-x-v1:0",
			"EMBEDDING_MODELS": "builtin, bedrock/amazon.titan-embed-text-v2:0:512"}}
}

func TestAnAccountIsAsked(t *testing.T) {
	s, out := ready(), &bytes.Buffer{}
	a, fatal := runChecks(t.Context(), out, accountOn(t, s), staged())
	assert.Zero(t, fatal, out)
	for _, sentence := range []string{
		"ok    credentials\n", "ok    zones\n", "ok    CloudFront's prefix list\n", "ok    " +
			"VPCs\n",
		"ok    CloudFront\n", "ok    certificate\n", "ok    Lambda's concurrency\n", "ok    API Gateway's throttle\n",
		"ok    DynamoDB's throughput\n", "ok    Fargate's CPUs\n", "ok    Step Functions\n",
		"warn  models of Bedrock: the terms of us.anthropic.claude-x-v1:0 are not accepted",
		"warn  mail of alarms: a@example.com has not confirmed",
		"warn  budget: the tag stage is not active",
	} {
		assert.Contains(t, out.String(), sentence)
	}
	assert.Equal(t, []string{"the bucket agents-x-data-blobs1", "the table agents-x-data-Core1"}, a.left)
	assert.Equal(t, 10_000.0, a.quotas["requests"], "the default, where the account has no value of its own")
	a.commit, a.dirty = "abc", false // the tree's own
	f, known := a.facts()
	assert.True(t, known)
	got, err := json.Marshal(f)
	require.NoError(t, err)
	assert.JSONEq(t, `{"stage":"x","commit":"abc","before":"","originPrefixList":"pl-3b927c52",
		"zones":["us-east-1b","us-east-1c"],"edge":true}`, string(got))
}

func TestTheDeployedCommitIsAsked(t *testing.T) {
	s := ready()
	s.answers["DescribeStacks?agents-x-service"] = `<DescribeStacksResponse><DescribeStacksResult><Stacks><member>
		<StackName>agents-x-service</StackName><StackStatus>UPDATE_COMPLETE</StackStatus>
		<CreationTime>2026-01-01T00:00:00Z</CreationTime><Outputs><member><OutputKey>Commit</OutputKey>
		<OutputValue>c0ffee</OutputValue></member></Outputs></member></Stacks></DescribeStacksResult>
		</DescribeStacksResponse>`
	a := &answers{stage: staged(), region: "us-east-1", stacks: map[string]string{}, outputs: map[string]string{}}
	require.NoError(t, accountOn(t, s).askStacks(t.Context(), a))
	assert.Equal(t, map[string]string{"Commit": "c0ffee"}, a.outputs)
}

func TestWhereNothingMayBeAskedButWhoOneIs(t *testing.T) {
	s, out := ready(), &bytes.Buffer{}
	for name := range s.answers {
		action, _, _ := strings.Cut(name, "?")
		s.denies[action] = action != "GetCallerIdentity"
	}
	a, fatal := runChecks(t.Context(), out, accountOn(t, s), staged())
	assert.Zero(t, fatal, out)
	assert.Equal(t, len(checks)-2, strings.Count(out.String(), "could not be checked: these credentials may not "+
		"call"), out)
	_, known := a.facts()
	assert.False(t, known, "and nothing can be deployed")
}

func TestWithoutCredentialsNothingElseIsAsked(t *testing.T) {
	s, out := ready(), &bytes.Buffer{}
	s.denies["GetCallerIdentity"] = true
	_, fatal := runChecks(t.Context(), out, accountOn(t, s), staged())
	assert.Equal(t, 1, fatal)
	assert.Equal(t, []string{"GetCallerIdentity"}, s.actions)
	assert.Contains(t, out.String(), "FAIL  credentials: AWS credentials do not work")
}

func TestWhatIsNotThereIsAnAnswer(t *testing.T) {
	s, out := ready(), &bytes.Buffer{}
	s.answers["DescribeCertificate"] = "!ResourceNotFoundException"
	s.answers["GET /inference-profiles/us.anthropic.claude-x-v1%3A0"] = "!ResourceNotFoundException"
	_, fatal := runChecks(t.Context(), out, accountOn(t, s), staged())
	assert.Equal(t, 1, fatal, out)
	assert.Contains(t, out.String(), "the certificate")
	assert.Contains(t, out.String(), "us.anthropic.claude-x-v1:0 is not a model")
}

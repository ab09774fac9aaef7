package main

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentplatform/infra/stage"
)

const identityCheck = "credentials"

// The parts of the stacks that count against quotas.
const (
	listWeight    = 55 // rules that CloudFront's list counts as in a security group, with any content
	taskCPUs      = 1  // virtual CPUs of a container, at most (infra/stacks/front.go, workers.go)
	minUnreserved = 100
	edgeRegion    = "us-east-1" // CloudFront's own resources have to be there
)

// checks has all checks, in the order in which they are printed.
var checks = []check{
	{identityCheck, "sts:GetCallerIdentity", nil, (*account).askIdentity, evaluateIdentity},
	{"commit", "git", nil, (*account).askCommit, evaluateCommit},
	{"stacks", "cloudformation:DescribeStacks", nil, (*account).askStacks, evaluateStacks},
	{"leftovers", "s3:ListAllMyBuckets, dynamodb:ListTables", nil, (*account).askLeft, evaluateLeft},
	{"zones", "ec2:DescribeAvailabilityZones, ec2:DescribeSubnets", nil, (*account).askZones, evaluateZones},
	{"CloudFront's prefix list", "ec2:DescribeManagedPrefixLists, servicequotas:GetServiceQuota", nil,
		(*account).askList, evaluateList},
	{"VPCs", "ec2:DescribeVpcs, servicequotas:GetServiceQuota", nil, (*account).askVPCs, evaluateVPCs},
	{"CloudFront", "cloudfront:ListDistributions", nil, (*account).askDistributions, evaluateDistributions},
	{"certificate", "acm:DescribeCertificate", func(s stage.Stage) bool { return s.Domain != "" },
		(*account).askCertificate, evaluateCertificate},
	{"Lambda's concurrency", "lambda:GetAccountSettings", nil, (*account).askConcurrency, evaluateConcurrency},
	{"API Gateway's throttle", "servicequotas:GetServiceQuota", nil,
		asksQuotas("requests", "burst"), evaluateThrottle},
	{"DynamoDB's throughput", "servicequotas:GetServiceQuota",
		func(s stage.Stage) bool { return s.WarmWrites > 0 || s.WarmReads > 0 },
		asksQuotas("writes", "reads"), evaluateThroughput},
	{"Fargate's CPUs", "servicequotas:GetServiceQuota", nil, asksQuotas("cpus"), evaluateCPUs},
	{"Step Functions", "servicequotas:ListServiceQuotas", nil, asksQuotas("pauses"), evaluatePauses},
	{"models of Bedrock", "bedrock:GetFoundationModelAvailability, bedrock:GetInferenceProfile",
		func(s stage.Stage) bool { return len(modelsOf(s)) > 0 }, (*account).askModels, evaluateModels},
	{"mail of alarms", "sns:ListSubscriptions", nil, (*account).askSubscriptions, evaluateSubscriptions},
	{"budget", "ce:ListCostAllocationTags", func(s stage.Stage) bool { return s.BudgetUSD > 0 },
		(*account).askTag, evaluateTag},
}

// quotas has the quotas that are requested from Service Quotas, by its codes or, where there is no reliable one, by
// name. The codes are those of the documentation of each service's quotas.
var quotas = map[string]struct{ service, code, name string }{
	"requests": {"apigateway", "L-8A5B8E43", ""},
	"burst":    {"apigateway", "L-CDF5615A", ""},
	"writes":   {"dynamodb", "L-AB614373", ""},
	"reads":    {"dynamodb", "L-CF0CBE56", ""},
	"cpus":     {"fargate", "L-3032A538", ""},
	"vpcs":     {"vpc", "L-F678F1CE", ""},
	"rules":    {"vpc", "L-0EA8095F", ""},
	"pauses":   {"states", "", "StartExecution throttle token refill rate per second"},
}

// raise returns the way to raise a quota.
func raise(key string, to int) string {
	q := quotas[key]
	if q.code == "" {
		return fmt.Sprintf("ask for %d: Service Quotas, %s, %q", to, q.service, q.name)
	}
	return fmt.Sprintf("ask for more: aws service-quotas request-service-quota-increase --service-code %s "+
		"--quota-code %s --desired-value %d", q.service, q.code, to)
}

func evaluateIdentity(a *answers) []finding {
	if a.region == "" {
		return fails("no Region is set; choose one: export AWS_REGION=eu-central-1")
	}
	return nil
}

func evaluateCommit(a *answers) []finding {
	switch {
	case !a.dirty:
		return nil
	case a.stage.Precious:
		return fails("the tree has uncommitted changes, and %s is precious: commit them, so that the deployed version "+
			"can be found again and rolled back", a.stage.Name)
	default:
		return warns("the tree has uncommitted changes: commit them to keep the deployed version")
	}
}

// evaluateStacks warns of failed stacks. The CDK itself deletes a stack whose creation was rolled back, unless it is
// protected.
func evaluateStacks(a *answers) (found []finding) {
	for _, name := range slices.Sorted(maps.Keys(a.stacks)) {
		status := a.stacks[name]
		switch {
		case status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED" || status == "CREATE_FAILED":
			if !a.stage.Precious {
				found = append(found, warns("%s failed when it was made (%s); the deploy deletes it first, and what "+
					"it retained stays", name, status)...)
				continue
			}
			found = append(found, fails("%s failed when it was made (%s), and is protected: aws cloudformation "+
				"update-termination-protection --no-enable-termination-protection --stack-name %s, then aws "+
				"cloudformation delete-stack --stack-name %s", name, status, name, name)...)
		case status == "DELETE_FAILED":
			found = append(found, fails("%s could not be deleted, and nothing can be deployed over it: its events say "+
				"why (aws cloudformation describe-stack-events --stack-name %s); then aws cloudformation delete-stack "+
				"--stack-name %s", name, name, name)...)
		case status == "UPDATE_ROLLBACK_FAILED":
			found = append(found, fails("%s could not be rolled back and takes no update: aws cloudformation "+
				"continue-update-rollback --stack-name %s", name, name)...)
		case strings.HasSuffix(status, "_IN_PROGRESS") && status != "REVIEW_IN_PROGRESS":
			found = append(found, fails("%s is %s: another deploy is running; wait for its end", name,
				status)...)
		}
	}
	return found
}

func evaluateLeft(a *answers) []finding {
	if a.deployed("data") || len(a.left) == 0 {
		return nil
	}
	return warns("an earlier life of the stage left %s: the new one has its own and does not use them, and they cost; "+
		"infra/README.md, Deleting a stage, has the commands", strings.Join(a.left, ", "))
}

func evaluateZones(a *answers) []finding {
	if _, known := noOrigins[a.region]; !known {
		return fails("CloudFront reaches no load balancer inside a VPC in %s, so streams cannot be served from there; "+
			"choose another Region (%s)", a.region, originsPage)
	}
	if len(a.choice()) < 2 {
		return fails("of the zones that this account has in %s fewer than two are admitted for VPC origins of "+
			"CloudFront (all but %s); choose another Region", a.region, strings.Join(noOrigins[a.region], ", "))
	}
	if len(a.kept) > 0 {
		for _, name := range a.kept {
			if !slices.Contains(a.admitted(), name) {
				return warns("the network of the stage is in %s, where CloudFront admits no VPC origins: streams may "+
					"not work; destroy the service stack and deploy it again", name)
			}
		}
	}
	return nil
}

func evaluateList(a *answers) []finding {
	weight := max(listWeight, a.list.entries)
	if a.list.id == "" {
		return fails("%s has no prefix list %s, so CloudFront cannot be let in to the load balancer; choose another "+
			"Region", a.region, originList)
	}
	if rules := a.quotas["rules"]; int(rules) < weight+1 {
		return fails("CloudFront's prefix list counts as %d rules, and a security group may have %.0f; %s",
			weight, rules,
			raise("rules", weight+5))
	}
	return nil
}

func evaluateVPCs(a *answers) []finding {
	if a.deployed("service") || a.vpcs < int(a.quotas["vpcs"]) {
		return nil
	}
	return fails("%s has %d VPCs, which is all that the account may have, and the stage needs one; delete one, or %s",
		a.region, a.vpcs, raise("vpcs", a.vpcs+5))
}

// evaluateDistributions can only warn, because no call returns whether an account is verified.
func evaluateDistributions(a *answers) []finding {
	if a.distributions > 0 {
		return nil
	}
	return warns("the account has no distribution yet; should the service stack fail with \"Your account must be " +
		"verified before you can add new CloudFront resources\", open a case with AWS Support (account and billing, " +
		"no plan needed), quote that message, and deploy again")
}

func evaluateCertificate(a *answers) []finding {
	c := a.certificate
	switch {
	case !c.found:
		return fails("the certificate %s does not exist; request one in us-east-1: aws acm request-certificate "+
			"--region us-east-1 --validation-method DNS --domain-name %s", a.stage.Certificate, a.stage.Domain)
	case c.status != "ISSUED":
		return fails("the certificate is %s, and CloudFront takes it once it is ISSUED: add the record that aws acm "+
			"describe-certificate --region us-east-1 --certificate-arn %s shows to the domain's DNS", c.status,
			a.stage.Certificate)
	case (&x509.Certificate{DNSNames: c.names}).VerifyHostname(a.stage.Domain) != nil:
		return fails("the certificate is for %s, and not for %s", strings.Join(c.names, ", "), a.stage.Domain)
	}
	return nil
}

func evaluateConcurrency(a *answers) []finding {
	parts := 0
	for _, n := range a.stage.Reserved() {
		parts += n
	}
	s := a.stage
	wants := s.Workers + s.Senders + s.Ingesters + s.Jobs
	more := fmt.Sprintf("ask for more: aws service-quotas request-service-quota-increase --service-code lambda "+
		"--quota-code L-B99A9384 --desired-value %d", max(1000, s.Concurrency))
	switch {
	case parts > 0 && parts+minUnreserved > a.concurrency:
		return fails("the account may run %d functions at once; the parts of this stage are %d, and Lambda keeps %d "+
			"for others; %s, or set Concurrency to 0", a.concurrency, parts, minUnreserved, more)
	case parts > 0 && !a.deployed("service") && parts+minUnreserved > a.unreserved:
		return fails("of %d functions at once others have reserved %d; what is left is too little for the parts of "+
			"this stage, %d, and the %d that Lambda keeps; %s", a.concurrency, a.concurrency-a.unreserved, parts,
			minUnreserved, more)
	case s.Concurrency > a.concurrency:
		return warns("the stage counts on %d functions at once, and the account may run %d; %s", s.Concurrency,
			a.concurrency, more)
	case parts == 0 && a.concurrency < wants:
		return warns("the account may run %d functions at once; %d workers, senders, ingesters and jobs want "+
			"more, and what is beyond waits or answers 5xx; %s", a.concurrency, wants, more)
	}
	return nil
}

func evaluateThrottle(a *answers) (found []finding) {
	if rate := a.quotas["requests"]; rate < float64(a.stage.Rate) {
		found = append(found, warns("the stage is to take %d requests a second, and API Gateway gives the whole "+
			"account %.0f; beyond them clients get 429; %s", a.stage.Rate, rate, raise("requests", a.stage.Rate))...)
	}
	if burst := a.quotas["burst"]; burst < float64(a.stage.Burst) {
		found = append(found, warns("the stage is to take a burst of %d requests, and API Gateway gives the whole "+
			"account "+
			"%.0f, which AWS sets by the rate; lower Burst, or ask for a higher rate", a.stage.Burst, burst)...)
	}
	return found
}

func evaluateThroughput(a *answers) (found []finding) {
	for _, w := range []struct {
		field, key string
		units      int
	}{{"WarmWrites", "writes", a.stage.WarmWrites}, {"WarmReads", "reads", a.stage.WarmReads}} {
		if q := a.quotas[w.key]; float64(w.units) > q {
			found = append(found, fails("%s is %d units a second, and a table may have %.0f; lower it, or %s", w.field,
				w.units, q, raise(w.key, w.units))...)
		}
	}
	return found
}

// evaluateCPUs counts old and new tasks, because a deploy starts new tasks before it stops the old ones.
func evaluateCPUs(a *answers) []finding {
	tasks := a.stage.StreamTasks + a.stage.WorkerTasks
	q, need := a.quotas["cpus"], tasks*taskCPUs
	switch {
	case q < float64(need):
		return fails("%d containers need %d virtual CPUs on Fargate, and the account may have %.0f; %s",
			tasks, need, q, raise("cpus", 2*need+4))
	case q < float64(2*need):
		return warns("a deploy has up to %d containers, old and new, and the account may have %.0f virtual CPUs on "+
			"Fargate: it takes longer; %s", 2*tasks, q, raise("cpus", 2*need+4))
	}
	return nil
}

// evaluatePauses assumes runs of ten seconds that all pause once.
func evaluatePauses(a *answers) []finding {
	if q, want := a.quotas["pauses"], a.stage.Workers/10; q < float64(want) {
		return warns("Step Functions begins %.0f waits a second, and %d workers may begin %d; what is beyond is "+
			"ended by the sweeper, up to a minute late; %s", q, a.stage.Workers, want, raise("pauses", want))
	}
	return nil
}

// evaluateModels only warns. The stacks deploy without a model, and its runs fail.
func evaluateModels(a *answers) (found []finding) {
	for _, name := range slices.Sorted(maps.Keys(a.models)) {
		m := a.models[name]
		switch {
		case !m.known:
			found = append(found, warns("%s is not a model or inference profile of Bedrock in %s; aws bedrock "+
				"list-foundation-models and aws bedrock list-inference-profiles list them", name, a.region)...)
		case !m.profile && m.region == "NOT_AVAILABLE":
			found = append(found, warns("%s is not in %s; name an inference profile (aws bedrock "+
				"list-inference-profiles), or another Region's model", name, a.region)...)
		case m.agreement != "" && m.agreement != "AVAILABLE":
			found = append(found, warns("the terms of %s are not accepted (%s): open it once in the console of "+
				"Bedrock, as somebody with aws-marketplace:Subscribe; runs with it fail until then", name,
				strings.ToLower(m.agreement))...)
		case m.entitlement == "NOT_AVAILABLE" || m.authorized == "NOT_AUTHORIZED":
			found = append(found, warns("the account may not use %s: ask for access in the console of Bedrock; runs "+
				"with it fail until then", name)...)
		}
	}
	return found
}

func evaluateSubscriptions(a *answers) []finding {
	if a.stage.AlarmEmail == "" {
		return warns("the stage has no AlarmEmail: its alarms appear only in the console, and it has no budget")
	}
	topic := ":agents-" + a.stage.Name + "-service-"
	for _, s := range a.subscriptions {
		switch {
		case !strings.Contains(s.topic, topic):
		case s.state == "PendingConfirmation":
			return warns("%s has not confirmed that it wants the alarms, so none reaches it: the mail has the subject "+
				"\"AWS Notification - Subscription Confirmation\"; where it is gone, aws sns subscribe --topic-arn %s "+
				"--protocol email --notification-endpoint %s sends another", a.stage.AlarmEmail, s.topic,
				a.stage.AlarmEmail)
		default:
			return nil
		}
	}
	if a.deployed("service") {
		return warns("%s is no longer subscribed to the alarms (a link in each mail ends the subscription): "+
			"aws sns subscribe --protocol email --notification-endpoint %s --topic-arn TOPIC", a.stage.AlarmEmail,
			a.stage.AlarmEmail)
	}
	return warns("AWS will send a mail to %s during the deploy: no alarm reaches anybody until the link in it is "+
		"followed",
		a.stage.AlarmEmail)
}

func evaluateTag(a *answers) []finding {
	switch {
	case a.stage.AlarmEmail == "":
		return nil // there is no budget
	case a.tag == "Active":
		return nil
	case a.tag == "":
		return warns("Billing does not know the tag stage yet, so the budget reads $0: up to 24 hours after the " +
			"first deploy it can be made active (Billing, Cost allocation tags, in the account that pays)")
	default:
		return warns("the tag stage is not active in Billing, so the budget reads $0: aws ce " +
			"update-cost-allocation-tags-status --cost-allocation-tags-status TagKey=stage,Status=Active, in the " +
			"account that pays; it takes up to 24 hours")
	}
}

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"agentplatform/infra/stage"
	"agentplatform/internal/ai/embedding"
)

// account sends the requests to an account of AWS.
type account struct{ config aws.Config }

// in returns the account's configuration in a Region.
func (c *account) in(region string) aws.Config {
	there := c.config.Copy()
	there.Region = region
	return there
}

func (c *account) askIdentity(ctx context.Context, a *answers) error {
	if a.region == "" {
		return nil // judge reports it
	}
	_, err := sts.NewFromConfig(c.config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	return err
}

func (c *account) askCommit(ctx context.Context, a *answers) error {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return err
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	if err != nil {
		return err
	}
	a.commit, a.dirty = strings.TrimSpace(string(head)), len(changes) > 0
	return nil
}

// regions returns the Regions in which the stage has stacks, with the names of these.
func (a *answers) regions() map[string][]string {
	all := map[string][]string{a.region: {"data", "service"}}
	if a.stage.AddressRate > 0 {
		all[edgeRegion] = append(all[edgeRegion], "edge")
	}
	return all
}

func (c *account) askStacks(ctx context.Context, a *answers) error {
	for region, names := range a.regions() {
		client := cloudformation.NewFromConfig(c.in(region))
		for _, name := range names {
			name = "agents-" + a.stage.Name + "-" + name
			out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
			if code(err) == "ValidationError" {
				continue // there is none
			}
			if err != nil {
				return err
			}
			for _, s := range out.Stacks {
				a.stacks[name] = string(s.StackStatus)
				for _, o := range s.Outputs {
					a.outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
				}
			}
		}
	}
	return nil
}

func (c *account) askLeft(ctx context.Context, a *answers) error {
	prefix := "agents-" + a.stage.Name + "-data-"
	client := s3.NewFromConfig(c.config, func(o *s3.Options) { o.UsePathStyle = c.config.BaseEndpoint != nil })
	buckets, err := client.ListBuckets(ctx, &s3.ListBucketsInput{Prefix: &prefix})
	if err != nil {
		return err
	}
	for _, b := range buckets.Buckets {
		if name := aws.ToString(b.Name); strings.HasPrefix(name, prefix) {
			a.left = append(a.left, "the bucket "+name)
		}
	}
	// the names are in no defined order
	pages := dynamodb.NewListTablesPaginator(dynamodb.NewFromConfig(c.config), &dynamodb.ListTablesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, name := range page.TableNames {
			if strings.HasPrefix(name, prefix) {
				a.left = append(a.left, "the table "+name)
			}
		}
	}
	return nil
}

func (c *account) askZones(ctx context.Context, a *answers) error {
	var out struct {
		Zones []struct {
			Name string `xml:"zoneName"`
			ID   string `xml:"zoneId"`
		} `xml:"availabilityZoneInfo>item"`
	}
	if err := c.ec2(ctx, "DescribeAvailabilityZones", &out, "zone-type", "availability-zone", "state",
		"available"); err != nil {
		return err
	}
	for _, z := range out.Zones {
		a.zones = append(a.zones, zone{z.Name, z.ID})
	}
	var subnets struct {
		Zones []string `xml:"subnetSet>item>availabilityZone"`
	}
	if err := c.ec2(ctx, "DescribeSubnets", &subnets, "tag:aws:cloudformation:stack-name",
		"agents-"+a.stage.Name+"-service"); err != nil {
		return err
	}
	slices.Sort(subnets.Zones)
	a.kept = slices.Compact(subnets.Zones)
	return nil
}

func (c *account) askList(ctx context.Context, a *answers) error {
	var out struct {
		Lists []struct {
			ID      string `xml:"prefixListId"`
			Entries int    `xml:"maxEntries"`
		} `xml:"prefixListSet>item"`
	}
	if err := c.ec2(ctx, "DescribeManagedPrefixLists", &out, "prefix-list-name", originList); err != nil {
		return err
	}
	for _, l := range out.Lists {
		a.list = prefixList{l.ID, l.Entries}
	}
	return c.quota(ctx, a, "rules")
}

func (c *account) askVPCs(ctx context.Context, a *answers) error {
	var out struct {
		VPCs []string `xml:"vpcSet>item>vpcId"`
	}
	if err := c.ec2(ctx, "DescribeVpcs", &out); err != nil {
		return err
	}
	a.vpcs = len(out.VPCs)
	return c.quota(ctx, a, "vpcs")
}

func (c *account) askDistributions(ctx context.Context, a *answers) error {
	var out struct{ Quantity int }
	err := c.raw(ctx, request{service: "cloudfront", region: edgeRegion, method: http.MethodGet,
		path: "/2020-05-31/distribution", query: url.Values{"MaxItems": {"1"}}}, &out)
	a.distributions = out.Quantity
	return err
}

func (c *account) askCertificate(ctx context.Context, a *answers) error {
	out, err := acm.NewFromConfig(c.in(edgeRegion)).DescribeCertificate(ctx,
		&acm.DescribeCertificateInput{CertificateArn: &a.stage.Certificate})
	if code(err) == "ResourceNotFoundException" {
		return nil
	}
	if err != nil {
		return err
	}
	a.certificate = certificate{true, string(out.Certificate.Status), out.Certificate.SubjectAlternativeNames}
	return nil
}

func (c *account) askConcurrency(ctx context.Context, a *answers) error {
	out, err := lambda.NewFromConfig(c.config).GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return err
	}
	if out.AccountLimit == nil {
		return errors.New("Lambda returned no limit") //nolint:staticcheck // a name
	}
	a.concurrency = int(out.AccountLimit.ConcurrentExecutions)
	a.unreserved = int(aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions))
	return nil
}

// asksQuotas returns a function that requests quotas by their keys.
func asksQuotas(keys ...string) func(*account, context.Context, *answers) error {
	return func(c *account, ctx context.Context, a *answers) error {
		for _, key := range keys {
			if err := c.quota(ctx, a, key); err != nil {
				return err
			}
		}
		return nil
	}
}

// quota requests the value that applies to the account, or the default if the account has none of its own.
func (c *account) quota(ctx context.Context, a *answers, key string) error {
	q, client := quotas[key], servicequotas.NewFromConfig(c.config)
	if q.code == "" {
		return c.quotaNamed(ctx, a, key)
	}
	out, err := client.GetServiceQuota(ctx,
		&servicequotas.GetServiceQuotaInput{ServiceCode: &q.service, QuotaCode: &q.code})
	if err == nil {
		a.quotas[key] = aws.ToFloat64(out.Quota.Value)
		return nil
	}
	if code(err) != "NoSuchResourceException" {
		return err
	}
	standard, err := client.GetAWSDefaultServiceQuota(ctx,
		&servicequotas.GetAWSDefaultServiceQuotaInput{ServiceCode: &q.service, QuotaCode: &q.code})
	if err != nil {
		return err
	}
	a.quotas[key] = aws.ToFloat64(standard.Quota.Value)
	return nil
}

// quotaNamed searches a quota in the list of its service.
func (c *account) quotaNamed(ctx context.Context, a *answers, key string) error {
	q := quotas[key]
	pages := servicequotas.NewListServiceQuotasPaginator(servicequotas.NewFromConfig(c.config),
		&servicequotas.ListServiceQuotasInput{ServiceCode: &q.service})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, one := range page.Quotas {
			if aws.ToString(one.QuotaName) == q.name {
				a.quotas[key] = aws.ToFloat64(one.Value)
				return nil
			}
		}
	}
	return errors.New("Service Quotas does not list " + q.name) //nolint:staticcheck // a name
}

// modelsOf returns the models of Bedrock in a stage's settings.
func modelsOf(s stage.Stage) []string {
	var names []string
	for name := range strings.SplitSeq(s.Settings["BEDROCK_MODELS"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	for name := range strings.SplitSeq(s.Settings["EMBEDDING_MODELS"], ",") {
		if n, err := embedding.ParseName(strings.TrimSpace(name), []string{"bedrock"}); err == nil {
			names = append(names, n.Name)
		}
	}
	return names
}

func (c *account) askModels(ctx context.Context, a *answers) error {
	for _, name := range modelsOf(a.stage) {
		m := model{}
		id := name
		at, behind, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "arn:") || stage.IsGeography(at) {
			var profile struct {
				Models []struct {
					ARN string `json:"modelArn"`
				} `json:"models"`
			}
			err := c.bedrock(ctx, "/inference-profiles/%s", name, &profile)
			if known := code(err); known == "ResourceNotFoundException" || known == "ValidationException" {
				a.models[name] = m
				continue
			}
			if err != nil {
				return err
			}
			m.known, m.profile, id = true, true, behind
			if len(profile.Models) > 0 {
				id = profile.Models[0].ARN[strings.LastIndex(profile.Models[0].ARN, "/")+1:]
			}
		}
		var out struct {
			Agreement   struct{ Status string } `json:"agreementAvailability"`
			Authorized  string                  `json:"authorizationStatus"`
			Entitlement string                  `json:"entitlementAvailability"`
			Region      string                  `json:"regionAvailability"`
		}
		err := c.bedrock(ctx, "/foundation-model-availability/%s", id, &out)
		switch known := code(err); {
		case known == "ResourceNotFoundException" || known == "ValidationException":
		case err != nil:
			return err
		default:
			m = model{true, m.profile, out.Region, out.Entitlement, out.Agreement.Status, out.Authorized}
		}
		a.models[name] = m
	}
	return nil
}

func (c *account) askSubscriptions(ctx context.Context, a *answers) error {
	if a.stage.AlarmEmail == "" {
		return nil
	}
	pages := sns.NewListSubscriptionsPaginator(sns.NewFromConfig(c.config), &sns.ListSubscriptionsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, s := range page.Subscriptions {
			if strings.EqualFold(aws.ToString(s.Endpoint), a.stage.AlarmEmail) {
				a.subscriptions = append(a.subscriptions,
					subscription{aws.ToString(s.TopicArn), aws.ToString(s.SubscriptionArn)})
			}
		}
	}
	return nil
}

func (c *account) askTag(ctx context.Context, a *answers) error {
	out, err := costexplorer.NewFromConfig(c.in(edgeRegion)).ListCostAllocationTags(ctx,
		&costexplorer.ListCostAllocationTagsInput{TagKeys: []string{"stage"}})
	if err != nil {
		return err
	}
	for _, t := range out.CostAllocationTags {
		if aws.ToString(t.TagKey) == "stage" {
			a.tag = string(t.Status)
		}
	}
	return nil
}

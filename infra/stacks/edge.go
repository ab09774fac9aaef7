package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
)

// edge makes the web ACL of the distribution. It refuses addresses that make too many requests, before they reach
// anything that costs money per request or counts against the account's concurrency. CloudFront takes web ACLs only
// from us-east-1, so it is a stack of its own.
func edge(stack awscdk.Stack, s stage.Stage) {
	seen := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{CloudWatchMetricsEnabled: true,
			MetricName: jsii.String(name), SampledRequestsEnabled: true}
	}
	acl := awswafv2.NewCfnWebACL(stack, jsii.String("WebAcl"), &awswafv2.CfnWebACLProps{
		Scope:            jsii.String("CLOUDFRONT"),
		DefaultAction:    &awswafv2.CfnWebACL_DefaultActionProperty{Allow: map[string]any{}},
		VisibilityConfig: seen("agents-" + s.Name),
		CustomResponseBodies: map[string]any{"limited": &awswafv2.CfnWebACL_CustomResponseBodyProperty{
			ContentType: jsii.String("APPLICATION_JSON"),
			Content: jsii.String(problemBody("rate_limited", "too many requests from this address; try again later",
				"")),
		}},
		Rules: []any{&awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String("AddressRate"), Priority: jsii.Number(0), VisibilityConfig: seen("AddressRate"),
			Statement: &awswafv2.CfnWebACL_StatementProperty{
				RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
					AggregateKeyType: jsii.String("IP"), Limit: jsii.Number(s.AddressRate),
				},
			},
			Action: &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{
				CustomResponse: &awswafv2.CfnWebACL_CustomResponseProperty{
					ResponseCode: jsii.Number(429), CustomResponseBodyKey: jsii.String("limited"),
					ResponseHeaders: []any{&awswafv2.CfnWebACL_CustomHTTPHeaderProperty{
						Name: jsii.String("Retry-After"), Value: jsii.String("300"),
					}},
				},
			}},
		}},
	})
	output(stack, "WebAclArn", acl.AttrArn())
}

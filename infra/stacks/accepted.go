package stacks

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// accepted has the findings of validators (make validate) that are intended, by the type of the resource: a reason, and
// the rules that it answers. They are written into the metadata of each resource of the type. A requirement in the
// tests guards each property that a rule would have guarded.
var accepted = map[string][]struct{ reason, rules string }{
	"AWS::ApiGateway::Method": {{"requests are authorized by the functions, with keys of the service's own",
		"AwsSolutions-APIG4 AwsSolutions-COG4"}},
	"AWS::ApiGateway::RestApi": {{"requests are validated by the functions, which name the wrong field",
		"AwsSolutions-APIG2"}},
	"AWS::ApiGateway::Stage": {
		{"each request is in the access log; the gateway's own execution log would hold bodies", "AwsSolutions-APIG6"},
		{"the web ACL is the distribution's, and nobody else can call the gateway", "AwsSolutions-APIG3"},
		{"traces are the programs' own, by OpenTelemetry", "Serverless-APIGWXrayEnabled CKV_AWS_73"},
		{"no two clients get the same answer", "CKV_AWS_120"},
	},
	"AWS::CloudFront::Distribution": {
		{"the service is for everywhere", "AwsSolutions-CFR1"},
		{"a web ACL costs 6 dollars a month: a stage says whether it has one (AddressRate)",
			"AwsSolutions-CFR2 CKV_AWS_68"},
		{"a stage says whether requests are logged (AccessLogs)", "AwsSolutions-CFR3 CKV_AWS_86"},
		{"cloudfront.net chooses its own TLS versions; with a Domain they are 1.2 and 1.3",
			"AwsSolutions-CFR4 CKV_AWS_174"},
	},
	"AWS::DynamoDB::GlobalTable": {{"frames of streams live for minutes; the core table can be put back",
		"CKV_AWS_165"}},
	"AWS::EC2::VPC": {{"only containers are in it, and nothing but CloudFront can reach one of them",
		"AwsSolutions-VPC7"}},
	"AWS::ECR::Repository": {{"the image is this program, which is no secret", "CKV_AWS_136"}},
	"AWS::ECS::Cluster": {{"the service's metrics, its own ones and its log answer what insights would be paid for",
		"AwsSolutions-ECS4 CKV_AWS_65"}},
	"AWS::ECS::TaskDefinition": {{"no variable is a secret: a test of the stage holds that", "AwsSolutions-ECS2"}},
	"AWS::ElasticLoadBalancingV2::LoadBalancer": {{
		"the distribution before it logs each request, where a stage says so; the service behind it what fails",
		"AwsSolutions-ELB2 CKV_AWS_91"}},
	"AWS::ElasticLoadBalancingV2::Listener": {{
		"only CloudFront reaches it, inside the VPC; clients speak TLS to CloudFront",
		"CKV_AWS_2 CKV_AWS_103"}},
	"AWS::Events::Rule": {{"the next minute invokes again", "Serverless-EventBusDLQ"}},
	"AWS::IAM::Policy": {{"objects of one bucket, indexes of one table or vector bucket, executions of one machine; " +
		"ECR's token, which is for the registry, and spans, which X-Ray has no resource for", "AwsSolutions-IAM5"}},
	"AWS::IAM::Role": {{"AWS keeps the managed policies that its own services need", "AwsSolutions-IAM4"},
		{"written by the CDK", "W3005"}},
	"AWS::Lambda::EventSourceMapping": {{"the queue has dead letters",
		"Serverless-LambdaEventSourceMappingDestination"}},
	"AWS::Lambda::Function": {
		{"traces are the programs' own, by OpenTelemetry", "Serverless-LambdaTracing"},
		{"invoked by a queue, which has dead letters, by a waiting caller, or each minute anew",
			"Serverless-LambdaDLQ Serverless-LambdaAsyncFailureDestination CKV_AWS_116"},
		{"a stage says what each function may take of the account's concurrency (Concurrency)", "CKV_AWS_115"},
		{"no variable is a secret; Lambda encrypts them", "CKV_AWS_173"},
		{"it calls AWS and addresses of others; a network of its own would add a NAT gateway", "CKV_AWS_117"},
		{"written by the CDK", "W3005"},
	},
	"AWS::Lambda::EventInvokeConfig": {{"the next minute invokes again", "Serverless-LambdaAsyncFailureDestination"}},
	"AWS::ECS::Service":              {{"written by the CDK", "W3005"}},
	"AWS::Logs::LogGroup": {{"CloudWatch encrypts logs; they hold no secrets and no contents of conversations",
		"CKV_AWS_158"}},
	"AWS::S3::Bucket": {
		{"who reads objects is in the service's own log, and presigned addresses live for minutes",
			"AwsSolutions-S1 CKV_AWS_18"},
		{"logs are not worth versions; the bucket of blobs has them", "CKV_AWS_21"},
	},
	"AWS::SNS::Subscription": {{"a mail that cannot be delivered is seen at the alarm itself",
		"Serverless-SNSRedrivePolicy"}},
	"AWS::SNS::Topic": {{"names of alarms are no secret", "CKV_AWS_26"}},
	"AWS::SQS::Queue": {
		{"the queues of dead letters have none of their own", "Serverless-SQSRedrivePolicy"},
		{"encrypted with SQS's own key; a message is an ID", "CKV_AWS_27"},
	},
	"AWS::SecretsManager::Secret": {
		{"rotated by hand, as the runbook says: providers' keys are made at the providers", "AwsSolutions-SMG4"},
		{"encrypted with Secrets Manager's own key; who may read it is said by the roles alone", "CKV_AWS_149"},
	},
	"AWS::StepFunctions::StateMachine": {
		{"it waits and sends one message; the run's history is the service's own, and the traces too",
			"AwsSolutions-SF1 AwsSolutions-SF2 Serverless-StepFunctionStateMachineXray"},
		{"written by the CDK", "W3005"},
	},
	"AWS::WAFv2::WebACL": {{"nothing here is written in Java", "CKV_AWS_192"}},
}

// accept writes the accepted findings into the metadata of the stacks' resources, as each validator reads them.
func accept(scope constructs.Construct) {
	for _, c := range *scope.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if !*awscdk.CfnResource_IsCfnResource(c) {
			continue
		}
		var resource awscdk.CfnResource
		jsii.UnsafeCast(c, &resource)
		var nag, checkov []map[string]string
		var lint []string
		for _, a := range accepted[*resource.CfnResourceType()] {
			for rule := range strings.FieldsSeq(a.rules) {
				switch {
				case strings.HasPrefix(rule, "CKV"):
					checkov = append(checkov, map[string]string{"id": rule, "comment": a.reason})
				case strings.Contains(rule, "-"):
					nag = append(nag, map[string]string{"id": rule, "reason": a.reason})
				default:
					lint = append(lint, rule)
				}
			}
		}
		if nag != nil {
			resource.AddMetadata(jsii.String("cdk_nag"), map[string]any{"rules_to_suppress": nag})
		}
		if checkov != nil {
			resource.AddMetadata(jsii.String("checkov"), map[string]any{"skip": checkov})
		}
		if lint != nil {
			resource.AddMetadata(jsii.String("cfn-lint"),
				map[string]any{"config": map[string]any{"ignore_checks": lint}})
		}
	}
}

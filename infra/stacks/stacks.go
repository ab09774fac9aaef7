// Package stacks is the infrastructure: data (must not be lost), edge (CloudFront takes it from us-east-1 alone) and
// service (can be replaced, with its monitoring).
//
// The shapes of tables and of the state machine come from the adapters that use them. It imports those and the CDK.
package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
)

// Found has the values that a deploy finds before it synthesizes; see scripts/preflight.
type Found struct {
	Binaries string // the folder that holds a folder for each function
	Image    string // digest or tag of the stream service's image
	// OriginPrefixList is the managed list of the addresses from which CloudFront calls origins. Its ID is different in
	// each Region.
	OriginPrefixList string
	Zones            []string // availability zones that CloudFront reaches origins in; empty: the first two
	WebACL           string   // the ARN of the web ACL that the stack edge has made
	Commit           string   // that is deployed
	CommitBefore     string   // that was deployed before; empty: none
}

// New makes the stacks of a stage, and returns them.
func New(scope constructs.Construct, s stage.Stage, found Found) (all []awscdk.Stack) {
	stack := func(what, region string, protected bool) awscdk.Stack {
		// CloudFormation copies them to each resource, so none may change from one deploy to the next.
		tags := map[string]*string{"service": jsii.String("agents"), "stage": jsii.String(s.Name)}
		properties := &awscdk.StackProps{
			StackName: jsii.String("agents-" + s.Name + "-" + what), TerminationProtection: jsii.Bool(protected),
			Tags: &tags,
		}
		if region != "" {
			properties.Env = &awscdk.Environment{Region: jsii.String(region)}
		}
		made := awscdk.NewStack(scope, jsii.String(title(what)), properties)
		all = append(all, made)
		return made
	}
	data := newData(stack("data", "", s.Precious), s)
	if s.AddressRate > 0 {
		edge(stack("edge", "us-east-1", false), s)
	}
	v := newService(stack("service", "", false), s, data, found)
	v.canaries(newOps(v).raised)
	// The service's stack is deployed last, and rolled back as a whole. An output does not belong to a resource.
	for name, commit := range map[string]string{"Commit": found.Commit, "CommitBefore": found.CommitBefore} {
		if commit != "" {
			output(v.stack, name, jsii.String(commit))
		}
	}
	accept(scope)
	return all
}

func output(stack awscdk.Stack, name string, value *string) {
	awscdk.NewCfnOutput(stack, jsii.String(name), &awscdk.CfnOutputProps{Value: value})
}

// Package stacks is the infrastructure: data (what must not be lost), edge (what CloudFront takes from us-east-1 alone)
// and service (what can be replaced, with its monitoring).
//
// The shapes of tables and of the state machine come from the adapters that use them. It imports those and the
// CDK.
package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
)

// All are the stacks of a stage.
type All struct {
	Data    *Data
	Edge    *Edge // nil where the stage has none
	Service *Service
	Ops     *Ops // in the stack of the service
}

// Found is what a deploy finds out before it synthesizes; see scripts/preflight.
type Found struct {
	Binaries string // the folder that holds a folder for each function
	Image    string // digest or tag of the stream service's image
	// OriginPrefixList is the managed list of the addresses that CloudFront calls origins from, which has another ID in
	// each Region.
	OriginPrefixList string
	Zones            []string // availability zones that CloudFront reaches origins in; empty: the first two
	WebACL           string   // the ARN of the web ACL that the stack edge has made
	Commit           string   // that is deployed
	CommitBefore     string   // that was deployed before; empty: none
}

// New makes the stacks of a stage.
func New(scope constructs.Construct, s stage.Stage, found Found) All {
	properties := func(what string, protected bool) *awscdk.StackProps {
		// CloudFormation gives them to each resource: none may change from one deploy to the next.
		tags := map[string]*string{"service": jsii.String("agents"), "stage": jsii.String(s.Name)}
		return &awscdk.StackProps{
			StackName: jsii.String("agents-" + s.Name + "-" + what), TerminationProtection: jsii.Bool(protected),
			Tags: &tags,
		}
	}
	all := All{Data: newData(awscdk.NewStack(scope, jsii.String("Data"), properties("data", s.Precious)), s)}
	if s.AddressRate > 0 {
		edge := properties("edge", false)
		edge.Env = &awscdk.Environment{Region: jsii.String("us-east-1")}
		all.Edge = newEdge(awscdk.NewStack(scope, jsii.String("Edge"), edge), s)
	}
	stack := awscdk.NewStack(scope, jsii.String("Service"), properties("service", false))
	all.Service = newService(stack, s, all.Data, found)
	all.Ops = newOps(stack, s, all.Data, all.Service)
	all.Service.canaries(all.Ops)
	// The service's stack is deployed last, and taken back whole. An output is of no resource.
	for name, commit := range map[string]string{"Commit": found.Commit, "CommitBefore": found.CommitBefore} {
		if commit != "" {
			output(stack, name, jsii.String(commit))
		}
	}
	accept(scope)
	return all
}

func output(stack awscdk.Stack, name string, value *string) {
	awscdk.NewCfnOutput(stack, jsii.String(name), &awscdk.CfnOutputProps{Value: value})
}

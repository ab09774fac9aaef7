// Package stacks is the infrastructure: data (what must not be lost), service (what can be replaced) and ops
// (monitoring).
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
	Service *Service
	Ops     *Ops
}

// New makes the stacks of a stage; binaries is the folder that holds a folder for each function, image
// the digest or tag of the stream service's image.
func New(scope constructs.Construct, s stage.Stage, binaries, image string) All {
	properties := func(what string, protected bool) *awscdk.StackProps {
		return &awscdk.StackProps{
			StackName: jsii.String("agents-" + s.Name + "-" + what), TerminationProtection: jsii.Bool(protected),
			Tags: &map[string]*string{"service": jsii.String("agents"), "stage": jsii.String(s.Name)},
		}
	}
	data := newData(awscdk.NewStack(scope, jsii.String("Data"), properties("data", s.Precious)), s)
	service := newService(awscdk.NewStack(scope, jsii.String("Service"), properties("service", false)), s, data,
		binaries, image)
	ops := newOps(awscdk.NewStack(scope, jsii.String("Ops"), properties("ops", false)), s, data, service)
	return All{Data: data, Service: service, Ops: ops}
}

func output(stack awscdk.Stack, name string, value *string) {
	awscdk.NewCfnOutput(stack, jsii.String(name), &awscdk.CfnOutputProps{Value: value})
}

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// canaries gives each new version a tenth of its function's invocations for five minutes, and all of them after that.
// An alarm within these minutes gives them back to the version before, and CloudFormation rolls the whole deploy back.
// Old and new versions share the tables, as they do in any deploy.
//
// Each alarm here can be raised within these minutes: CloudWatch evaluates a sliding window, once a minute.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation-window.html
// GatewayErrors needs two periods. It could not stop a bad version, only the deploy that takes one back. A function
// that cannot answer also counts under its own errors.
func (v *service) canaries(raised map[string]awscloudwatch.Alarm) {
	if !v.stage.Canary {
		return
	}
	application := awscodedeploy.NewLambdaApplication(v.stack, jsii.String("Deploys"), nil)
	for _, f := range functions {
		watched := []interfacesawscloudwatch.IAlarmRef{raised[title(f.name)+"Failing"]}
		if f.name != reader { // many parallel files throttle every version of it
			watched = append(watched, raised[title(f.name)+"Throttled"])
		}
		awscodedeploy.NewLambdaDeploymentGroup(v.stack, jsii.String(title(f.name)+"Deploys"),
			&awscodedeploy.LambdaDeploymentGroupProps{
				Application: application, Alias: v.Live[f.name], Alarms: &watched,
				DeploymentConfig: awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_5MINUTES(),
				AutoRollback: &awscodedeploy.AutoRollbackConfig{FailedDeployment: jsii.Bool(true),
					StoppedDeployment: jsii.Bool(true), DeploymentInAlarm: jsii.Bool(true)},
			})
	}
}

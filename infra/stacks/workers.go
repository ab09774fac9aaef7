package stacks

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
	"agentplatform/internal/wiring/cloud"
)

const (
	workerMemory = 2048 // MB of a task: 200 runs, some of which hold pictures
	// workerHeap is what Go's garbage collector keeps the worker itself under.
	workerHeap = "1600MiB"
	// workersBusy is the share of a task's runs at which more tasks start.
	workersBusy = 0.7
)

// workerService executes runs in containers on Fargate, many in each, with the rights of the worker function, whose
// program it is. A task that stops, for a deploy or when there are too many, hands its runs over to others.
func (v *Service) workerService() {
	task := awsecs.NewFargateTaskDefinition(v.Stack, jsii.String("WorkerTask"), &awsecs.FargateTaskDefinitionProps{
		Cpu: jsii.Number(512), MemoryLimitMiB: jsii.Number(workerMemory),
		RuntimePlatform: &awsecs.RuntimePlatform{CpuArchitecture: awsecs.CpuArchitecture_ARM64(),
			OperatingSystemFamily: awsecs.OperatingSystemFamily_LINUX()},
	})
	environment := v.environment()
	environment["WORKERS"] = jsii.String(strconv.Itoa(stage.RunsATask))
	environment[asked[reader]] = v.Live[reader].FunctionArn()
	environment["GOMEMLIMIT"] = jsii.String(workerHeap)
	task.AddContainer(jsii.String("worker"), &awsecs.ContainerDefinitionOptions{
		Image:                  awsecs.ContainerImage_FromEcrRepository(v.data.Images, jsii.String(v.found.Image)),
		EntryPoint:             jsii.Strings("/worker"),
		Environment:            &environment,
		ReadonlyRootFilesystem: jsii.Bool(true),
		// More than the time that it takes to hand the runs over.
		StopTimeout: awscdk.Duration_Seconds(jsii.Number(60)),
		Logging: awsecs.LogDriver_AwsLogs(&awsecs.AwsLogDriverProps{LogGroup: v.groups["worker"],
			StreamPrefix: jsii.String("worker")}),
	})
	v.grant(task.TaskRole(), described("worker"))
	task.AddToTaskRolePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions:   jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
		Resources: &[]*string{v.Queues[runQueue].QueueArn()},
	}))
	service := awsecs.NewFargateService(v.Stack, jsii.String("Worker"), &awsecs.FargateServiceProps{
		// outgoing connections without a NAT gateway
		Cluster: v.cluster, TaskDefinition: task, DesiredCount: jsii.Number(float64(v.stage.WorkerTasks)),
		AssignPublicIp:    jsii.Bool(true),
		VpcSubnets:        &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PUBLIC},
		MinHealthyPercent: jsii.Number(100),
		MaxHealthyPercent: jsii.Number(200),
		PropagateTags:     awsecs.PropagatedTagSource_SERVICE,
		CircuitBreaker:    &awsecs.DeploymentCircuitBreaker{Enable: jsii.Bool(true), Rollback: jsii.Bool(true)},
	})
	scaling := service.AutoScaleTaskCount(&awsapplicationautoscaling.EnableScalingProps{
		MinCapacity: jsii.Number(float64(v.stage.WorkerTasks)),
		MaxCapacity: jsii.Number(float64(v.stage.MostWorkerTasks())),
	})
	scaling.ScaleToTrackCustomMetric(jsii.String("RunsAtWork"), &awsecs.TrackCustomMetricProps{
		TargetValue: jsii.Number(workersBusy * stage.RunsATask),
		Metric: awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
			Namespace: jsii.String(cloud.Namespace), MetricName: jsii.String(cloud.RunsAtWork),
			Statistic:     jsii.String("Average"),
			DimensionsMap: &map[string]*string{"stage": jsii.String(v.stage.Name)},
		}),
	})
	scaling.ScaleOnCpuUtilization(jsii.String("Cpu"), &awsecs.CpuUtilizationScalingProps{
		TargetUtilizationPercent: jsii.Number(60),
	})
}

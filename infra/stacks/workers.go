package stacks

import (
	"maps"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/infra/stage"
	"agentplatform/internal/wiring/cloud"
)

const (
	workerMemory = 2048 // MB of a task: 200 runs, some of which hold pictures
	// workerHeap is the limit under which Go's garbage collector keeps the worker itself.
	workerHeap = "1600MiB"
	// workersBusy is the share of a task's runs at which more tasks start.
	workersBusy = 0.7
)

// containers describes a program that runs in containers on Fargate.
type containers struct {
	name        string // of the program in the image
	entry       []string
	port        float64 // 0: nothing calls it
	memory      float64 // MB of a task
	environment map[string]*string
	rights      function
	least, most int     // tasks
	metric      string  // of the platform, for each task
	busy        float64 // its value at which more tasks start
}

// run makes the service of containers, each a task of its own. The task's role has the rights that are described.
func (v *service) run(c containers) (awsecs.FargateService, awsecs.FargateTaskDefinition) {
	id := jsii.String(title(c.name))
	task := awsecs.NewFargateTaskDefinition(v.stack, jsii.String(*id+"Task"), &awsecs.FargateTaskDefinitionProps{
		Cpu: jsii.Number(512), MemoryLimitMiB: jsii.Number(c.memory),
		RuntimePlatform: &awsecs.RuntimePlatform{CpuArchitecture: awsecs.CpuArchitecture_ARM64(),
			OperatingSystemFamily: awsecs.OperatingSystemFamily_LINUX()},
	})
	environment := v.environment()
	maps.Copy(environment, c.environment)
	container := &awsecs.ContainerDefinitionOptions{
		Image:       awsecs.ContainerImage_FromEcrRepository(v.data.Images, jsii.String(v.found.Image)),
		Environment: &environment, ReadonlyRootFilesystem: jsii.Bool(true),
		// More than the time to release the runs or to end the streams.
		StopTimeout: seconds(60),
		Logging: awsecs.LogDriver_AwsLogs(&awsecs.AwsLogDriverProps{LogGroup: v.logs(c.name),
			StreamPrefix: jsii.String(c.name)}),
	}
	if c.entry != nil {
		container.EntryPoint = jsii.Strings(c.entry...)
	}
	if c.port != 0 {
		container.PortMappings = &[]*awsecs.PortMapping{{ContainerPort: jsii.Number(c.port)}}
	}
	task.AddContainer(jsii.String(c.name), container)
	v.grant(task.TaskRole(), c.rights)
	service := awsecs.NewFargateService(v.stack, id, &awsecs.FargateServiceProps{
		// outgoing connections without a NAT gateway
		Cluster: v.cluster, TaskDefinition: task, DesiredCount: jsii.Number(c.least),
		AssignPublicIp:    jsii.Bool(true),
		VpcSubnets:        &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PUBLIC},
		MinHealthyPercent: jsii.Number(100), MaxHealthyPercent: jsii.Number(200),
		// the tag by which the costs of a stage are found
		PropagateTags:  awsecs.PropagatedTagSource_SERVICE,
		CircuitBreaker: &awsecs.DeploymentCircuitBreaker{Enable: jsii.Bool(true), Rollback: jsii.Bool(true)},
	})
	scaling := service.AutoScaleTaskCount(&awsapplicationautoscaling.EnableScalingProps{
		MinCapacity: jsii.Number(c.least), MaxCapacity: jsii.Number(c.most),
	})
	scaling.ScaleToTrackCustomMetric(jsii.String(c.metric), &awsecs.TrackCustomMetricProps{
		TargetValue: jsii.Number(c.busy), Metric: v.own(c.metric, "Average", 5),
	})
	scaling.ScaleOnCpuUtilization(jsii.String("Cpu"), &awsecs.CpuUtilizationScalingProps{
		TargetUtilizationPercent: jsii.Number(60),
	})
	return service, task
}

// workerService executes runs in containers, many in each. They have the program and the rights of the worker function.
// A task that stops, for a deploy or because there are too many tasks, releases its runs to others.
func (v *service) workerService() {
	_, task := v.run(containers{
		name: "worker", entry: []string{"/worker"}, memory: workerMemory,
		rights: described("worker"), least: v.stage.WorkerTasks, most: v.stage.MostWorkerTasks(),
		metric: cloud.RunsAtWork, busy: workersBusy * stage.RunsATask,
		environment: map[string]*string{
			"WORKERS": jsii.String(strconv.Itoa(stage.RunsATask)), "GOMEMLIMIT": jsii.String(workerHeap),
			functionVariables[reader]: v.Live[reader].FunctionArn(),
		},
	})
	task.AddToTaskRolePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions:   jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
		Resources: &[]*string{v.Queues[runQueue].QueueArn()},
	}))
}

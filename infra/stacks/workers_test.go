//go:build infra

package stacks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/infra/stage"
)

// TestContainersTakeThePlaceOfTheWorkerFunction checks their program and their rights: those of the function and of an
// event source, and nothing else.
func TestContainersTakeThePlaceOfTheWorkerFunction(t *testing.T) {
	defer jsii.Close()
	functions := synthesised(t, "prod", func(*stage.Stage) {})
	containers := synthesised(t, "prod", func(s *stage.Stage) { s.WorkerTasks, s.Workers, s.Jobs = 2, 5000, 37 })
	runs := func(all templates) (sources []string) {
		for id, source := range all.of("AWS::Lambda::EventSourceMapping") {
			if strings.Contains(text(source["EventSourceArn"]), all.id("AWS::SQS::Queue", "RunQueue")) {
				sources = append(sources, id)
			}
		}
		return sources
	}
	assert.Len(t, runs(functions), 1)
	assert.Empty(t, runs(containers), "function and containers would take each other's runs")
	const source = "AWS::Lambda::EventSourceMapping"
	assert.Len(t, containers.of(source), len(functions.of(source))-1)

	for _, source := range containers.of(source) {
		if strings.Contains(text(source["EventSourceArn"]), containers.id("AWS::SQS::Queue", "JobQueue")) {
			assert.Equal(t, 37.0, object(source["ScalingConfig"])["MaximumConcurrency"], "a stage says so")
		}
	}
	assert.Equal(t, 37.0, containers.the("AWS::Lambda::Function", "JobFunction")["ReservedConcurrentExecutions"])

	task := containers.the("AWS::ECS::TaskDefinition", "WorkerTask")
	container := object(list(task["ContainerDefinitions"])[0])
	assert.Equal(t, []any{"/worker"}, container["EntryPoint"])
	assert.Equal(t, true, container["ReadonlyRootFilesystem"])
	assert.Greater(t, number(container["StopTimeout"]), 30.0, "seconds to hand the runs over")
	environment := map[string]any{}
	for _, e := range list(container["Environment"]) {
		environment[object(e)["Name"].(string)] = object(e)["Value"]
	}
	assert.Equal(t, "200", environment["WORKERS"])
	function := containers.the("AWS::Lambda::Function", "WorkerFunction")
	for name, value := range object(object(function["Environment"])["Variables"]) {
		assert.Equal(t, value, environment[name], name)
	}
	assert.Nil(t, function["ReservedConcurrentExecutions"], "nothing invokes the function")

	// The rights are those of the function. In the function's case some of them belong to its event source.
	queue := []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
	statements := func(all templates, role string) (found []string) {
		for id, policy := range all.of("AWS::IAM::Policy") {
			if !strings.HasPrefix(id, role) {
				continue
			}
			for _, s := range list(object(policy["PolicyDocument"])["Statement"]) {
				if strings.Contains(text(object(s)["Action"]), "sqs:ReceiveMessage") {
					if actions := several(object(s)["Action"]); role == "WorkerTaskTaskRole" {
						assert.ElementsMatch(t, queue, actions)
					}
					continue
				}
				found = append(found, text(s))
			}
		}
		slices.Sort(found)
		return found
	}
	want := statements(functions, "WorkerFunctionServiceRole")
	require.NotEmpty(t, want)
	assert.Equal(t, want, statements(containers, "WorkerTaskTaskRole"))

	service := containers.the("AWS::ECS::Service", "Worker")
	assert.EqualValues(t, 2, service["DesiredCount"])
	assert.Equal(t, "SERVICE", service["PropagateTags"])
	assert.Equal(t, "ENABLED",
		object(object(service["NetworkConfiguration"])["AwsvpcConfiguration"])["AssignPublicIp"], "the way to models")
	target := containers.the("AWS::ApplicationAutoScaling::ScalableTarget", "Worker")
	assert.EqualValues(t, 2, target["MinCapacity"])
	assert.EqualValues(t, 25, target["MaxCapacity"], "5,000 runs, 200 in each")
	for _, group := range containers.of("AWS::EC2::SecurityGroup") {
		if strings.Contains(text(group["GroupDescription"]), "/Worker/") {
			assert.Empty(t, group["SecurityGroupIngress"], "nobody calls it")
		}
	}
	logs := object(object(container["LogConfiguration"])["Options"])["awslogs-group"]
	assert.Contains(t, text(logs), containers.id("AWS::Logs::LogGroup", "WorkerLogs"),
		"whose errors WorkerFailing counts")
}

//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentplatform/infra/cloudwatch"
)

// The requirements on invocations of functions: by queues and the schedule, with their part of the account's
// concurrency, at the right version.

var functionsRequirements = []requirement{
	{"a message stays hidden for as long as its function may run", func(all templates) (wrong []string) {
		for id, m := range all.of("AWS::Lambda::EventSourceMapping") {
			queue := all.target("AWS::SQS::Queue", m["EventSourceArn"])
			function := all.invoked(m["FunctionName"])
			if function == nil || number(queue["VisibilityTimeout"]) < number(function["Timeout"]) {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::SQS::Queue", "RunQueue")["VisibilityTimeout"] = 60.0 }},
	{"batches report their failures one by one, one message each, bounded", func(all templates) (wrong []string) {
		mappings := all.of("AWS::Lambda::EventSourceMapping")
		if len(mappings) != 4 {
			wrong = append(wrong, "there are not four triggers")
		}
		for id, m := range mappings {
			if !slices.Contains(several(m["FunctionResponseTypes"]), "ReportBatchItemFailures") ||
				number(m["BatchSize"]) != 1 ||
				number(object(m["ScalingConfig"])["MaximumConcurrency"]) < 2 {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) {
		delete(all.the("AWS::Lambda::EventSourceMapping", "Worker"), "FunctionResponseTypes")
	}},
	{"recursion is allowed where it is meant", func(all templates) (wrong []string) {
		for id, f := range all.of("AWS::Lambda::Function") {
			want := "Terminate"
			if strings.HasPrefix(id, "WorkerFunction") {
				want = "Allow"
			}
			if f["RecursiveLoop"] != want {
				wrong = append(wrong, id)
			}
		}
		return wrong
	}, func(all templates) { all.the("AWS::Lambda::Function", "WorkerFunction")["RecursiveLoop"] = "Terminate" }},
	{"every queue has dead letters, and an alarm for them", func(all templates) (wrong []string) {
		alarms := text(all.of("AWS::CloudWatch::Alarm"))
		dead := map[string]bool{}
		for id, q := range all.of("AWS::SQS::Queue") {
			if policy := object(q["RedrivePolicy"]); policy != nil {
				for name := range all.of("AWS::SQS::Queue") {
					if strings.Contains(text(policy["deadLetterTargetArn"]), name) {
						dead[name] = true
					}
				}
			} else if !strings.Contains(id, "Dead") {
				wrong = append(wrong, id+" has no dead letters")
			}
		}
		for id := range dead {
			if !strings.Contains(alarms, id) {
				wrong = append(wrong, "no alarm for "+id)
			}
		}
		if len(dead) != 4 {
			wrong = append(wrong, fmt.Sprint(len(dead), " queues of dead letters"))
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::SQS::Queue", "JobQueue"), "RedrivePolicy") }},
	{"no function can take the concurrency of another", func(all templates) (wrong []string) {
		sum := 0.0
		for id, f := range all.of("AWS::Lambda::Function") {
			n := number(f["ReservedConcurrentExecutions"])
			if n < 1 {
				wrong = append(wrong, id+" has no part of its own")
			}
			sum += n
		}
		for id, m := range all.of("AWS::Lambda::EventSourceMapping") {
			function := all.invoked(m["FunctionName"])
			if number(object(m["ScalingConfig"])["MaximumConcurrency"]) >
				number(function["ReservedConcurrentExecutions"]) {
				wrong = append(wrong, id+" takes more messages than its function can handle")
			}
		}
		if sum > 900 {
			wrong = append(wrong, fmt.Sprint("all parts are ", sum))
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::Lambda::Function", "WorkerFunction")["ReservedConcurrentExecutions"] = 10.0
	}},
	{"a sweep that fails is not tried again beside the next", func(all templates) (wrong []string) {
		config := all.the("AWS::Lambda::EventInvokeConfig", "Sweeper")
		if config["MaximumRetryAttempts"] != 0.0 || number(config["MaximumEventAgeInSeconds"]) > 60 {
			wrong = append(wrong, text(config))
		}
		return wrong
	}, func(all templates) {
		delete(all.the("AWS::Lambda::EventInvokeConfig", "Sweeper"), "MaximumRetryAttempts")
	}},
	{"what is invoked is a version, which a canary can take back", func(all templates) (wrong []string) {
		for _, kind := range []string{"AWS::Lambda::EventSourceMapping", "AWS::Events::Rule",
			"AWS::ApiGateway::Method"} {
			for id, p := range all.of(kind) {
				invoked := []any{p["FunctionName"], p["Targets"], object(p["Integration"])["Uri"]}
				if object(p["Integration"])["Type"] != "MOCK" && all.target("AWS::Lambda::Alias", invoked) == nil {
					wrong = append(wrong, id+" invokes "+text(invoked))
				}
			}
		}
		for id, r := range object(all["Service"]["Resources"]) {
			resource := object(r)
			if resource["Type"] == "AWS::Lambda::Alias" &&
				object(resource["UpdatePolicy"])["CodeDeployLambdaAliasUpdate"] == nil {
				wrong = append(wrong, id+" is moved at once")
			}
			if resource["Type"] == "AWS::Lambda::Version" && resource["DeletionPolicy"] != "Retain" {
				wrong = append(wrong, id+" would be gone when it is needed")
			}
		}
		for id, g := range all.of("AWS::CodeDeploy::DeploymentGroup") {
			least := 2
			if strings.HasPrefix(id, "Reader") { // many files throttle every version of it
				least = 1
			}
			if len(list(object(g["AlarmConfiguration"])["Alarms"])) < least ||
				!strings.Contains(text(g["AutoRollbackConfiguration"]), "DEPLOYMENT_STOP_ON_ALARM") {
				wrong = append(wrong, id+" goes on whatever happens")
			}
		}
		return wrong
	}, func(all templates) {
		for _, r := range object(all["Service"]["Resources"]) {
			if object(r)["Type"] == "AWS::Lambda::Alias" {
				delete(object(r), "UpdatePolicy")
			}
		}
	}},
	{"what stops a deploy can be raised while its canary lasts", func(all templates) (wrong []string) {
		raw, err := json.Marshal(all["Service"])
		if err != nil {
			return []string{err.Error()}
		}
		alarms, _, err := cloudwatch.Read(raw)
		if err != nil {
			return []string{err.Error()}
		}
		for id, g := range all.of("AWS::CodeDeploy::DeploymentGroup") {
			if g["DeploymentConfigName"] != "CodeDeployDefault.LambdaCanary10Percent5Minutes" {
				wrong = append(wrong, fmt.Sprint(id, " is of ", g["DeploymentConfigName"]))
			}
			for _, named := range list(object(g["AlarmConfiguration"])["Alarms"]) {
				name := all.target("AWS::CloudWatch::Alarm", named)["AlarmName"]
				for _, a := range alarms {
					if a.Name == name && time.Duration(a.Breaching)*a.Period > 5*time.Minute {
						wrong = append(wrong, fmt.Sprint(id, " looks at ", name, ", which takes longer"))
					}
				}
			}
		}
		return wrong
	}, func(all templates) {
		group := object(all.the("AWS::CodeDeploy::DeploymentGroup", "Chat")["AlarmConfiguration"])
		group["Alarms"] = append(list(group["Alarms"]),
			properties{"Name": properties{"Ref": all.id("AWS::CloudWatch::Alarm", "GatewayErrors")}})
	}},
}

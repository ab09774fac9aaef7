//go:build integration

package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// absent has the resource types that LocalStack's community edition does not have or ignores. They are left out of the
// templates. A test checks that nothing else is left out.
var absent = map[string]string{
	"AWS::CloudFront::":              "the front stands in for it",
	"AWS::EC2::":                     "processes on this machine need no network of their own",
	"AWS::ECS::":                     "the stream service runs as a process on this machine",
	"AWS::ECR::":                     "no image is needed",
	"AWS::ElasticLoadBalancingV2:":   "the front stands in for it",
	"AWS::ApplicationAutoScaling:":   "there is one process",
	"AWS::CloudWatch::":              "alarms and dashboards are looked at in the template's tests",
	"AWS::Budgets::":                 "nothing is paid for",
	"AWS::SNS::":                     "there is nobody to tell",
	"AWS::Lambda::Alias":             "functions are invoked as they were uploaded; templates' tests look at versions",
	"AWS::Lambda::Version":           "functions are invoked as they were uploaded",
	"AWS::Lambda::EventInvokeConfig": "it is of an alias",
	"AWS::CodeDeploy::":              "there is nothing before the first deploy",
	"AWS::Logs::MetricFilter":        "alarms are looked at in the template's tests",
	"AWS::Logs::QueryDefinition":     "nobody asks",
	"AWS::S3Vectors::":               "vectorserver stands in for it; its bucket's name is known before it is made",
}

// streamTask is the prefix of the stream service's task and its roles, which refer to the image repository.
const streamTask = "StreamTask"

// workerTasks is the setting of a world in which a container executes the runs: see [world.worker].
const workerTasks = "WORKER_TASKS"

// filtered returns a template that LocalStack can deploy, and the logical ids of the resources that it left out.
// Functions get the settings, and their own address of AWS by their logical ids. It fails for a template that is not
// valid JSON. It also fails if a resource that stays refers to one that was left out.
func filtered(raw []byte, settings map[string]string, address func(id string) string) (text string, left []string,
	err error,
) {
	var t map[string]any
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", nil, err
	}
	delete(t, "Rules") // they check the version of the CDK's bootstrap stack, which does not exist here
	delete(t, "Parameters")
	unversion(t)
	resources, _ := t["Resources"].(map[string]any)
	for id, v := range resources {
		r, _ := v.(map[string]any)
		kind, _ := r["Type"].(string)
		if isAbsent(kind) || strings.HasPrefix(id, streamTask) {
			delete(resources, id)
			left = append(left, id)
			continue
		}
		properties, _ := r["Properties"].(map[string]any)
		switch kind {
		case "AWS::ApiGateway::Method":
			unstream(properties)
		case "AWS::Lambda::Function":
			if properties["Environment"] != nil { // reader has no settings
				set(properties, settings)
			}
			set(properties, map[string]string{"AWS_ENDPOINT_URL": address(id)})
		case "AWS::Lambda::EventSourceMapping":
			if settings[workerTasks] != "" && strings.HasPrefix(id, "Worker") {
				delete(resources, id)
				continue
			}
			if n, err := strconv.Atoi(settings["WORKERS"]); err == nil && strings.HasPrefix(id, "Worker") {
				properties["ScalingConfig"] = map[string]any{"MaximumConcurrency": n}
			}
		}
	}
	outputs, _ := t["Outputs"].(map[string]any)
	for name, output := range outputs {
		if refers(output, left) != "" {
			delete(outputs, name)
		}
	}
	for id, r := range resources {
		if to := refers(r, left); to != "" {
			return "", nil, fmt.Errorf("local: %s is kept and refers to %s, which is left out", id, to)
		}
	}
	b, err := json.Marshal(t)
	return string(b), left, err
}

// refers returns a reference to one of these resources; empty where there is none.
func refers(v any, ids []string) string {
	b, _ := json.Marshal(v)
	for _, id := range ids {
		if strings.Contains(string(b), `"`+id+`"`) {
			return id
		}
	}
	return ""
}

func isAbsent(kind string) bool {
	for prefix := range absent {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// unstream makes a method's integration buffered: LocalStack rejects one that streams. The front calls the
// function itself, with response streaming.
func unstream(properties map[string]any) {
	integration, _ := properties["Integration"].(map[string]any)
	if integration["ResponseTransferMode"] == nil {
		return
	}
	delete(integration, "ResponseTransferMode")
	delete(integration, "TimeoutInMillis")
	b, _ := json.Marshal(integration["Uri"])
	uri := strings.NewReplacer("2021-11-15", "2015-03-31", "response-streaming-invocations",
		"invocations").Replace(string(b))
	var back any
	if err := json.Unmarshal([]byte(uri), &back); err != nil {
		panic(fmt.Sprintf("local: %s: %v", uri, err)) // it was encoded from JSON just before
	}
	integration["Uri"] = back
}

// unversion replaces references to a function's alias with references to the function.
func unversion(template map[string]any) {
	resources, _ := template["Resources"].(map[string]any)
	behind := map[string]any{}
	for id, v := range resources {
		if r, _ := v.(map[string]any); r["Type"] == "AWS::Lambda::Alias" {
			properties, _ := r["Properties"].(map[string]any)
			function, _ := properties["FunctionName"].(map[string]any)
			behind[id] = map[string]any{"Fn::GetAtt": []any{function["Ref"], "Arn"}}
		}
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["Ref"].(string); ok && behind[id] != nil {
				return behind[id]
			}
			for name, member := range v {
				v[name] = walk(member)
			}
			if join, ok := v["Fn::Join"].([]any); ok && len(join) == 2 { // NAME:ALIAS
				parts, _ := join[1].([]any)
				join[1] = slices.DeleteFunc(parts, func(part any) bool { return part == ":live" })
			}
		case []any:
			for i, member := range v {
				v[i] = walk(member)
			}
		}
		return v
	}
	walk(template)
	for _, v := range resources { // the resources that the CDK makes wait for an alias
		if r, _ := v.(map[string]any); r != nil {
			if waits, ok := r["DependsOn"].([]any); ok {
				r["DependsOn"] = slices.DeleteFunc(waits, func(id any) bool {
					name, _ := id.(string)
					return behind[name] != nil
				})
			}
		}
	}
}

// set adds variables to a function's environment.
func set(properties map[string]any, more map[string]string) {
	environment, _ := properties["Environment"].(map[string]any)
	variables, _ := environment["Variables"].(map[string]any)
	if variables == nil {
		variables = map[string]any{}
		properties["Environment"] = map[string]any{"Variables": variables}
	}
	for name, value := range more {
		variables[name] = value
	}
}

//go:build infra

package stacks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The requirements on monitoring: alarms, logs, the commit and costs.

var opsRequirements = []requirement{
	{"alarms can tell, and somebody hears it", func(all templates) (wrong []string) {
		topics := map[string]bool{}
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			for _, action := range list(a["AlarmActions"]) {
				topic := fmt.Sprint(object(action)["Ref"])
				if _, ok := all.of("AWS::SNS::Topic")[topic]; !ok {
					wrong = append(wrong, id+" tells no topic")
				}
				topics[topic] = true
			}
		}
		for topic := range topics {
			if all.target("AWS::SNS::Topic", properties{"Ref": topic})["KmsMasterKeyId"] != nil {
				wrong = append(wrong, topic+" is encrypted: its key's policy would have to admit CloudWatch")
			}
			if !all.admits(topic, "cloudwatch.amazonaws.com") {
				wrong = append(wrong, topic+" does not let CloudWatch publish")
			}
			subscribed := false
			for _, s := range all.of("AWS::SNS::Subscription") {
				subscribed = subscribed || strings.Contains(text(s["TopicArn"]), topic)
			}
			if !subscribed {
				wrong = append(wrong, topic+" has nobody who hears it")
			}
		}
		if len(topics) != 1 {
			wrong = append(wrong, fmt.Sprint(len(topics), " topics"))
		}
		return wrong
	}, func(all templates) {
		document := object(all.the("AWS::SNS::TopicPolicy", "Alarms")["PolicyDocument"])
		document["Statement"] = slices.DeleteFunc(list(document["Statement"]),
			func(s any) bool { return object(s)["Effect"] == "Allow" })
	}},
	{"every alarm tells somebody, and has an entry in the runbook", func(all templates) (wrong []string) {
		var pages []byte // costs are on the first, alarms on the second
		for _, page := range []string{"../README.md", "../../docs/operate.md"} {
			text, err := os.ReadFile(page)
			if err != nil {
				return []string{err.Error()}
			}
			pages = append(pages, text...)
		}
		runbook := string(pages)
		n := len(all.of("AWS::CloudWatch::Alarm")) - 1 // SpansDropped is of stages that send traces alone
		if !strings.Contains(runbook, fmt.Sprint(n, " alarms")) {
			wrong = append(wrong, fmt.Sprint("what it costs does not know of ", n, " alarms"))
		}
		for what, n := range map[string]int{"on %d metrics": all.watched(), "%d metrics of errors in logs": len(
			all.of("AWS::Logs::MetricFilter"))} {
			if named := fmt.Sprintf(what, n); !strings.Contains(runbook, named) {
				wrong = append(wrong, "what it costs does not have: "+named)
			}
		}
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			name := strings.TrimPrefix(fmt.Sprint(a["AlarmName"]), "agents-prod-")
			if !strings.Contains(runbook, "**"+name+"**") {
				wrong = append(wrong, name+" has no entry")
			}
			if len(list(a["AlarmActions"])) == 0 {
				wrong = append(wrong, id+" tells nobody")
			}
		}
		return wrong
	}, func(all templates) {
		all.the("AWS::CloudWatch::Alarm", "GatewayErrors")["AlarmName"] = "agents-prod-Unheard"
	}},
	{"errors that are handled one by one raise an alarm, too", func(all templates) (wrong []string) {
		alarms := all.of("AWS::CloudWatch::Alarm")
		for _, program := range append([]string{"stream"}, functions...) {
			name := "Logged" + strings.ToUpper(program[:1]) + program[1:]
			filter := all.the("AWS::Logs::MetricFilter", name)
			group := all.target("AWS::Logs::LogGroup", filter["LogGroupName"])
			if group == nil || filter["FilterPattern"] != `{ $.level = "ERROR" }` {
				wrong = append(wrong, name+" filters "+text(filter))
			}
			alarmed := false
			for _, a := range alarms {
				alarmed = alarmed || strings.Contains(text(a["Metrics"]), `"`+name+`"`)
			}
			if !alarmed {
				wrong = append(wrong, name+" raises no alarm")
			}
		}
		return wrong
	}, func(all templates) {
		for id, a := range all.of("AWS::CloudWatch::Alarm") {
			if strings.HasPrefix(id, "WorkerFailing") {
				delete(a, "Metrics")
			}
		}
	}},
	{"logs end, and each function has its own", func(all templates) (wrong []string) {
		groups := all.of("AWS::Logs::LogGroup")
		for id, g := range groups {
			if number(g["RetentionInDays"]) < 1 {
				wrong = append(wrong, id+" is kept for ever")
			}
		}
		used := map[string]bool{}
		for id, f := range all.of("AWS::Lambda::Function") {
			group := text(object(f["LoggingConfig"])["LogGroup"])
			if group == "null" || used[group] {
				wrong = append(wrong, id+" has no log group of its own")
			}
			used[group] = true
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::Logs::LogGroup", "ChatLogs"), "RetentionInDays") }},
	{"requests leave a line, without what is secret in them", func(all templates) (wrong []string) {
		setting := object(all.the("AWS::ApiGateway::Stage", "Gateway")["AccessLogSetting"])
		format := fmt.Sprint(setting["Format"])
		if setting["DestinationArn"] == nil || !json.Valid([]byte(format)) {
			wrong = append(wrong, "no line, or none in JSON: "+format)
		}
		for _, secret := range []string{"querystring", "header", "body", "apiKey", "authorizer"} {
			if strings.Contains(format, secret) {
				wrong = append(wrong, "the line has "+secret)
			}
		}
		logged := object(object(all.the("AWS::CloudFront::Distribution",
			"Front")["DistributionConfig"])["Logging"])
		if logged["Bucket"] == nil || logged["IncludeCookies"] == true {
			wrong = append(wrong, "the distribution logs "+text(logged))
		}
		for id, f := range all.of("AWS::Lambda::Function") {
			if object(f["LoggingConfig"])["SystemLogLevel"] != "INFO" {
				wrong = append(wrong, id+" does not report its memory")
			}
		}
		return wrong
	}, func(all templates) {
		delete(object(all.the("AWS::CloudFront::Distribution", "Front")["DistributionConfig"]), "Logging")
	}},
	{"which commit is deployed is said by outputs, and by nothing that would change a resource", func(all templates) (
		wrong []string,
	) {
		for name, commit := range map[string]string{"Commit": "0123abc", "CommitBefore": "9876fed"} {
			if got := object(object(all["Service"]["Outputs"])[name])["Value"]; got != commit {
				wrong = append(wrong, fmt.Sprint(name, " is ", got))
			}
			for what, stack := range all {
				if strings.Contains(text(stack["Resources"]), commit) {
					wrong = append(wrong, "a resource of "+what+" names "+commit)
				}
			}
		}
		return wrong
	}, func(all templates) { delete(object(all["Service"]["Outputs"]), "CommitBefore") }},
	{"what a stage costs is found by its tag", func(all templates) (wrong []string) {
		for id, service := range all.of("AWS::ECS::Service") {
			if service["PropagateTags"] != "SERVICE" {
				wrong = append(wrong, "tasks of "+id+" have no tags")
			}
		}
		return wrong
	}, func(all templates) { delete(all.the("AWS::ECS::Service", "Stream"), "PropagateTags") }},
}

// watched returns the number of metrics that the alarms watch, each of which is paid for. It leaves out those of
// SpansDropped.
func (all templates) watched() (n int) {
	for id, a := range all.of("AWS::CloudWatch::Alarm") {
		for _, q := range list(a["Metrics"]) {
			if object(q)["MetricStat"] != nil {
				n++
			}
		}
		if a["MetricName"] != nil && !strings.HasPrefix(id, "SpansDropped") {
			n++
		}
	}
	return n
}

// admits reports whether a topic's policy lets a service of this account publish.
func (all templates) admits(topic, service string) bool {
	for _, p := range all.of("AWS::SNS::TopicPolicy") {
		if !strings.Contains(text(p["Topics"]), topic) {
			continue
		}
		for _, s := range list(object(p["PolicyDocument"])["Statement"]) {
			statement := object(s)
			if statement["Effect"] == "Allow" && object(statement["Principal"])["Service"] == service &&
				strings.EqualFold(fmt.Sprint(statement["Action"]), "sns:Publish") &&
				strings.Contains(text(statement["Condition"]), `"aws:SourceAccount":{"Ref":"AWS::AccountId"}`) {
				return true
			}
		}
	}
	return false
}

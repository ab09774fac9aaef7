package stacks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/table/dynamotable"
	"agentplatform/internal/wiring/cloud"
)

// ops is the monitoring of a service, in its stack. Each of its alarms has an entry under the alarm's name in the
// runbook, docs/operate.md. A test checks that.
type ops struct {
	*service

	topic  awssns.Topic
	raised map[string]awscloudwatch.Alarm // by name
}

func newOps(v *service) *ops {
	o := &ops{service: v, raised: map[string]awscloudwatch.Alarm{}}
	o.topic = awssns.NewTopic(o.stack, jsii.String("Alarms"), &awssns.TopicProps{EnforceSSL: jsii.Bool(true)})
	// A topic with a policy of its own has lost the one that lets its account publish.
	o.topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: jsii.Strings("sns:Publish"), Resources: &[]*string{o.topic.TopicArn()},
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": o.stack.Account()}},
	}))
	output(o.stack, "AlarmTopicArn", o.topic.TopicArn())
	if mail := o.stage.AlarmEmail; mail != "" {
		o.topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String(mail), nil))
	}
	o.alarms()
	o.dashboard()
	o.queries()
	o.budget()
	return o
}

// alarm is raised when the metric crosses the threshold in points of the last of periods.
type alarm struct {
	name      string
	metric    awscloudwatch.IMetric
	above     float64 // or below, when least is set
	least     bool
	points    int
	of        int
	noneIsBad bool // missing data raises it, too
}

func (o *ops) alarm(a alarm) {
	comparison := awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD
	missing := awscloudwatch.TreatMissingData_NOT_BREACHING
	if a.least {
		comparison = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
	}
	if a.noneIsBad {
		missing = awscloudwatch.TreatMissingData_BREACHING
	}
	made := awscloudwatch.NewAlarm(o.stack, jsii.String(a.name), &awscloudwatch.AlarmProps{
		AlarmName: jsii.String("agents-" + o.stage.Name + "-" + a.name), Metric: a.metric,
		Threshold: jsii.Number(a.above), ComparisonOperator: comparison,
		TreatMissingData: missing, DatapointsToAlarm: jsii.Number(max(a.points, 1)),
		EvaluationPeriods: jsii.Number(max(a.of, 1)),
		AlarmDescription:  jsii.String("Runbook: docs/operate.md, " + a.name),
	})
	made.AddAlarmAction(awscloudwatchactions.NewSnsAction(o.topic))
	o.raised[a.name] = made
}

func minutes(n float64) awscdk.Duration { return awscdk.Duration_Minutes(jsii.Number(n)) }

func options(statistic string, period float64) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: minutes(period)}
}

func (v *service) own(name, statistic string, period float64) awscloudwatch.IMetric {
	return aws(cloud.Namespace, name, statistic, period, map[string]*string{"stage": jsii.String(v.stage.Name)})
}

func aws(namespace, name, statistic string, period float64, dimensions map[string]*string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic),
		Period: minutes(period), DimensionsMap: &dimensions,
	})
}

// expression returns an expression of metrics, with a period in minutes. If one operand has data, CloudWatch takes a
// missing one for 0. It takes a division by 0 for missing. So no expression handles these cases. (FILL would be worse:
// until the data of a period has come, it fills the period as if none would come.)
func expression(
	formula, label string, period float64, metrics map[string]awscloudwatch.IMetric,
) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(formula), UsingMetrics: &metrics, Period: minutes(period), Label: jsii.String(label),
	})
}

// behind returns how many more messages wait in a queue than were received from it in a minute. Above 0, they wait for
// longer than a minute.
func behind(queue awssqs.Queue) awscloudwatch.IMetric {
	return expression("waiting - taken", "behind", 1, map[string]awscloudwatch.IMetric{
		"waiting": queue.MetricApproximateNumberOfMessagesVisible(options("Maximum", 1)),
		"taken":   queue.MetricNumberOfMessagesReceived(options("Sum", 1)),
	})
}

// throttled returns the refused calls of a table and of its indexes. A table's own metric leaves out the indexes.
func throttled(table map[string]*string) awscloudwatch.IMetric {
	metrics := map[string]awscloudwatch.IMetric{
		"r": aws("AWS/DynamoDB", "ReadThrottleEvents", "Sum", 5, table),
		"w": aws("AWS/DynamoDB", "WriteThrottleEvents", "Sum", 5, table),
	}
	formula := "r + w"
	for i, index := range dynamotable.Layout().Indexes {
		id := fmt.Sprint("i", i)
		of := map[string]*string{"GlobalSecondaryIndexName": jsii.String(index.Name)}
		maps.Copy(of, table)
		metrics[id] = aws("AWS/DynamoDB", "WriteThrottleEvents", "Sum", 5, of)
		formula += " + " + id
	}
	return expression(formula, "throttled", 5, metrics)
}

// ratio returns a share of five minutes, in percent.
func ratio(of, by awscloudwatch.IMetric) awscloudwatch.IMetric {
	return expression("100 * of / by", "%", 5, map[string]awscloudwatch.IMetric{"of": of, "by": by})
}

// failures returns the invocations of a function that ended in an error, plus the errors that it logged. Work that is
// handled item by item, such as a batch of messages, ends no invocation in an error.
func (o *ops) failures(function string) awscloudwatch.IMetric {
	return expression("ended + logged", "errors", 5, map[string]awscloudwatch.IMetric{
		"ended":  o.Functions[function].MetricErrors(options("Sum", 5)),
		"logged": o.logged(function),
	})
}

// logged returns how many lines at the level ERROR a program has logged in five minutes.
func (o *ops) logged(program string) awscloudwatch.IMetric {
	return o.lines("Logged"+title(program), program, member("level", "=", "ERROR"))
}

// unanswered returns how many requests API Gateway itself has answered with 5xx in five minutes. It could not reach a
// function, or got no response from it. Its own metric 5XXError counts all 5xx, also those of failed runs. In the
// access log a function's response has no response type, which is written as "-":
// https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-variables-for-access-logging.html
func (o *ops) unanswered() awscloudwatch.IMetric {
	return o.lines("GatewayUnanswered", "gateway",
		awslogs.FilterPattern_All(member("error", "!=", "-"), member("status", "=", "5*")))
}

// member compares a member of a logged object with a string, which may end in a wildcard.
func member(name, comparison, text string) awslogs.JsonPattern {
	return awslogs.FilterPattern_StringValue(jsii.String("$."+name), jsii.String(comparison), jsii.String(text))
}

// lines counts the lines of a program's log that match a pattern, in five minutes.
func (o *ops) lines(name, program string, pattern awslogs.IFilterPattern) awscloudwatch.IMetric {
	awslogs.NewMetricFilter(o.stack, jsii.String(name), &awslogs.MetricFilterProps{
		LogGroup: o.groups[program], MetricNamespace: jsii.String(cloud.Namespace + "/" + o.stage.Name),
		MetricName: jsii.String(name), MetricValue: jsii.String("1"), DefaultValue: jsii.Number(0),
		FilterPattern: pattern,
	})
	return aws(cloud.Namespace+"/"+o.stage.Name, name, "Sum", 5, nil)
}

// concurrency returns the used share of the account's quota of concurrent executions, in percent. It works for any
// quota.
func concurrency() awscloudwatch.IMetric {
	return expression("100 * used / SERVICE_QUOTA(used)", "%", 5, map[string]awscloudwatch.IMetric{
		"used": aws("AWS/Usage", "ResourceCount", "Maximum", 5,
			map[string]*string{"Service": jsii.String("Lambda"), "Type": jsii.String("Resource"),
				"Resource": jsii.String("ConcurrentExecutions"), "Class": jsii.String("None")}),
	})
}

func (o *ops) alarms() {
	for _, f := range functions {
		o.alarm(alarm{name: title(f.name) + "Failing", metric: o.failures(f.name), above: 2})
		o.alarm(alarm{name: title(f.name) + "Throttled", metric: o.Functions[f.name].MetricThrottles(options("Sum", 5)),
			above: 0})
	}
	o.alarm(alarm{name: "AccountConcurrency", metric: concurrency(), above: 80})
	for _, c := range consumers {
		old := alarm{name: title(c.queue) + "QueueOld", metric: behind(o.Queues[c.queue]), points: 2, of: 3}
		if c.old > 0 {
			old.metric, old.above = o.Queues[c.queue].MetricApproximateAgeOfOldestMessage(options("Maximum", 1)), c.old
		}
		o.alarm(old)
		o.alarm(alarm{name: title(c.queue) + "DeadLetters",
			metric: o.Dead[c.queue].MetricApproximateNumberOfMessagesVisible(options("Maximum", 1)), above: 0})
	}
	for name, table := range map[string]awsdynamodb.TableV2{"Core": o.data.Core, "Feed": o.data.Feed} {
		dimensions := map[string]*string{"TableName": table.TableName()}
		o.alarm(alarm{name: name + "TableThrottled",
			metric: throttled(dimensions), above: 0})
		o.alarm(alarm{name: name + "TableConflicts",
			metric: aws("AWS/DynamoDB", "TransactionConflict", "Sum", 5, dimensions), above: 50})
	}
	o.alarm(alarm{name: "PauseMachineFailed", metric: o.Machine.MetricFailed(options("Sum", 5)), above: 0})
	o.alarm(alarm{name: "PauseMachineThrottled", above: 0,
		metric: expression("starts + transitions", "throttled", 5, map[string]awscloudwatch.IMetric{
			// of the account: Step Functions does not report the machine whose start it has refused
			"starts": aws("AWS/States", "ThrottledEvents", "Sum", 5,
				map[string]*string{"APIName": jsii.String("StartExecution")}),
			"transitions": o.Machine.MetricThrottled(options("Sum", 5)),
		})})
	o.alarm(alarm{name: "SweeperSilent", metric: o.Functions["sweeper"].MetricInvocations(options("Sum", 1)), above: 1,
		least: true, points: 3, of: 3, noneIsBad: true})
	o.alarmsOfAnswers()
	o.alarmsOfWork()
}

func (o *ops) alarmsOfAnswers() {
	o.alarm(alarm{name: "GatewayErrors", above: 1, points: 2, of: 3,
		metric: expression("100 * (answered + unanswered) / requests", "%", 5, map[string]awscloudwatch.IMetric{
			"answered": o.own(cloud.FailedAnswers, "Sum", 5), "unanswered": o.unanswered(),
			"requests": aws("AWS/ApiGateway", "Count", "Sum", 5,
				map[string]*string{"ApiName": jsii.String("agents-" + o.stage.Name), "Stage": jsii.String("api")}),
		})})
	o.alarm(alarm{name: "AnswersSlow", above: 1, points: 3, of: 3, metric: ratio(o.own(cloud.SlowAnswers, "Sum", 5),
		o.Functions["api"].MetricInvocations(options("Sum", 5)))})
	o.alarm(alarm{name: "StreamUnhealthy", metric: o.targets.Metrics().HealthyHostCount(options("Minimum", 1)),
		above: 1, least: true, points: 2, of: 3, noneIsBad: true})
	o.alarm(alarm{name: "StreamErrors", above: 5, points: 2, of: 3,
		metric: expression("answered + logged", "errors", 5, map[string]awscloudwatch.IMetric{
			"answered": o.targets.Metrics().HttpCodeTarget(
				awselasticloadbalancingv2.HttpCodeTarget_TARGET_5XX_COUNT, options("Sum", 5)),
			"logged": o.logged("stream"),
		})})
	o.alarm(alarm{name: "StreamsFull", metric: o.own(cloud.OpenStreams, "Maximum", 1), above: 1600, points: 2, of: 3})
}

// alarmsOfWork makes the alarms on the platform's own metrics of runs, documents and webhooks.
func (o *ops) alarmsOfWork() {
	o.alarm(alarm{name: "StartsSlow", metric: o.own(cloud.StartLatency, "p99", 5), above: 30_000, points: 2, of: 3})
	o.alarm(alarm{name: "WorkersLost", metric: o.own(cloud.Recovered, "Sum", 5), above: 5})
	o.alarm(alarm{name: "RunsUnstartable", metric: o.own(cloud.Unstartable, "Sum", 5), above: 0})
	o.alarm(alarm{name: "PausesLate", metric: o.own(cloud.PausesLate, "Sum", 5), above: 0})
	for _, share := range []struct {
		name, failed, attempts string
		above                  float64 // percent
	}{
		{"WebhooksFailing", cloud.WebhookFailed, cloud.WebhookAttempts, 50},
		{"ModelsFailing", cloud.ModelFailed, cloud.ModelAttempts, 5},
		{"IngestionsFailing", cloud.IngestFailed, cloud.IngestEnded, 5},
		{"SearchesFailing", cloud.SearchFailed, cloud.SearchAttempts, 5},
	} {
		o.alarm(alarm{name: share.name, above: share.above, points: 3, of: 3,
			metric: ratio(o.own(share.failed, "Sum", 5), o.own(share.attempts, "Sum", 5))})
	}
	// the least of five minutes: each sweep has left some
	o.alarm(alarm{name: "SweeperBehind", metric: o.own(cloud.SweepLeft, "Minimum", 5), above: 0, points: 3, of: 3})
	o.alarm(alarm{name: "OwnTimeLong", metric: o.own(cloud.OwnTime, "p99", 5), above: 5000, points: 3, of: 3})
	if o.stage.Settings["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" {
		o.alarm(alarm{name: "SpansDropped", metric: o.own(cloud.SpansDropped, "Sum", 5), above: 0, points: 3, of: 3})
	}
}

func (o *ops) dashboard() {
	graph := func(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: jsii.String(title), Left: &metrics,
			Width: jsii.Number(8)})
	}
	var funnel, invoked, failed, ages []awscloudwatch.IMetric
	for _, s := range lifecycle.Statuses() {
		funnel = append(funnel, o.own(cloud.EnteredStatus(s), "Sum", 1))
	}
	for _, f := range functions {
		invoked = append(invoked, o.Functions[f.name].MetricInvocations(options("Sum", 1)))
		failed = append(failed, o.Functions[f.name].MetricErrors(options("Sum", 1)))
	}
	for _, c := range consumers {
		ages = append(ages, o.Queues[c.queue].MetricApproximateAgeOfOldestMessage(options("Maximum", 1)))
	}
	both := func(metric string) []awscloudwatch.IMetric {
		return []awscloudwatch.IMetric{o.own(metric, "p50", 1), o.own(metric, "p99", 1)}
	}
	sums := func(metrics ...string) (all []awscloudwatch.IMetric) {
		for _, metric := range metrics {
			all = append(all, o.own(metric, "Sum", 1))
		}
		return all
	}
	core := map[string]*string{"TableName": o.data.Core.TableName()}
	board := awscloudwatch.NewDashboard(o.stack, jsii.String("Dashboard"),
		&awscloudwatch.DashboardProps{DashboardName: jsii.String("agents-" + o.stage.Name)})
	// Is it the service or the model? The first row is for the service, the second for the model: where a run's time
	// goes, and what fails.
	board.AddWidgets(
		graph("Ours: from queued to running, ms", both(cloud.StartLatency)...),
		graph("Ours: an agent's loop, without its waits for models and tools, ms", both(cloud.OwnTime)...),
		graph("Ours: invocations that ended in an error", failed...),
	)
	board.AddWidgets(
		graph("Models: a call, ms", both(cloud.ModelTime)...),
		graph("Tools: a call, ms", both(cloud.ToolTime)...),
		graph("Models and tools: calls, and those that failed",
			sums(cloud.ModelAttempts, cloud.ModelFailed, cloud.ToolAttempts, cloud.ToolFailed)...),
	)
	board.AddWidgets(
		graph("Runs that entered a status", funnel...),
		graph("Age of the oldest message, s", ages...),
	)
	board.AddWidgets(
		graph("Invocations", invoked...),
		graph("Write units, conflicts, throttles of the core table",
			aws("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", 1, core),
			aws("AWS/DynamoDB", "TransactionConflict", "Sum", 1, core),
			aws("AWS/DynamoDB", "WriteThrottleEvents", "Sum", 1, core)),
		graph("Webhooks tried and failed; streams",
			append(sums(cloud.WebhookAttempts, cloud.WebhookFailed), o.own(cloud.OpenStreams, "Average", 1))...),
	)
	board.AddWidgets(
		graph("Ingestions that ended, and failed for reasons of ours", sums(cloud.IngestEnded, cloud.IngestFailed)...),
		graph("From a document's arrival to its first function, ms", both(cloud.IngestWait)...),
		graph("Searches, ms; words that the index has no room for",
			append(both(cloud.SearchTime), sums(cloud.TermsLost)...)...),
	)
}

// queries saves queries of the logs for common questions of operators.
func (o *ops) queries() {
	var groups []any
	for _, name := range slices.Sorted(maps.Keys(o.groups)) {
		groups = append(groups, o.groups[name].LogGroupName())
	}
	for name, lines := range map[string][]string{
		"one run": {"fields @timestamp, @log, level, msg, error, attempt",
			"filter run_id = 'PUT THE RUN HERE'", "sort @timestamp asc"},
		"one request": {"fields @timestamp, @log, level, msg, method, route, status, code, ms, own_ms, error",
			"filter request_id = 'PUT THE REQUEST HERE'", "sort @timestamp asc"},
		"refused and failed requests": {"filter status >= 400", "stats count(*) as n by status, method, route, code",
			"sort n desc"},
		"slow requests": {"filter msg = 'request' and own_ms >= 3000",
			"fields @timestamp, @log, method, route, status, ms, own_ms, organization_id", "sort own_ms desc",
			"limit 50"},
		"memory and cold starts": {"filter type = 'platform.report'",
			"stats count(*) as invocations, max(record.metrics.maxMemoryUsedMB) as memory_mb, " +
				"sum(ispresent(record.metrics.initDurationMs)) as cold, " +
				"max(record.metrics.initDurationMs) as init_ms by @log"},
		"one document": {"fields @timestamp, @log, level, msg, error, stage, status, why",
			"filter document_id = 'PUT THE DOCUMENT HERE'", "sort @timestamp asc"},
		"errors by message": {"filter level = 'ERROR'", "stats count(*) as n by msg", "sort n desc"},
		"lost nudges":       {"filter msg like /nudge could not be sent/", "stats count(*) by bin(5m), kind"},
		"slowest starts":    {"filter ispresent(StartLatency)", "sort StartLatency desc", "limit 50"},
		"dead letters and why": {"filter msg like /could not be handled/ or msg like /no nudge/",
			"fields @timestamp, kind, id, receives, error", "sort @timestamp desc"},
		"requests that panicked": {"filter msg = 'a request panicked'", "fields @timestamp, request_id, panic, stack"},
	} {
		awslogs.NewCfnQueryDefinition(o.stack, jsii.String("Query-"+strings.ReplaceAll(name, " ", "-")),
			&awslogs.CfnQueryDefinitionProps{
				Name: jsii.String(fmt.Sprintf("agents-%s/%s", o.stage.Name, name)), LogGroupNames: &groups,
				QueryString: jsii.String(strings.Join(lines, "\n| ")),
			})
	}
}

func (o *ops) budget() {
	if o.stage.BudgetUSD == 0 || o.stage.AlarmEmail == "" {
		return // there is no address to send to
	}
	awsbudgets.NewCfnBudget(o.stack, jsii.String("Budget"), &awsbudgets.CfnBudgetProps{
		Budget: &awsbudgets.CfnBudget_BudgetDataProperty{
			BudgetType: jsii.String("COST"), TimeUnit: jsii.String("MONTHLY"),
			BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: jsii.Number(o.stage.BudgetUSD),
				Unit: jsii.String("USD")},
			CostFilters: map[string]any{"TagKeyValue": []string{"user:stage$" + o.stage.Name}},
		},
		NotificationsWithSubscribers: []any{&awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
			Notification: &awsbudgets.CfnBudget_NotificationProperty{
				ComparisonOperator: jsii.String("GREATER_THAN"), NotificationType: jsii.String("FORECASTED"),
				Threshold: jsii.Number(80),
			},
			Subscribers: []any{&awsbudgets.CfnBudget_SubscriberProperty{Address: jsii.String(o.stage.AlarmEmail),
				SubscriptionType: jsii.String("EMAIL")}},
		}},
	})
}

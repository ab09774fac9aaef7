// Package stage defines the differences between deployments: a typed value per stage, validated before anything is
// synthesized. It uses the readers with which the programs read their settings. It imports these and the standard
// library.
package stage

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"agentplatform/internal/ai/provider/registry"
	"agentplatform/internal/platform/setting"
)

// Stage is a deployment.
type Stage struct {
	Name       string
	Precious   bool   // its data is protected from deletion and kept when its stacks are deleted
	AlarmEmail string // receives alarms and the budget by mail; empty: alarms are visible in the console only
	BudgetUSD  int    // per month; a mail at 80 % of it; 0: none
	LogDays    int    // one of CloudWatch's retention times
	AccessLogs bool   // each request at the distribution is logged in a bucket of the stage
	Canary     bool   // a deploy gives new code a tenth of the invocations for five minutes; alarms take it back

	Workers     int // concurrent runs, 2 to 1000; where WorkerTasks is set, to 100,000
	Senders     int // concurrent webhook deliveries, 2 to 1000
	Ingesters   int // documents in progress at the same time, 2 to 1000
	Jobs        int // deletions, retentions, rollups and rebuilds in progress at the same time, 2 to 1000
	StreamTasks int // minimum number of containers for streams
	// WorkerTasks is the minimum number of containers that execute runs, RunsATask each. They replace the worker
	// function, which executes one run at a time. A run that waits for its model then costs next to nothing. 0: the
	// function executes runs.
	WorkerTasks int

	// Concurrency is how many functions the account may run at the same time, as far as this stage may count on them.
	// Each function gets its own part, so that none starves another. 0: no function has its own part. An account whose
	// quota is still 10 has no other choice.
	Concurrency int
	Chats       int // parallel POST /chat that wait or stream, where Concurrency is set
	Requests    int // other parallel requests, where Concurrency is set

	Rate  int // requests a second, of all clients together; beyond it, 429
	Burst int // how many of them may come in one burst
	// AddressRate is how many requests an address may make in five minutes, 10 to 2,000,000,000. A web ACL, for about 6
	// dollars a month, refuses more. 0: there is no limit.
	AddressRate int

	// WarmWrites and WarmReads are the units a second that the core table takes from its first minute on. A new table
	// takes 4,000 and 12,000, and grows with its load. They can be raised, not lowered, and are paid once. 0: as new.
	WarmWrites, WarmReads int

	Domain      string // of the service; empty: one of cloudfront.net
	Certificate string // the ARN of the domain's certificate, in us-east-1

	Settings map[string]string
}

// stages are all deployments. Add yours here.
var stages = map[string]Stage{
	"dev": {LogDays: 7, Workers: 50, Senders: 20, Ingesters: 5, Jobs: 5, StreamTasks: 1, BudgetUSD: 50, Rate: 200,
		Burst: 200},
	"prod": {Precious: true, LogDays: 30, AccessLogs: true, Canary: true, Workers: 400, Senders: 50, Ingesters: 20,
		Jobs: 10, StreamTasks: 2, BudgetUSD: 500, Concurrency: 1000, Chats: 200, Requests: 150, Rate: 5000,
		Burst: 2500, AddressRate: 30_000},
}

// Named returns the stage with a name. A mail address, if given, replaces its AlarmEmail. It fails if there is no such
// stage, or if the stage is invalid.
func Named(name, mail string) (Stage, error) {
	s, ok := stages[name]
	if !ok {
		return s, fmt.Errorf("stage %q is none of %s; say -c stage=NAME, or add it to infra/stage", name,
			strings.Join(slices.Sorted(maps.Keys(stages)), ", "))
	}
	s.Name = name
	if mail != "" {
		s.AlarmEmail = mail
	}
	return s, s.Validate()
}

// Whole returns the stage with the fields that none of the stages above has, for validators (make validate). No stage
// is deployed so.
func (s Stage) Whole() Stage {
	s.WorkerTasks, s.WarmWrites, s.WarmReads = 2, 10_000, 20_000
	s.Domain = "agents.example.com"
	s.Certificate = "arn:aws:acm:us-east-1:123456789012:certificate/1"
	s.Settings = map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "https://xray.eu-central-1.amazonaws.com",
		"BEDROCK_MODELS":              "eu.amazon.nova-lite-v1:0", "BEDROCK_GUARDRAIL": "gr4n9abc:7",
		"EMBEDDING_MODELS": "bedrock/amazon.titan-embed-text-v2:0:512",
	}
	return s
}

// Retentions has the CDK's names for the retention times of CloudWatch Logs up to a year, by their days.
var Retentions = map[int]string{
	1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
	90: "THREE_MONTHS", 120: "FOUR_MONTHS", 150: "FIVE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR",
}

const (
	// unreserved is the concurrency that Lambda keeps for functions without a part of their own.
	unreserved = 100
	// Sweeps is the number of sweeps at the same time: a late one and the next.
	Sweeps = 2
	// FileReads is the number of files of messages that are read at the same time, each in a function.
	FileReads = 20
	// Trials is the number of parallel calls from the api function to another function.
	Trials = 20
	// RunsATask is the number of parallel runs in one container.
	RunsATask = 200
)

// Reserved returns each function's part of the account's concurrency, by name. It is nil if no function has its own
// part.
func (s Stage) Reserved() map[string]int {
	if s.Concurrency == 0 {
		return nil
	}
	parts := map[string]int{
		"chat": s.Chats, "api": s.Requests, "worker": s.Workers, "webhook": s.Senders, "ingest": s.Ingesters,
		"job": s.Jobs, "sweeper": Sweeps, "broker": Trials, "reader": FileReads,
	}
	if s.WorkerTasks > 0 {
		delete(parts, "worker") // nothing invokes it
	}
	return parts
}

// KeyChats returns how many streams and long waits an organization may have at the same time. It is half of the
// functions of POST /chat, at least 1 and at most 1000, the limit of the setting. If Chats is 0, it is 100, a tenth of
// an account's functions. A small account may not be able to run more.
func (s Stage) KeyChats() int {
	if s.Chats == 0 {
		return 100
	}
	return min(max(1, s.Chats/2), 1000)
}

// MostWorkerTasks returns how many containers are needed to execute as many runs as Workers allows.
func (s Stage) MostWorkerTasks() int { return max(s.WorkerTasks, (s.Workers+RunsATask-1)/RunsATask) }

// Validate returns one error that names every invalid field, or nil.
func (s Stage) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("stage %s: %s %s", s.Name, field, fmt.Sprintf(format, args...)))
	}
	if !regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`).MatchString(s.Name) {
		bad("Name", "must have 1 to 16 lower-case letters and digits, a letter first, not %q", s.Name)
	}
	if _, err := mail.ParseAddress(s.AlarmEmail); s.AlarmEmail != "" && err != nil {
		bad("AlarmEmail", "is no mail address: %v", err)
	}
	if s.Precious && s.AlarmEmail == "" {
		bad("AlarmEmail", "must be set where Precious (infra/stage, or -c alarmEmail=ADDRESS): without it alarms tell "+
			"nobody")
	}
	if Retentions[s.LogDays] == "" {
		bad("LogDays", "must be one of %v, not %d", slices.Sorted(maps.Keys(Retentions)), s.LogDays)
	}
	mostWorkers := 1000 // that an event source invokes
	if s.WorkerTasks > 0 {
		mostWorkers = 100_000
	}
	for field, n := range map[string][3]int{
		"BudgetUSD": {s.BudgetUSD, 0, 1_000_000}, "Workers": {s.Workers, 2, mostWorkers},
		"Senders":   {s.Senders, 2, 1000},
		"Ingesters": {s.Ingesters, 2, 1000}, "Jobs": {s.Jobs, 2, 1000},
		"StreamTasks": {s.StreamTasks, 1, 100}, "WorkerTasks": {s.WorkerTasks, 0, 500},
		"Concurrency": {s.Concurrency, 0, 1_000_000},
		"Rate":        {s.Rate, 1, 1_000_000}, "Burst": {s.Burst, 1, 1_000_000},
		"WarmWrites": {s.WarmWrites, 0, 10_000_000}, "WarmReads": {s.WarmReads, 0, 10_000_000},
	} {
		if n[0] < n[1] || n[0] > n[2] {
			bad(field, "must be between %d and %d, not %d", n[1], n[2], n[0])
		}
	}
	if s.AddressRate != 0 && (s.AddressRate < 10 || s.AddressRate > 2_000_000_000) {
		bad("AddressRate", "must be 0, or between 10 and 2000000000, not %d", s.AddressRate)
	}
	s.validateConcurrency(bad)
	switch {
	case s.Domain != "" && !regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`).MatchString(s.Domain):
		bad("Domain", "must be a domain in lower-case letters, not %q", s.Domain)
	case (s.Domain == "") != (s.Certificate == ""):
		bad("Certificate", "and Domain belong together: set both, or none")
	case s.Certificate != "" && !regexp.MustCompile(`^arn:[a-z-]+:acm:us-east-1:\d{12}:certificate/`).MatchString(
		s.Certificate):
		bad("Certificate", "must be the ARN of a certificate in us-east-1, where CloudFront looks for it, not %q",
			s.Certificate)
	}
	return errors.Join(errors.Join(errs...), s.validateSettings())
}

func (s Stage) validateConcurrency(bad func(field, format string, args ...any)) {
	if s.Concurrency == 0 {
		if s.Chats != 0 || s.Requests != 0 {
			bad("Chats", "and Requests are parts of Concurrency, which is not set")
		}
		return
	}
	sum := 0
	for _, n := range s.Reserved() {
		sum += n
	}
	if s.Chats < 1 || s.Requests < 1 {
		bad("Chats", "and Requests must be at least 1 where Concurrency is set")
	}
	if sum+unreserved > s.Concurrency {
		bad("Concurrency", "is %d, and the parts of all functions are %d: Lambda keeps %d for others. Lower Workers, "+
			"Chats, Requests, Senders, Ingesters or Jobs, or ask AWS for a higher quota", s.Concurrency, sum,
			unreserved)
	}
}

// made has the variables that the stacks set themselves.
var made = []string{"ADDR", "DATA_DIR", "PUBLIC_URL", "MAX_BODY", "LEASE", "STAGE", "WORKERS"}

func (s Stage) validateSettings() error {
	known := setting.Names()
	var environ []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		switch kind, ok := known[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("stage %s: Settings: %s is no setting (docs/settings.md)", s.Name, name))
		case kind == setting.Secret:
			errs = append(errs, fmt.Errorf("stage %s: Settings: %s is a secret: put it into the deployment's secret "+
				"in Secrets Manager, not into the templates", s.Name, name))
		case kind == setting.Resource || slices.Contains(made, name):
			errs = append(errs, fmt.Errorf("stage %s: Settings: %s is set by the stacks", s.Name, name))
		default:
			environ = append(environ, name+"="+s.Settings[name])
		}
	}
	settings, err := setting.Read(environ)
	if err == nil {
		_, err = registry.ReadEmbeddings(settings)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("stage %s: Settings: %w", s.Name, err))
	}
	for name, kind := range known { // any value that the stacks will set
		if kind == setting.Resource {
			environ = append(environ, name+"=made")
		}
	}
	if _, err := setting.ReadCloud(environ); err != nil {
		errs = append(errs, fmt.Errorf("stage %s: Settings: %w", s.Name, err))
	}
	return errors.Join(errs...)
}

var geography = regexp.MustCompile(`^([a-z]{2}|us-gov|apac|global)$`)

// IsGeography reports whether the first part of the name of a Bedrock model is that of an inference profile. That is
// the code of a country or of a union, or one of three other words. Providers' names are longer.
func IsGeography(first string) bool { return geography.MatchString(first) }

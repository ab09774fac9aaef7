// Package imports tests which package may import which, with a reason for each rule, and fails when a rule is no
// longer needed.
package imports

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "agentplatform/"

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	// the tags that make functions builds them with
	command := exec.Command("go", "list", "-tags", "lambda.norpc", "-deps",
		"-json=ImportPath,Imports,Deps", "./...")
	command.Dir = "../.."
	out, err := command.Output()
	require.NoError(t, err)
	all := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		require.NoError(t, d.Decode(&p))
		if name, ours := strings.CutPrefix(p.ImportPath, module); ours {
			all[name] = p
		}
	}
	return all
}

func ours(imports []string) []string {
	var list []string
	for _, i := range imports {
		if name, yes := strings.CutPrefix(i, module); yes {
			list = append(list, name)
		}
	}
	return list
}

// The packages of ours that each package may import.
var allowed = []struct {
	room   string
	only   string
	reason string
}{
	{"events", "", "both ends of every border import it, so it drags nothing along"},
	{"internal/lifecycle", "", "the core decides by values alone"},
	{"internal/problem", "", "every room may return one"},
	{"internal/host", "", "every use case takes one"},
	{"internal/setting", "", "names and ranges, not what they are for"},
	{"internal/ratelimit", "internal/host internal/table", "counts keys, whoever they are"},
	{"internal/trace", "", "adds to OpenTelemetry's API, and knows no run"},
	{"internal/waiting", "", "counts time, whatever is waited for"},
	{"internal/share", "", "divides units, whatever they count"},
	{"internal/trace/otlp", "", "an adapter knows its port, the SDK's"},
	{"internal/egress", "internal/trace", "knows addresses, not why they are called"},
	{"internal/table", "", "a port knows no item"},
	{"internal/blob", "", "a port knows no value"},
	{"internal/index", "", "a port knows no document"},
	{"internal/index/memindex", "internal/index", "an adapter knows its port"},
	{"internal/providerhttp", "internal/strictjson internal/trace",
		"what providers' answers have in common, whatever is asked of them"},
	{"internal/model", "internal/egress internal/providerhttp internal/schema",
		"a port knows no run, only how to say that a network or a provider failed, and which schemas are taken"},
	{"internal/index/diskindex", "internal/index", "an adapter knows its port"},
	{"internal/index/s3index", "internal/index internal/host",
		"an adapter knows its port and the SDK, and whose panic is whose"},
	{"internal/index/s3index/vectorserver", "", "stands in for a service, and knows nothing of ours"},
	{"internal/tool", "", "a port knows no run"},
	{"internal/queue", "events", "a port knows no run, only nudges"},
	{"internal/timer", "internal/queue", "a timer sends nudges"},
	{"internal/table/disktable", "internal/table", "an adapter knows its port and its engine"},
	{"internal/table/memtable", "internal/table", "an adapter knows its port"},
	{"internal/table/faulttable", "internal/table", "an adapter knows its port"},
	{"internal/table/dynamotable", "internal/table", "an adapter knows its port and the SDK"},
	{"internal/blob/dirblob", "internal/blob", "an adapter knows its port"},
	{"internal/blob/s3blob", "internal/blob", "an adapter knows its port and the SDK"},
	{"internal/queue/sqsqueue", "internal/queue", "an adapter knows its port and the SDK"},
	{"internal/timer/sfntimer", "events internal/queue",
		"an adapter knows its port, and the nudge that the state machine sends"},
	{"internal/queue/localqueue", "internal/queue internal/share", "an adapter knows its port, and shares workers out"},
	{"internal/timer/localtimer", "internal/queue", "an adapter knows its port, which is a single interface"},
	{"internal/embedding", "internal/egress internal/host internal/providerhttp",
		"a port knows no document, only how calls are made and how they fail"},
	{"internal/embedding/embeddingtest", "internal/embedding internal/providerhttp internal/recording",
		"a suite knows its port, and what the log gets"},
	{"internal/recording", "", "plays what was sent, whatever it means"},
	{"internal/provider", "internal/host internal/model internal/problem", "which models there are, not who asks"},
	{"internal/tool/builtintool", "internal/tool internal/host", "an adapter knows its port and its clock"},
	{"internal/tool/httptool", "internal/egress internal/tool",
		"an adapter knows its port, and how to say that a network failed"},
	{"internal/tool/openapitool", "internal/tool internal/tool/httptool",
		"an adapter knows its port, and ends in a request"},
	{"internal/tool/mcptool", "internal/egress internal/tool internal/tool/httptool",
		"an adapter knows its port, and what failures over HTTP are called"},
	{"internal/chunking", "internal/document internal/words", "divides texts, whatever is done with the pieces"},
	{"internal/words", "internal/document internal/index",
		"knows words, not where they are kept or what they are worth"},
	{"internal/ranking", "internal/index internal/words", "orders what was found, whoever asks"},
	{"internal/extract", "internal/document internal/extract/pdftext", "reads files, whosever they are"},
	{"internal/reader", "events internal/blob internal/extract internal/problem internal/record",
		"has files read, and knows neither runs nor what carries an ask"},
	{"internal/reader/lambdareader", "", "an adapter knows the SDK"},
	{"internal/extract/bombtest", "", "makes files, whatever reads them"},
	{"internal/extract/pdftext", "", "reads PDFs, in whatever process"},
	{"internal/strictjson", "", "reads JSON, whosever it is"},
	{"internal/schema", "", "holds JSON against schemas, whosever they are"},
	{"internal/toolkit", "internal/catalog internal/egress internal/host internal/problem internal/record " +
		"internal/schema internal/seal internal/strictjson internal/tool",
		"where tools come from, not what calls them"},
	{"internal/record", "events internal/blob internal/host internal/lifecycle internal/problem internal/table",
		"stored shapes know the core and the store's ports"},
	{"internal/ingestion", "", "the life cycle decides by values alone"},
	{"internal/catalog", "internal/ingestion internal/record internal/tool",
		"says what things have, not what is done with them"},
	{"internal/invariant", "internal/lifecycle internal/record internal/table",
		"reads what is stored, and knows nobody who stores it"},
	{"internal/transition", "events internal/host internal/lifecycle internal/problem internal/queue internal/record " +
		"internal/timer internal/trace", "the shell knows what it commits and what it sends"},
	{"internal/rollup", "", "adds up entries, wherever they come from"},
	{"internal/analytics", "internal/catalog internal/host internal/problem internal/record internal/rollup",
		"a use case imports no other"},
	{"internal/citation", "internal/record", "knows what was found, not who may read it"},
	{"internal/view", "internal/catalog internal/citation events internal/lifecycle internal/problem internal/record",
		"public shapes are built from stored ones"},
	{"internal/stream", "events internal/citation internal/host internal/lifecycle internal/problem " +
		"internal/record internal/table " +
		"internal/view internal/waiting", "streams show views of what is stored"},
	{"internal/seal", "", "a port knows no secret"},
	{"internal/seal/keyseal", "internal/seal", "an adapter knows its port"},
	{"internal/seal/kmsseal", "internal/seal", "an adapter knows its port and the SDK"},
	{"internal/broker", "internal/egress internal/embedding events internal/host internal/model internal/problem " +
		"internal/provider internal/record internal/seal internal/strictjson internal/tool internal/toolkit " +
		"internal/trace internal/waiting internal/webhook",
		"asks what use cases are asked, and knows neither who may nor what carries an ask"},
	{"internal/broker/lambdabroker", "internal/broker", "an adapter knows its port and the SDK"},
	{"internal/tenant", "internal/catalog internal/citation internal/host internal/problem internal/record " +
		"internal/schema " +
		"internal/seal internal/strictjson", "who may do what, not what is done"},
	{"internal/intake", "internal/catalog internal/host internal/lifecycle internal/transition internal/problem " +
		"internal/record internal/schema internal/strictjson internal/tenant internal/view",
		"a use case imports no other that runs beside it"},
	{"internal/agent", "internal/catalog internal/citation events internal/host internal/lifecycle " +
		"internal/model internal/record " +
		"internal/schema internal/strictjson internal/tool internal/trace", "the loop knows no lease and no store"},
	{"internal/worker", "internal/catalog internal/citation internal/agent internal/blob internal/extract " +
		"internal/stream " +
		"internal/host internal/lifecycle internal/model internal/transition internal/problem internal/reader " +
		"internal/record internal/tool internal/trace internal/view", "the worker drives the loop"},
	{"internal/sweep", "events internal/catalog internal/host internal/ingestion internal/lifecycle " +
		"internal/transition internal/problem internal/queue " +
		"internal/record", "a use case imports no other"},
	{"internal/knowledge", "internal/blob internal/catalog internal/document internal/egress internal/embedding " +
		"internal/host internal/index internal/ingestion internal/problem internal/ranking internal/record " +
		"internal/tenant internal/trace internal/waiting internal/words",
		"a use case imports no other that runs beside it"},
	{"internal/ingest", "internal/blob internal/catalog internal/chunking internal/document internal/egress " +
		"internal/embedding internal/extract internal/host internal/index internal/ingestion internal/knowledge " +
		"internal/problem internal/record internal/trace internal/words",
		"works on what knowledge keeps, and is not asked by clients"},
	{"internal/files", "internal/blob internal/problem internal/record", "a use case imports no other"},
	{"internal/webhook", "internal/catalog internal/citation events internal/egress internal/host internal/problem " +
		"internal/record internal/seal internal/trace internal/view",
		"a use case imports no other"},
	{"internal/mcpserver", "internal/catalog internal/citation internal/files internal/stream internal/host " +
		"internal/intake internal/lifecycle " +
		"internal/problem internal/record internal/tenant internal/tool internal/view", "it knows runs as clients do"},
	{"internal/a2a", "events internal/lifecycle internal/record internal/view",
		"shapes of the protocol are built from views"},
	{"internal/a2aserver", "internal/a2a internal/catalog events internal/files internal/stream internal/host " +
		"internal/intake " +
		"internal/lifecycle internal/problem internal/record internal/seal internal/strictjson internal/tenant " +
		"internal/view",
		"it knows runs as clients do"},
	{"internal/responses", "internal/catalog internal/citation internal/files internal/host internal/intake " +
		"internal/lifecycle internal/model internal/problem internal/record internal/stream internal/tenant " +
		"internal/view", "it knows runs as clients do"},
	{"internal/aguiserver", "events internal/citation internal/files internal/host internal/intake " +
		"internal/lifecycle internal/model internal/problem internal/record internal/stream internal/strictjson " +
		"internal/tenant internal/view",
		"it knows runs as clients do"},
	{
		"internal/httpapi",
		"internal/apidoc events internal/host internal/lifecycle internal/problem internal/ratelimit " +
			"internal/record internal/share internal/strictjson internal/tenant internal/trace internal/waiting",
		"the framework knows how requests are read and answered, not what any operation does",
	},
	{
		"internal/httpapi/accounts",
		"internal/catalog events internal/host internal/httpapi internal/lifecycle internal/problem internal/record " +
			"internal/tenant",
		"the operations of an area use its use cases",
	},
	{
		"internal/httpapi/agents",
		"internal/catalog events internal/egress internal/httpapi internal/problem internal/provider internal/record " +
			"internal/tenant internal/tool internal/toolkit internal/webhook",
		"the operations of an area use its use cases",
	},
	{
		"internal/httpapi/files",
		"events internal/files internal/host internal/httpapi internal/problem internal/record internal/tenant",
		"the operations of an area use its use cases",
	},
	{"internal/apidoc", "", "knows the document's rules, not what any operation does"},
	{"internal/panel", "", "files for browsers, which reach the API as every client does"},
	{"internal/httpapi/meta", "internal/httpapi internal/tenant internal/version",
		"is about the service, not about what it is for"},
	{
		"internal/httpapi/protocol",
		"internal/a2aserver internal/aguiserver internal/stream internal/httpapi internal/intake internal/problem " +
			"internal/record internal/responses internal/tenant",
		"the operations of an area use its use cases",
	},
	{
		"internal/httpapi/reports",
		"internal/analytics events internal/httpapi internal/problem internal/record internal/rollup internal/tenant",
		"the operations of an area use its use cases",
	},
	{
		"internal/httpapi/runs",
		"events internal/citation internal/egress internal/stream internal/files internal/host internal/httpapi " +
			"internal/intake internal/lifecycle internal/problem internal/record internal/tenant " +
			"internal/view internal/webhook",
		"the operations of an area use its use cases",
	},
	{
		"internal/httpapi/webhooks",
		"events internal/egress internal/httpapi internal/intake internal/problem " +
			"internal/record internal/tenant internal/view internal/webhook",
		"the operations of an area use its use cases",
	},
	{"internal/removal", "internal/catalog internal/host internal/index internal/lifecycle internal/transition " +
		"internal/problem " +
		"internal/record", "a use case imports no other"},
	{"internal/dispatch", "internal/host internal/queue", "brings nudges to whoever handles them"},
	{"internal/table/cachetable", "internal/table", "a decorator knows its port"},
	{"internal/trigger", "internal/dispatch internal/queue internal/queue/sqsqueue",
		"turns Lambda's shapes into ours and knows no run"},
	{"infra/stage", "internal/setting", "values alone, checked before anything is made as the programs will"},
	{"infra/iam", "", "knows AWS's calls and policies, not who makes or has them"},
	{"infra/cloudwatch", "", "knows alarms and metrics, not what any of them means"},
	{"internal/logline", "", "knows lines, not what they say"},
	{"internal/version", "", "knows a build, not what it does"},
	{"functions/local", "internal/boot internal/logline internal/setting internal/version",
		"a main makes a value, runs and stops it"},
	{"scripts/import", "scripts/import/plan", "a client of the API like any other, with no help of the service"},
	{"scripts/import/plan", "internal/provider/registry internal/strictjson",
		"turns exports into values, and knows no API and no store, only which providers there are"},
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	all := packages(t)
	for _, rule := range allowed {
		p, there := all[rule.room]
		if !assert.True(t, there, "the rule for %s is stale: there is no such package", rule.room) {
			continue
		}
		may := strings.Fields(rule.only)
		imports := ours(p.Imports)
		for _, i := range imports {
			assert.Contains(t, may, i, "%s must not import it: %s", rule.room, rule.reason)
		}
		for _, i := range may {
			assert.Contains(t, imports, i, "the rule for %s is stale: it does not import %s any more", rule.room, i)
		}
	}
}

// Only these import the port to the store: others say what they do by the methods of record.Tx, and know neither keys
// nor conditions nor how a repetition finds its own writes.
var onTheTable = map[string]string{
	"internal/record":              "it alone knows what is stored, and how",
	"internal/ratelimit":           "what processes tell each other of keys lives for minutes, beside the streams",
	"internal/stream":              "streams have a table of their own, whose entries live for minutes",
	"internal/table/memtable":      "an adapter",
	"internal/table/disktable":     "an adapter",
	"internal/table/dynamotable":   "an adapter",
	"internal/table/cachetable":    "an adapter",
	"internal/table/faulttable":    "an adapter",
	"internal/table/tabletest":     "the suite of the adapters",
	"internal/httpapi/httpapitest": "the wiring of the HTTP layer's tests, and its faults",
	"internal/invariant":           "it reads items as they stand, for those who check invariants",
	"internal/sim":                 "the simulator's wiring, and its faults",
	"internal/sim/explore":         "the exploration's wiring, and its faults",
}

func TestOnlyWhatIsStoredKnowsTheTable(t *testing.T) {
	all := packages(t)
	for name, p := range all {
		if slices.Contains(ours(p.Imports), "internal/table") {
			assert.Contains(t, onTheTable, name,
				"%s imports the port to the store: its use cases write by record.Tx", name)
		}
	}
	for name, reason := range onTheTable {
		assert.Contains(t, ours(all[name].Imports), "internal/table", "the rule for %s (%s) is stale", name, reason)
	}
}

// An area of the HTTP layer is read and changed by itself: what two of them need stands in the framework, which knows
// neither. Only the package service puts them together, for the wirings and for what helps tests.
func TestAreasOfTheAPIImportTheFrameworkAlone(t *testing.T) {
	const framework, service, helpers = "internal/httpapi", "internal/httpapi/service", "internal/httpapi/httpapitest"
	areas := 0
	for name, p := range packages(t) {
		isPart := strings.HasPrefix(name, framework+"/")
		for _, i := range ours(p.Imports) {
			switch {
			case !strings.HasPrefix(i, framework+"/"):
			case i == service:
				assert.True(t, name == helpers || name != framework && !isPart, "%s imports %s, which is the whole",
					name, i)
			default:
				assert.Equal(t, service, name, "%s imports the area %s", name, i)
			}
		}
		if isPart && name != service && name != helpers {
			areas++
			assert.Contains(t, ours(p.Imports), framework, "%s is no area of the API", name)
		}
	}
	assert.Positive(t, areas, "the rule is stale: there are no areas")
}

func TestOnlyTheWiringAndTestsImportAdapters(t *testing.T) {
	adapters := []string{
		"internal/table/disktable", "internal/table/memtable", "internal/table/faulttable", "internal/blob/dirblob",
		"internal/blob/memblob", "internal/index/diskindex", "internal/index/memindex", "internal/index/s3index",
		"internal/queue/localqueue", "internal/timer/localtimer",
		"internal/tool/builtintool", "internal/tool/httptool", "internal/tool/openapitool",
		"internal/tool/mcptool", "internal/table/dynamotable", "internal/table/cachetable",
		"internal/queue/sqsqueue", "internal/timer/sfntimer", "internal/blob/s3blob", "internal/seal/keyseal",
		"internal/seal/kmsseal", "internal/broker/lambdabroker",
		"internal/reader/lambdareader", "internal/trace/otlp",
	}
	// The wirings; the kinds of toolkits whose tools are HTTP requests; the simulator's; the templates, which use
	// shapes from adapters; the trigger, which reads SQS messages.
	wiring := []string{
		"internal/boot", "internal/cloud", "internal/cloud/asking", "internal/cloud/search", "internal/cloud/work",
		"internal/provider/registry", "internal/toolkit/kinds",
		"internal/tool/openapitool", "internal/tool/mcptool", "internal/sim", "internal/sim/explore", "infra/stacks",
		"internal/trigger", "scripts/retrieval", "scripts/firstkey", "scripts/operate",
		"internal/httpapi/httpapitest",
	}
	for name, p := range packages(t) {
		if slices.Contains(wiring, name) {
			continue
		}
		for _, i := range ours(p.Imports) {
			assert.False(t, slices.Contains(adapters, i) || portOf(i) != "", "%s imports the adapter %s", name, i)
		}
	}
}

// portOf is the port of an adapter of a model provider, by its name; empty: it is none.
func portOf(name string) string {
	for _, port := range []string{"model", "embedding"} {
		if below, is := strings.CutPrefix(name, "internal/"+port+"/"); is && strings.HasSuffix(below, port) {
			return "internal/" + port
		}
	}
	return ""
}

// A new provider needs no rule of its own.
func TestAdaptersOfProvidersKnowTheirPort(t *testing.T) {
	adapters := 0
	for name, p := range packages(t) {
		port := portOf(name)
		if port == "" {
			continue
		}
		adapters++
		may := []string{port, "internal/providerhttp"} // beside the product's library
		if name == "internal/model/demomodel" {
			may = append(may, "internal/host") // its clock
		}
		assert.Contains(t, ours(p.Imports), port, "%s is named after a port", name)
		for _, i := range ours(p.Imports) {
			assert.Contains(t, may, i, "%s must not import it", name)
		}
	}
	assert.Positive(t, adapters, "the rule is stale: there are no adapters")
}

// What must not be linked, with the reason.
var forbidden = []struct{ program, dependency, reason string }{
	{"functions/local", "testing", "what tests need is not shipped"},
	{"functions/local", "github.com/stretchr/testify/assert", "what tests need is not shipped"},
	{"functions/local", module + "internal/sim", "the simulator is a test"},
	{"functions/local", module + "internal/table/faulttable", "faults are for tests"},
	{"functions/local", module + "internal/scenario", "stories are tests"},
	{"functions/local", module + "internal/invariant", "invariants are checked by tests"},
	{"functions/local", module + "internal/recording", "recordings are for tests"},
}

func TestProgramsDoNotLinkForbiddenPackages(t *testing.T) {
	all := packages(t)
	for _, rule := range forbidden {
		p, there := all[rule.program]
		require.True(t, there, "the rule for %s is stale", rule.program)
		assert.False(t, slices.Contains(p.Deps, rule.dependency), "%s links %s: %s", rule.program, rule.dependency,
			rule.reason)
	}
}

// found returns the lines of a package's shipped files, and of those below it, that match.
func found(t *testing.T, pattern, name string) []string {
	t.Helper()
	dir := filepath.Join("..", name)
	require.DirExists(t, dir, "the rule for %s is stale", name)
	out, err := exec.Command("grep", "-rnE", pattern, "--include=*.go", "--exclude=*_test.go", dir).Output()
	if exit, none := errors.AsType[*exec.ExitError](err); none && exit.ExitCode() == 1 {
		return nil
	}
	require.NoError(t, err)
	return slices.Collect(strings.Lines(string(out)))
}

// What is written together is for a use case to say, which other entry points than HTTP have as well.
func TestTheHTTPLayerCommitsNothing(t *testing.T) {
	const writing = `\.(Commit|Begin|NoteDeed|NoteUse|Erase\w*)\(|record\.(Create|Change|Remove)\b`
	for _, name := range []string{"httpapi", "mcpserver", "a2aserver", "aguiserver"} {
		for _, line := range found(t, writing, name) {
			t.Errorf("a use case commits: %s", line)
		}
	}
}

func TestUseCasesReadNoClock(t *testing.T) {
	for _, name := range []string{"lifecycle", "intake", "worker", "agent", "sweep", "webhook", "removal", "transition",
		"record", "catalog", "tenant", "toolkit", "stream", "files", "view", "ingestion", "knowledge",
		"ingest", "analytics", "rollup"} {
		for _, line := range found(t, `time\.(Now|Since|Until|Sleep|After|NewTimer|NewTicker)\(|^\s*go `, name) {
			if strings.Contains(line, "stream/notifier.go") { // one process's notifier waits on its machine's clock
				continue
			}
			t.Errorf("use cases take the clock and their goroutines from host: %s", line)
		}
	}
}

// A busy machine makes each number of seconds too few: a scenario compares with what would happen otherwise.
func TestScenariosHaveOneLimitForWhatHappensAtOnce(t *testing.T) {
	for _, line := range found(t, `Less\w*\(x, time\.(Since|Until)\(\w+\), ([0-9]|time\.)`, "scenario") {
		t.Errorf("its limit is soon: %s", line)
	}
}

// Where the outer context is asked first, and ends before the other one is asked, its end is taken for a limit.
func TestTheOuterContextIsNotAskedFirst(t *testing.T) {
	for _, line := range found(t, `\.Err\(\) == nil && \w+\.Err\(\) != nil`, ".") {
		t.Errorf("host.OutOfTime asks in the right order: %s", line)
	}
}

// What must not be linked into a function, directly or indirectly: each has a cold start, which grows with its
// size. Of model providers the linker leaves out what a function does not make; internal/provider/registry tests it.
var unlinked = map[string][]string{
	"functions/chat": {"internal/index/s3index", "internal/worker", "internal/agent", "internal/removal",
		"internal/table/disktable", "internal/boot"},
	"functions/api": {"internal/extract", "internal/ingest", "internal/worker",
		"internal/agent", "internal/removal", "internal/table/disktable", "internal/boot"},
	"functions/stream": {"internal/index/s3index", "internal/worker", "internal/agent", "internal/removal",
		"internal/table/disktable", "internal/boot", "internal/trigger"},
	"functions/worker": {"internal/httpapi", "internal/webhook", "internal/sweep", "internal/removal",
		"internal/intake", "internal/table/disktable", "internal/boot"},
	"functions/broker": {"internal/httpapi", "internal/intake", "internal/worker", "internal/agent", "internal/removal",
		"internal/extract", "internal/ingest", "internal/index/s3index",
		"internal/table/disktable", "internal/boot", "internal/trigger"},
	"functions/reader": {"internal/cloud", "internal/httpapi", "internal/worker", "internal/agent", "internal/tenant",
		"internal/table/dynamotable", "internal/blob/s3blob", "internal/boot"},
	"functions/webhook": {"internal/httpapi", "internal/worker", "internal/agent", "internal/sweep", "internal/removal",
		"internal/intake", "internal/table/disktable"},
	"functions/job": {"internal/httpapi", "internal/worker", "internal/agent", "internal/webhook",
		"internal/intake", "internal/table/disktable"},
	"functions/ingest": {"internal/httpapi", "internal/worker", "internal/agent", "internal/sweep", "internal/removal",
		"internal/intake", "internal/webhook",
		"internal/table/disktable", "internal/boot"},
	"functions/sweeper": {"internal/knowledge", "internal/httpapi", "internal/worker", "internal/agent",
		"internal/webhook",
		"internal/removal", "internal/intake", "internal/table/disktable"},
	"functions/local": {"internal/cloud", "internal/table/dynamotable", "internal/queue/sqsqueue",
		"internal/timer/sfntimer", "internal/blob/s3blob"},
}

// foreign are libraries that only some functions may link.
var foreign = map[string][]string{
	"github.com/danielgtaylor/huma/v2": {"functions/chat", "functions/api", "functions/stream",
		"functions/local"},
	// its methods are found by reflection, so that the linker keeps every method of every type
	"text/template":                    {},
	"github.com/cockroachdb/pebble/v2": {"functions/local"},
	"github.com/modelcontextprotocol/go-sdk/mcp": {"functions/chat", "functions/api", "functions/broker",
		"functions/worker", "functions/local"},
	"github.com/getkin/kin-openapi/openapi3": {"functions/api", "functions/broker", "functions/worker",
		"functions/local"},
	"github.com/aws/aws-lambda-go/lambda": {"functions/chat", "functions/api", "functions/broker", "functions/reader",
		"functions/worker", "functions/webhook", "functions/job", "functions/ingest", "functions/sweeper"},
	"github.com/aws/aws-cdk-go/awscdk/v2": {},
	// OpenTelemetry's exporter and shapes make a function up to 18 MB larger; traces are sent by our own (ADR 20)
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace": {},
	"go.opentelemetry.io/collector/pdata/pcommon":       {},
	// it brings Protocol Buffers along; only those that answer questions, and the daily work, need it
	"github.com/DataDog/sketches-go/ddsketch": {"functions/chat", "functions/api", "functions/stream", "functions/job",
		"functions/local"},
}

func TestFunctionsLinkOnlyWhatTheyNeed(t *testing.T) {
	all := packages(t)
	for name, never := range unlinked {
		p, there := all[name]
		require.True(t, there, name)
		for _, n := range never {
			require.Contains(t, all, n, "the rule for %s is stale: there is no %s", name, n)
			assert.NotContains(t, p.Deps, module+n, "%s", name)
		}
		for library, may := range foreign {
			if !slices.Contains(may, name) {
				assert.NotContains(t, p.Deps, library, "%s", name)
			}
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "functions/") {
			assert.Contains(t, unlinked, name, "say what it must not link")
		}
	}
}

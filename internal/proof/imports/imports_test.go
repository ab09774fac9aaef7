// Package imports tests the imports of each package. Each rule has its reason, and fails when it is no longer needed.
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
	command.Dir = "../../.."
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

// wing returns the folder directly under internal that has a package. It is empty for a package elsewhere.
func wing(name string) string {
	below, inside := strings.CutPrefix(name, "internal/")
	if !inside {
		return ""
	}
	first, _, _ := strings.Cut(below, "/")
	return first
}

// isSuite reports whether a package has tests for the adapters of a port, or helps tests in another way.
func isSuite(name string) bool {
	return strings.HasSuffix(name, "test")
}

// The wings, from top to bottom, each with the other wings that its packages may import. All may import events.
var wings = []struct{ name, may, reason string }{
	{"wiring", "api run knowledge org ai text store core platform",
		"makes adapters and use cases, and connects them"},
	{"api", "run knowledge org ai text store core platform", "turns requests into calls of use cases"},
	{"run", "org ai text store core platform", "executes runs; a search is a tool, which the wiring passes in"},
	{"knowledge", "org ai text store core platform", "knows documents, and no run"},
	{"org", "ai store core platform", "knows who may do what, and which tools there are; it calls none"},
	{"ai", "platform", "calls models and tools; it knows neither who calls nor what is stored"},
	{"text", "store platform", "turns files into text, and text into what is found"},
	{"store", "core platform", "knows what is stored and how, and not why"},
	{"core", "", "decides by values alone"},
	{"platform", "", "knows nothing of agents"},
	{"proof", "api run knowledge org ai text store core platform",
		"drives and checks everything; nothing imports it"},
}

func TestWingsImportDownwards(t *testing.T) {
	all := packages(t)
	used := map[[2]string]bool{}
	there := map[string]bool{}
	for name, p := range all {
		from := wing(name)
		if from == "" {
			continue
		}
		there[from] = true
		at := slices.IndexFunc(wings, func(w struct{ name, may, reason string }) bool { return w.name == from })
		if !assert.GreaterOrEqual(t, at, 0, "%s stands in no wing", name) {
			continue
		}
		for _, i := range ours(p.Imports) {
			to := wing(i)
			used[[2]string{from, to}] = true
			switch {
			case i == "events", to == from, to == "proof" && isSuite(name):
			case slices.Contains(strings.Fields(wings[at].may), to):
			default:
				t.Errorf("%s must not import %s: %s %s", name, i, from, wings[at].reason)
			}
		}
	}
	for _, w := range wings {
		assert.True(t, there[w.name], "the rule for the wing %s is stale: it has no package", w.name)
		for _, to := range strings.Fields(w.may) {
			assert.True(t, used[[2]string{w.name, to}], "the rule for %s is stale: it does not import %s", w.name, to)
		}
	}
}

// Within a wing: all of our packages that these import.
var within = []struct{ room, only, reason string }{
	{"events", "", "both ends of every border import it, so it brings nothing along"},
	{"internal/core/lifecycle", "", "the life of a run is decided by values alone"},
	{"internal/core/docstate", "", "the life of a document is decided by values alone"},
	{"internal/run/agent", "internal/org/catalog internal/store/citation events internal/platform/host " +
		"internal/core/lifecycle internal/ai/model internal/store/record internal/platform/schema " +
		"internal/platform/strictjson internal/ai/tool internal/platform/trace internal/platform/problem",
		"the loop knows no lease"},
	{"internal/store/rollup", "", "adds up entries"},
	{"internal/text/document", "", "is the shape of a text"},
	{"internal/text/chunking", "internal/text/document internal/text/words", "divides texts"},
	{"internal/text/words", "internal/text/document internal/text/index", "knows words, not what they are worth"},
	{"internal/text/ranking", "internal/text/index internal/text/words", "orders what was found"},
	{"internal/text/extract", "internal/text/document internal/text/extract/pdftext internal/platform/codepage " +
		"internal/platform/share",
		"reads files, and stores nothing"},
	{"internal/api/apidoc", "", "knows the rules of the document, not what an operation does"},
	{"internal/api/panel", "", "is files for browsers, which use the API as every client does"},
	{"internal/proof/invariant", "internal/core/lifecycle internal/store/record internal/store/table",
		"reads what is stored, and knows nobody who stores it"},
	{"infra/stage", "internal/ai/provider/registry internal/platform/setting",
		"is values alone, which the programs check by the same rules"},
	{"infra/iam", "", "knows calls and policies of AWS"},
	{"infra/cloudwatch", "", "knows alarms and metrics"},
	{"functions/agentplatform", "internal/wiring/boot internal/platform/logline " +
		"internal/platform/setting internal/platform/version", "a main makes a value, runs it and stops it"},
	{"scripts/import", "scripts/import/plan", "is a client of the API like any other"},
	{"scripts/import/plan", "internal/ai/provider/registry internal/platform/strictjson",
		"turns exports into values, and knows no API and no store, only which providers there are"},
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	all := packages(t)
	for _, rule := range within {
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

// The packages of its own wing that a use case or a leaf may import. They are independent of each other, and share only
// the store.
var beside = map[string]string{
	"internal/run/intake": "internal/run/transition internal/run/view",
	"internal/run/worker": "internal/run/agent internal/run/stream internal/run/transition " +
		"internal/run/view",
	"internal/run/stream":           "internal/run/view",
	"internal/run/sweep":            "internal/run/transition",
	"internal/run/webhook":          "internal/run/view",
	"internal/run/removal":          "internal/run/transition",
	"internal/org/toolkit":          "internal/org/catalog",
	"internal/org/tenant":           "internal/org/catalog",
	"internal/org/analytics":        "internal/org/catalog",
	"internal/org/toolkit/adapters": "internal/org/toolkit",
	"internal/platform/egress":      "internal/platform/trace",
	"internal/platform/schema":      "internal/platform/share",
}

func TestUseCasesAndLeavesStandBesideEachOther(t *testing.T) {
	for name, p := range packages(t) {
		if !slices.Contains([]string{"run", "org", "platform", "core"}, wing(name)) {
			continue
		}
		var imports []string
		for _, i := range ours(p.Imports) {
			if wing(i) == wing(name) {
				imports = append(imports, i)
			}
		}
		assert.ElementsMatch(t, strings.Fields(beside[name]), imports, "what %s imports of its own wing", name)
	}
}

// The ports. A port knows no other package of its wing; an adapter knows its port, and no other port.
var ports = []struct{ port, besides string }{
	{"internal/store/table", ""},
	{"internal/store/blob", ""},
	{"internal/store/queue", ""},
	{"internal/store/timer", "internal/store/queue"}, // a timer sends messages
	{"internal/store/seal", ""},
	{"internal/text/index", ""},
	{"internal/ai/model", "internal/ai/providerhttp"},
	{"internal/ai/embedding", "internal/ai/providerhttp"},
	{"internal/ai/tool", ""},
}

func TestAdaptersKnowTheirPort(t *testing.T) {
	all := packages(t)
	for _, rule := range ports {
		require.Contains(t, all, rule.port, "the rule for %s is stale", rule.port)
		for name, p := range all {
			if name != rule.port && !strings.HasPrefix(name, rule.port+"/") || isSuite(name) {
				continue
			}
			for _, i := range ours(p.Imports) {
				known := i == "events" || wing(i) == "platform" || i == rule.port || i == rule.besides ||
					name != rule.port && strings.HasPrefix(i, rule.port+"/")
				assert.True(t, known, "%s must not import %s: it knows its port alone", name, i)
			}
		}
	}
}

// Only these import the port to the store. Other packages use the methods of record.Tx. They know neither keys nor
// conditions nor how a repetition finds its own writes.
var onTheTable = map[string]string{
	"internal/store/record":            "it alone knows what is stored, and how",
	"internal/store/ratelimit":         "counts of keys that processes share live for minutes, like streams",
	"internal/run/stream":              "streams have a table of their own, whose entries live for minutes",
	"internal/store/table/memtable":    "an adapter",
	"internal/store/table/disktable":   "an adapter",
	"internal/store/table/dynamotable": "an adapter",
	"internal/store/table/cachetable":  "an adapter",
	"internal/proof/faulttable":        "an adapter",
	"internal/store/table/tabletest":   "the suite of the adapters",
	"internal/api/httpapi/httpapitest": "the wiring of the HTTP layer's tests, and its faults",
	"internal/proof/invariant":         "it reads items as they stand, for those who check invariants",
	"internal/proof/sim":               "the simulator's wiring, and its faults",
	"internal/proof/sim/explore":       "the exploration's wiring, and its faults",
}

func TestOnlyWhatIsStoredKnowsTheTable(t *testing.T) {
	all := packages(t)
	for name, p := range all {
		if slices.Contains(ours(p.Imports), "internal/store/table") {
			assert.Contains(t, onTheTable, name,
				"%s imports the port to the store: its use cases write by record.Tx", name)
		}
	}
	for name, reason := range onTheTable {
		assert.Contains(t, ours(all[name].Imports), "internal/store/table", "the rule for %s (%s) is stale", name,
			reason)
	}
}

// An area of the HTTP layer is read and changed by itself. Code that two areas need is in the framework, which knows
// neither. Only the package service joins them, for the wirings and for test helpers.
func TestAreasOfTheAPIImportTheFrameworkAlone(t *testing.T) {
	const framework, service, helpers = "internal/api/httpapi", "internal/api/httpapi/service",
		"internal/api/httpapi/httpapitest"
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
		"internal/store/table/disktable", "internal/store/table/memtable", "internal/proof/faulttable",
		"internal/store/blob/dirblob",
		"internal/store/blob/memblob", "internal/text/index/diskindex", "internal/proof/memindex",
		"internal/text/index/s3index",
		"internal/store/queue/localqueue",
		"internal/ai/tool/builtintool", "internal/ai/tool/httptool", "internal/ai/tool/openapitool",
		"internal/ai/tool/mcptool", "internal/store/table/dynamotable", "internal/store/table/cachetable",
		"internal/store/queue/sqsqueue", "internal/store/timer/sfntimer", "internal/store/blob/s3blob",
		"internal/store/seal/keyseal",
		"internal/store/seal/kmsseal", "internal/wiring/broker/lambdabroker",
		"internal/text/reader/lambdareader", "internal/platform/trace/otlp",
	}
	// The wirings; the kinds of toolkits whose tools are HTTP requests; the simulator's; the templates, which use
	// shapes from adapters; the trigger, which reads SQS messages.
	wiring := []string{
		"internal/wiring/boot", "internal/wiring/cloud", "internal/wiring/cloud/brokerclient",
		"internal/wiring/cloud/search", "internal/wiring/cloud/runworker", "internal/wiring/cloud/httpedge",
		"internal/ai/provider/registry", "internal/org/toolkit/adapters",
		"internal/ai/tool/openapitool", "internal/ai/tool/mcptool", "internal/proof/sim",
		"internal/proof/sim/explore", "infra/stacks",
		"internal/wiring/trigger", "scripts/retrieval", "scripts/firstkey", "scripts/operate",
		"internal/api/httpapi/httpapitest",
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

// portOf returns the port of an adapter of a model provider, by its name. It is empty for any other package.
func portOf(name string) string {
	for _, port := range []string{"model", "embedding"} {
		if below, is := strings.CutPrefix(name, "internal/ai/"+port+"/"); is && strings.HasSuffix(below, port) {
			return "internal/ai/" + port
		}
	}
	return ""
}

// forbidden has the dependencies that must not be linked, with the reason.
var forbidden = []struct{ program, dependency, reason string }{
	{"functions/agentplatform", "testing", "what tests need is not shipped"},
	{"functions/agentplatform", "github.com/stretchr/testify/assert", "what tests need is not shipped"},
	{"functions/agentplatform", module + "internal/proof/sim", "the simulator is a test"},
	{"functions/agentplatform", module + "internal/proof/faulttable", "faults are for tests"},
	{"functions/agentplatform", module + "internal/proof/scenario", "stories are tests"},
	{"functions/agentplatform", module + "internal/proof/invariant", "invariants are checked by tests"},
	{"functions/agentplatform", module + "internal/proof/recording", "recordings are for tests"},
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

// found returns the matching lines of a package's shipped files, and of those below it.
func found(t *testing.T, pattern, name string) []string {
	t.Helper()
	dir := filepath.Join("../..", name)
	require.DirExists(t, dir, "the rule for %s is stale", name)
	out, err := exec.Command("grep", "-rnE", pattern, "--include=*.go", "--exclude=*_test.go", dir).Output()
	if exit, none := errors.AsType[*exec.ExitError](err); none && exit.ExitCode() == 1 {
		return nil
	}
	require.NoError(t, err)
	return slices.Collect(strings.Lines(string(out)))
}

// A use case decides which items are written together. Other entry points than HTTP use it as well.
func TestTheHTTPLayerCommitsNothing(t *testing.T) {
	const writing = `\.(Commit|Begin|NoteDeed|NoteUse|Erase\w*)\(|record\.(Create|Change|Remove)\b`
	for _, name := range []string{"api/httpapi", "api/mcpserver", "api/a2aserver", "api/aguiserver"} {
		for _, line := range found(t, writing, name) {
			t.Errorf("a use case commits: %s", line)
		}
	}
}

func TestUseCasesReadNoClock(t *testing.T) {
	for _, name := range []string{"core/lifecycle", "run/intake", "run/worker", "run/agent", "run/sweep",
		"run/webhook", "run/removal", "run/transition",
		"store/record", "org/catalog", "org/tenant", "org/toolkit", "run/stream", "run/files", "run/view",
		"core/docstate", "knowledge/knowledge",
		"knowledge/ingest", "org/analytics", "store/rollup"} {
		for _, line := range found(t, `time\.(Now|Since|Until|Sleep|After|NewTimer|NewTicker)\(|^\s*go `, name) {
			if strings.Contains(line, "stream/notifier.go") { // one process's notifier waits on its machine's clock
				continue
			}
			t.Errorf("use cases take the clock and their goroutines from host: %s", line)
		}
	}
}

// On a busy machine each number of seconds is too few. A scenario compares with the result in the other case instead.
func TestScenariosHaveOneLimitForWhatHappensImmediately(t *testing.T) {
	for _, line := range found(t, `Less\w*\(x, time\.(Since|Until)\(\w+\), ([0-9]|time\.)`, "proof/scenario") {
		t.Errorf("its limit is soon: %s", line)
	}
}

// If code checks the outer context first, that context may end before the other one is checked. Its end is then taken
// for a limit.
func TestTheOuterContextIsNotAskedFirst(t *testing.T) {
	for _, line := range found(t, `\.Err\(\) == nil && \w+\.Err\(\) != nil`, ".") {
		t.Errorf("host.OutOfTime asks in the right order: %s", line)
	}
}

// unlinked has the packages that must not be linked into a function, directly or indirectly. Each function has a cold
// start, which grows with its size. The linker leaves out the model providers that a function does not make;
// internal/ai/provider/registry tests it.
var unlinked = map[string][]string{
	"functions/chat": {"internal/text/index/s3index", "internal/run/worker", "internal/run/agent",
		"internal/run/removal",
		"internal/store/table/disktable", "internal/wiring/boot"},
	"functions/api": {"internal/text/extract", "internal/knowledge/ingest", "internal/run/worker",
		"internal/run/agent", "internal/run/removal", "internal/store/table/disktable", "internal/wiring/boot"},
	"functions/stream": {"internal/text/index/s3index", "internal/run/worker", "internal/run/agent",
		"internal/run/removal",
		"internal/store/table/disktable", "internal/wiring/boot", "internal/wiring/trigger"},
	"functions/worker": {"internal/api/httpapi", "internal/run/webhook", "internal/run/sweep", "internal/run/removal",
		"internal/run/intake", "internal/store/table/disktable", "internal/wiring/boot"},
	"functions/broker": {"internal/api/httpapi", "internal/run/intake", "internal/run/worker",
		"internal/run/agent", "internal/run/removal",
		"internal/text/extract", "internal/knowledge/ingest", "internal/text/index/s3index",
		"internal/store/table/disktable", "internal/wiring/boot", "internal/wiring/trigger"},
	"functions/reader": {"internal/wiring/cloud", "internal/api/httpapi", "internal/run/worker",
		"internal/run/agent", "internal/org/tenant",
		"internal/store/table/dynamotable", "internal/store/blob/s3blob", "internal/wiring/boot"},
	"functions/webhook": {"internal/api/httpapi", "internal/run/worker", "internal/run/agent",
		"internal/run/sweep", "internal/run/removal",
		"internal/run/intake", "internal/store/table/disktable"},
	"functions/job": {"internal/api/httpapi", "internal/run/worker", "internal/run/agent", "internal/run/webhook",
		"internal/run/intake", "internal/store/table/disktable"},
	"functions/ingest": {"internal/api/httpapi", "internal/run/worker", "internal/run/agent", "internal/run/sweep",
		"internal/run/removal",
		"internal/run/intake", "internal/run/webhook",
		"internal/store/table/disktable", "internal/wiring/boot"},
	"functions/sweeper": {"internal/knowledge/knowledge", "internal/api/httpapi", "internal/run/worker",
		"internal/run/agent",
		"internal/run/webhook",
		"internal/run/removal", "internal/run/intake", "internal/store/table/disktable"},
	"functions/agentplatform": {"internal/wiring/cloud", "internal/store/table/dynamotable",
		"internal/store/queue/sqsqueue",
		"internal/store/timer/sfntimer", "internal/store/blob/s3blob"},
}

// foreign has the libraries that only some functions may link.
var foreign = map[string][]string{
	"github.com/danielgtaylor/huma/v2": {"functions/chat", "functions/api", "functions/stream",
		"functions/agentplatform"},
	// its methods are found by reflection, so that the linker keeps every method of every type
	"text/template":                    {},
	"github.com/cockroachdb/pebble/v2": {"functions/agentplatform"},
	"github.com/modelcontextprotocol/go-sdk/mcp": {"functions/chat", "functions/api", "functions/broker",
		"functions/worker", "functions/agentplatform"},
	"github.com/getkin/kin-openapi/openapi3": {"functions/api", "functions/broker", "functions/worker",
		"functions/agentplatform"},
	"github.com/aws/aws-lambda-go/lambda": {"functions/chat", "functions/api", "functions/broker", "functions/reader",
		"functions/worker", "functions/webhook", "functions/job", "functions/ingest", "functions/sweeper"},
	"github.com/aws/aws-cdk-go/awscdk/v2": {},
	// OpenTelemetry's exporter and shapes make a function up to 18 MB larger; traces are sent by our own (ADR 20)
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace": {},
	"go.opentelemetry.io/collector/pdata/pcommon":       {},
	// it brings Protocol Buffers along; only those that answer questions, and the daily work, need it
	"github.com/DataDog/sketches-go/ddsketch": {"functions/chat", "functions/api", "functions/stream",
		"functions/job",
		"functions/agentplatform"},
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

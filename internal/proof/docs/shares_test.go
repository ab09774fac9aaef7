package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharesOf has the limiters of the resources that organizations share, by their row of SECURITY.md. A limiter is a
// package and an expression that limits there. That is the call that makes a pool, queue or semaphore, a number of
// parallel uses, or the code of a refusal.
var sharesOf = map[string][]string{
	"workers of a laptop": {"internal/wiring/boot: localqueue.Shared(workers(s.Workers))"},
	"paused runs":         {`internal/run/intake: refuses "paused_runs_limit"`},
	"bodies of JSON, beyond their first 64 KiB": {
		"internal/api/httpapi: share.New(limitsOfBodies)", "internal/api/httpapi: refuses what",
	},
	"the first 64 KiB of each body of JSON":          {"internal/api/httpapi: share.New(limitsOfSmallBodies)"},
	"answers, beyond the first 64 KiB of each piece": {"internal/api/httpapi: share.New(limitsOfAnswers)"},
	"streams; requests that wait": {
		"internal/api/httpapi: byNumber(c.Streams, c.Shares.Organization, c.Shares.User, c.Shares.Key)",
	},
	"connections that have shown a key": {"internal/api/httpapi: byNumber(c.Connections, 0, 0, 0)"},
	"connections without a key": {
		"internal/api/httpapi: " +
			"byNumber(c.Connections, c.AnonymousConnections, c.AnonymousConnections, c.AnonymousConnections)",
	},
	"API keys":     {`internal/org/tenant: refuses "api_keys"`},
	"files: count": {`internal/store/record: refuses "files"`},
	"files: bytes": {`internal/store/record: refuses "file_bytes"`},
	"the disk of a laptop, for files, documents, and messages and steps over 8 KiB": {
		"internal/wiring/boot: share.NewDisk(func() int64 { return free() - floor }, 0)",
	},
	"the disk of a laptop, for smaller messages, answers and steps, and for resources": {
		"internal/wiring/boot: share.NewDisk(func() int64 { return free() - floor/2 }, floor/2)",
	},
	"requests a minute": {
		"internal/api/httpapi: ratelimit.Limiter", `internal/api/httpapi: refuses "rate_limited"`,
	},
	"documents in ingestion": {`internal/knowledge/knowledge: refuses "documents_in_ingestion"`},
	"ingestions at work on a laptop": {
		"internal/wiring/boot: localqueue.Shared(ingesters(s.IngestWorkers))",
	},
	"sessions with MCP servers": {"internal/ai/tool/mcptool: share.New(limits)"},
	"senders of webhooks on a laptop": {
		"internal/wiring/boot: localqueue.Shared(senders())", "internal/wiring/boot: webhooksAtOnce",
	},
	"jobs at work on a laptop": {
		"internal/wiring/boot: localqueue.Shared(jobs())", "internal/wiring/boot: jobsAtOnce",
	},
	"entries in the queues of a laptop": {"internal/store/queue/localqueue: share.New(capacity)"},
	"files being read": {
		"internal/text/extract: newTurns(atOnce, atOnceGroup)", "internal/text/extract: atOnce",
		"internal/text/extract: atOnceGroup",
	},
	"queries of a laptop's index": {
		"internal/text/index/diskindex: share.New(limitsOfQueries(runtime.GOMAXPROCS(0)))",
	},
	"checks against schemas": {
		"internal/platform/schema: share.New(share.Limits{All: atOnce, Reserve: atOnce / 4})",
		"internal/platform/schema: atOnce",
	},
}

// noShares has the limiters of things that one organization cannot take from another, by the reason.
var noShares = map[string][]string{
	"it bounds one request, call or job": {
		"internal/api/bridge: agentsAtOnce", "internal/api/httpapi/runs: pausesAtOnce",
		"internal/run/worker: pausesAtOnce",
		"internal/store/record: pausesAtOnce", "internal/store/record: spentAtOnce",
		"internal/text/index/s3index: atOnce",
		"internal/text/index/diskindex: compactAtOnce", "internal/wiring/broker: atOnce",
		"internal/platform/host: group.SetLimit(limit)",
		"internal/knowledge/knowledge: atOnce",                       // of a rebuild, see documents in ingestion
		"internal/knowledge/ingest: share.New(share.Limits{All: 1})", // large texts; organizations take turns
	},
	"it is what the organization, a user or a key may use, and others have their own": {
		`internal/org/tenant: refuses "budget_exhausted"`, "internal/run/intake: refuses code",
	},
	"who calls it is a limiter": {
		"internal/api/httpapi: share.New(limits)",
		"internal/store/queue/localqueue: share.New(limits)",
		"internal/text/extract: share.New(share.Limits{All: all, Organization: ofGroup})",
	},
	"it is as wide as what the queue before it shares out": {"internal/run/dispatch: make(chan struct{}, width)"},
	"nothing waits for longer than a sync of the disk, which takes all that has come": {
		"internal/store/table/disktable: make(chan *request, 4*maxBatch)",
	},
	"it is a cache: what is left out is read again": {"internal/text/index/diskindex: maxOpen"},
}

// rowsOfStores has the rows whose limits are in stores that processes on AWS share.
var rowsOfStores = []string{"workers and ingestions on AWS", "streams and long waits on AWS"}

// Each limiter has a row in the table of SECURITY.md, or a reason to have none. Each row has such a limiter, a share, a
// refusal and a test. The test does not find counters with other names than atOnce or maxOpen.
func TestWhatIsLimitedHasARow(t *testing.T) {
	limiters, rows := limitersOf(t), shareRows(t)
	known := slices.Sorted(slices.Values(slices.Concat(slices.Concat(slices.Collect(maps.Values(sharesOf))...),
		slices.Concat(slices.Collect(maps.Values(noShares))...))))
	assert.Equal(t, slices.Sorted(maps.Keys(limiters)), known, "each limiter, once: name it with its "+
		"row of SECURITY.md in sharesOf, or with the reason why it needs none in noShares")
	tests := map[string]bool{}
	for _, list := range read(t).tests {
		for _, name := range list {
			tests[name] = true
		}
	}
	for row := range sharesOf {
		assert.Contains(t, rows, row, "SECURITY.md has no such row")
	}
	for row, cells := range rows {
		assert.True(t, len(sharesOf[row]) > 0 || slices.Contains(rowsOfStores, row), "nothing limits %q", row)
		for n, cell := range cells[:len(cells)-1] {
			assert.NotEmpty(t, cell, "cell %d of %q", n+1, row)
		}
		of := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		assert.True(t, len(of) > 0 || slices.Contains(rowsOfStores, row), "%q has no test", row)
		for _, name := range of {
			assert.True(t, tests[name[1]], "the test %s of %q is missing", name[1], row)
		}
	}
}

// shareRows returns the rows of the table, by their first cell.
func shareRows(t *testing.T) map[string][]string {
	page, err := os.ReadFile(root + "/SECURITY.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## What organizations and users divide\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[0]) == "resource" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells[1:]
	}
	require.NotEmpty(t, rows)
	return rows
}

// limitersOf finds the limiters in the sources of the product.
func limitersOf(t *testing.T) map[string]bool {
	limiters := map[string]bool{}
	for _, top := range []string{"internal", "functions"} {
		top = filepath.Join(root, top)
		require.NoError(t, filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if d.IsDir() && (name == "internal/proof" || d.Name() == "testdata" ||
				strings.HasSuffix(d.Name(), "test")) {
				return fs.SkipDir
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if what := limiting(n); what != "" {
					limiters[filepath.ToSlash(filepath.Dir(name))+": "+what] = true
				}
				return true
			})
			return nil
		}))
	}
	return limiters
}

// atOnce matches the names of limits on parallel or open things.
var atOnce = regexp.MustCompile(`^(max)?[a-z]*(AtOnce|atOnce|maxOpen|MaxOpen)`)

// makers has the functions that make a limiter.
var makers = []string{
	"share.New", "share.NewDisk", "localqueue.Shared", "semaphore.NewWeighted", "rate.NewLimiter",
	"netutil.LimitListener", "byNumber",
	"newTurns",
}

// limiting returns the limiter in a node. It is empty if there is none.
func limiting(n ast.Node) string {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, name := range n.Names {
			if atOnce.MatchString(name.Name) {
				return name.Name
			}
		}
	case *ast.SelectorExpr:
		if shown(n) == "ratelimit.Limiter" {
			return shown(n)
		}
	case *ast.CallExpr:
		switch of := shown(n.Fun); {
		case slices.Contains(makers, of), strings.HasSuffix(of, ".SetLimit"):
			return shown(n)
		case len(n.Args) > 1 && shown(n.Args[0]) == "problem.Limited":
			return "refuses " + shown(n.Args[1])
		case of == "problem.Exceeded":
			return "refuses " + shown(n.Args[0])
		case of == "make" && len(n.Args) == 2 && shown(n.Args[1]) != "1":
			if _, queue := n.Args[0].(*ast.ChanType); queue {
				return shown(n)
			}
		}
	}
	return ""
}

// shown returns the source of an expression, in one line.
func shown(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

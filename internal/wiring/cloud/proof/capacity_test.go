//go:build integration

package proof_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/analytics"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/run/removal"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table"
)

// Default quotas of AWS in a large Region, per second unless stated otherwise. The sources are in docs/capacity.md.
const (
	partitionWrites, partitionReads = 1_000, 3_000 // units of a partition of DynamoDB, which no quota raises
	tableUnits                      = 40_000       // read units, and write units, of a table
	functionsAtOnce                 = 1_000        // that an event source of SQS invokes, with any quota of the account
	gatewayRequests                 = 10_000       // of an account and Region
	queueInFlight                   = 120_000      // messages that are being handled, of a queue
	machineStarts                   = 300          // after the first 1,300
	machinesOpen                    = 1_000_000    // waits that are open, of an account and Region
)

// The report's assumptions about the service.
const (
	runSeconds     = 10                // duration of a run
	requestsARun   = 2                 // a message, and a question for its end
	pollsPerSecond = 2                 // by the worker during the model call: for a cancel, for readers
	organizations  = 10_000            // the largest of them has
	largestShare   = 0.05              // of the runs
	streamsATask   = 1_000             // infra/stacks/front.go
	runsAtOnce     = 200               // of a container, infra/stacks/workers.go
	framesRead     = 4 * 2             // a second, of a stream with output: two in each poll, internal/run/stream
	processorsRead = 0.0004            // for a stream with output, measured in November 2026 (docs/performance.md)
	pollSeconds    = 2                 // between two polls of a stream without output, internal/run/stream
	rowsPerPoll    = 2                 // the run's head, and the key of its next frame
	pollUnits      = 0.5               // units: it may lag
	dueAtOnce      = 1_000_000 / 3_600 // of a million pauses that began within an hour
	pausedRunBytes = 6_000             // of a run that waits, with its chat, slots and pause
)

// part is the load of one kind of partition.
type part struct {
	name         string
	writes, read float64 // units of a run
	partitions   int     // over which they are spread
	scope        string  // whose runs share it
}

// breaks is the load in runs a second at which one of the partitions is full.
func (p part) breaks() float64 {
	return float64(p.partitions) * min(partitionWrites/max(p.writes, 1e-9), partitionReads/max(p.read, 1e-9))
}

// Parts of the names of partitions.
var (
	anID   = regexp.MustCompile(`[0-9a-f]{24}`)
	aUser  = regexp.MustCompile(`(user|-of)/(ORG/)?[0-9a-f]{24}`)
	aDay   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}`)
	aShard = regexp.MustCompile(`(^|/)[0-9]+$`)
)

// TestCapacity counts the partitions that a plain run writes and reads. It compares the effect of a load on each with
// the quotas of AWS; make capacity rewrites docs/capacity.md.
func TestCapacity(t *testing.T) {
	const runs = 320 // with 128, one of 250 tests would leave one of 16 random slots out
	m := newMeter()
	b := open(t, m.into, "USER_CAP=100000", "ORGANIZATION_CAP=100000", "SPREAD_SLOTS=true")
	b.run("message", "warm up")
	m.take()
	m.written, m.read = map[string]int{}, map[string]float64{}
	for range runs {
		b.ended(b.run("message", prose(70)))
	}
	total := m.take()
	parts := b.kinds(m, runs)
	find := func(name string) part {
		for _, p := range parts {
			if p.name == name {
				return p
			}
		}
		assert.Fail(t, "nothing is written or read in "+name, "%v", parts)
		return part{}
	}
	ofOrganization, ofService := parts[0], parts[0]
	for _, p := range parts {
		if p.scope == "an organization" && (ofOrganization.scope != p.scope || p.breaks() < ofOrganization.breaks()) {
			ofOrganization = p
		}
		if p.scope == "all runs" && (ofService.scope != p.scope || p.breaks() < ofService.breaks()) {
			ofService = p
		}
	}
	assert.Equal(t, 16, find("active/org/ORG/n").partitions, "slots of a large cap are spread")
	assert.Equal(t, table.DueShards, find("index due: n").partitions)
	assert.GreaterOrEqual(t, ofOrganization.breaks(), 500.0, "%+v", ofOrganization)
	assert.GreaterOrEqual(t, ofService.breaks(), 1500.0, "%+v", ofService)

	var s strings.Builder
	s.WriteString("\n| partition | shared by | write units | read units | partitions " +
		"| full at runs a second |\n|---|---|---|---|---|---|\n")
	for _, p := range parts {
		fmt.Fprintf(&s, "| `%s` | %s | %.1f | %.1f | %d | %s |\n", p.name, p.scope, p.writes, p.read, p.partitions,
			thousands(p.breaks()))
	}
	writes, reads := float64(total.Units)/runs, runSeconds*pollsPerSecond*pollUnits+total.ReadUnits/runs
	s.WriteString(loads(writes, reads, ofOrganization, ofService))
	s.WriteString(b.days(m))
	there := between(t, "../../../../docs/capacity.md", "capacity", "make capacity", s.String())
	for _, p := range parts {
		assert.Contains(t, there, "`"+p.name+"`", "run make capacity if this is meant")
	}
}

// kinds are the kinds of partitions that runs share, sorted by the load at which they break. ORG and USER stand for
// ids, n for a shard. Partitions of one run or one chat are left out, as their load is that of one run.
func (b *bench) kinds(m *meter, runs int) []part {
	type kind struct {
		written, read float64
		partitions    map[string]bool
	}
	kinds := map[string]*kind{}
	name := func(partition string) string {
		resource, key, _ := strings.Cut(partition, " ")
		_, index, _ := strings.Cut(resource, "/")
		key = strings.ReplaceAll(key, b.first.Organization.ID, "ORG")
		key = aUser.ReplaceAllString(key, "${1}/${2}USER")
		key = anID.ReplaceAllString(key, "ID")
		key = aDay.ReplaceAllString(key, "DAY")
		key = aShard.ReplaceAllString(key, "${1}n")
		if index != "" {
			return "index " + index + ": " + key
		}
		return key
	}
	of := func(partition string) *kind {
		at := name(partition)
		if kinds[at] == nil {
			kinds[at] = &kind{partitions: map[string]bool{}}
		}
		kinds[at].partitions[partition] = true
		return kinds[at]
	}
	for partition, n := range m.written {
		of(partition).written += float64(n)
	}
	for partition, n := range m.read {
		of(partition).read += n
	}
	var parts []part
	for _, at := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[at]
		p := part{name: at, writes: k.written / float64(runs), read: k.read / float64(runs),
			partitions: len(k.partitions)}
		switch {
		case strings.Contains(at, "ID"), p.writes+p.read < 0.05: // of one run or chat; of cached values
			continue
		case strings.Contains(at, "USER"):
			p.scope = "a user"
		case strings.Contains(at, "ORG"):
			p.scope = "an organization"
		default:
			p.scope = "all runs"
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.breaks(), b.breaks()) })
	return parts
}

// loads returns the use of each quota by three loads.
func loads(writes, reads float64, ofOrganization, ofService part) string {
	var s strings.Builder
	section := func(title string) {
		fmt.Fprintf(&s, "\n**%s**\n\n| resource | needed | available | share |\n|---|---|---|---|\n", title)
	}
	row := func(what string, needed, there float64, note string) {
		share := fmt.Sprintf("%.0f %%", 100*needed/there)
		if needed > there {
			share = "**" + share + "**"
		}
		if note != "" {
			share += ": " + note
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", what, thousands(needed), thousands(there), share)
	}
	const load = 1_000
	largest := load * largestShare
	section(fmt.Sprintf("%s runs a second of %d s, of %s organizations; the largest has %.0f %%", thousands(load),
		runSeconds, thousands(organizations), 100*largestShare))
	row("write units of the tables", load*writes, tableUnits, fmt.Sprintf(
		"full at %s runs a second", thousands(tableUnits/writes)))
	row("read units of the tables", load*reads, tableUnits, "")
	row("runs of the largest organization at its busiest partition, `"+ofOrganization.name+"`", largest,
		ofOrganization.breaks(), "")
	row("all runs at their busiest partition, `"+ofService.name+"`", load, ofService.breaks(), "")
	row("messages in flight in the run queue", load*runSeconds, queueInFlight, "")
	row("requests at API Gateway", load*requestsARun, gatewayRequests, "also limited by the stage's `Rate`")
	row("parallel worker functions, one for each run", load*runSeconds, functionsAtOnce, fmt.Sprintf(
		"full at %d runs a second; beyond it, `WorkerTasks`", functionsAtOnce/runSeconds))
	row("containers instead, with `WorkerTasks`", load*runSeconds/runsAtOnce, 100_000/runsAtOnce, "")

	const streams = 100_000
	section("100,000 open streams of runs that write nothing")
	row("containers", streams/streamsATask, 100, "the limit of `infra/stacks/front.go`")
	row("read units of core and feed table together", streams*rowsPerPoll*pollUnits/pollSeconds, 2*tableUnits,
		fmt.Sprintf("full at %s streams", thousands(2*tableUnits*pollSeconds/(rowsPerPoll*pollUnits))))
	const speaking = 1_000
	section("1,000 open streams of runs that always write")
	row("containers, by processor time", speaking*processorsRead/0.3, 100,
		"each has half a processor, used to 60 %")
	row("read units of the feed table", speaking*framesRead, tableUnits,
		fmt.Sprintf("full at %s streams", thousands(tableUnits/framesRead)))

	const paused = 1_000_000
	section("1,000,000 paused runs")
	row("open waits in Step Functions", paused, machinesOpen,
		"beyond it, the sweeper ends the other pauses")
	row("starts a second, if all begin within an hour", dueAtOnce, machineStarts, "beyond it, the same")
	fmt.Fprintf(&s, "\nThey cost %.0f GB of storage and no reads: no row is read before it is due.\n",
		paused*pausedRunBytes/1e9)
	return s.String()
}

// days returns the load of the daily work of organizations on the tables. It uses two organizations: one without a run
// on that day, and one with its number of runs at the load above.
func (b *bench) days(m *meter) string {
	const runs, hour = 1_000 * 86_400.0, 3_600.0
	const each = int(runs * (1 - largestShare) / organizations)
	quiet, busy := b.day(m, 0), b.day(m, each)
	assert.LessOrEqual(b, quiet.Units, 15, "write units of a day without runs: %+v", quiet)
	assert.LessOrEqual(b, quiet.ReadUnits, 30.0, "read units: %+v", quiet)
	assert.LessOrEqual(b, busy.ReadUnits, 0.5*float64(each), "read units of a busy day: %+v", busy)
	var s strings.Builder
	fmt.Fprintf(&s, "\n**The daily work of %s organizations within an hour**\n\n"+
		"| organization | calls | write units | read units | all: write units a second "+
		"| all: read units a second |\n|---|---|---|---|---|---|\n", thousands(organizations))
	row := func(what string, n, calls, writes, reads float64) {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s |\n", what, thousands(calls), thousands(writes),
			thousands(reads), thousands(n*writes/hour), thousands(n*reads/hour))
	}
	row("without a run", organizations, float64(quiet.Writes+quiet.ReadCalls), float64(quiet.Units), quiet.ReadUnits)
	row(fmt.Sprintf("of %s runs each, by 7 users", thousands(float64(each))), organizations,
		float64(busy.Writes+busy.ReadCalls), float64(busy.Units), busy.ReadUnits)
	more := runs * largestShare / float64(each)
	fmt.Fprintf(&s, "\nThe largest, with %s runs, reads %s units. Writes grow with users, agents and keys, "+
		"not with runs.\n", thousands(runs*largestShare), thousands(more*busy.ReadUnits))
	return s.String()
}

// day counts the daily work of an organization that had entries runs yesterday, as function job does it.
func (b *bench) day(m *meter, entries int) bill {
	now := b.Host.Now()
	yesterday := now.Truncate(24 * time.Hour).Add(-24 * time.Hour)
	organization := host.FormatID(yesterday, uint64(entries)) //nolint:gosec // a small number
	job := record.Job{ID: b.Host.NewID(), Organization: organization, Kind: record.Retention, Subject: organization,
		Due: now}
	tx := b.Store.Begin(b.Host.NewID())
	record.PutResource(tx, record.Fresh(catalog.Organization{ID: organization, Name: "a day old", ListedByUser: true}))
	tx.PutJob(record.Fresh(job))
	for n := range entries {
		if n%90 == 0 {
			require.NoError(b, tx.Commit(b.Context()))
			tx = b.Store.Begin(b.Host.NewID())
		}
		b.entry(tx, organization, yesterday.Add(24*time.Hour/time.Duration(entries)*time.Duration(n)), n)
	}
	require.NoError(b, tx.Commit(b.Context()))
	m.take()
	r := &removal.Remover{Executor: b.Executor, Store: b.Store, Host: b.Host,
		Rollups: &analytics.Analytics{Store: b.Store, Host: b.Host, Log: b.Log}}
	for again := time.Nanosecond; again > 0; {
		var err error
		again, err = r.Handle(b.Context(), job.ID)
		require.NoError(b, err)
	}
	return m.take()
}

// thousands writes a number with separators.
func thousands(f float64) string {
	n := fmt.Sprintf("%.0f", f)
	if f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	for i := len(n) - 3; i > 0; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

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

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/table"
)

// Quotas of AWS, a second unless they say otherwise, as they are in a large Region before anything is asked for; the
// sources stand in docs/capacity.md.
const (
	partitionWrites, partitionReads = 1_000, 3_000 // units of a partition of DynamoDB, which no quota raises
	tableUnits                      = 40_000       // read units, and write units, of a table
	functionsAtOnce                 = 1_000        // that an event source of SQS invokes, whatever the account's quota
	gatewayRequests                 = 10_000       // of an account and Region
	queueInFlight                   = 120_000      // messages that are being handled, of a queue
	machineStarts                   = 300          // after the first 1,300
	machinesOpen                    = 1_000_000    // waits that are open, of an account and Region
)

// What the report assumes of the service.
const (
	runSeconds     = 10                // a run takes
	requestsARun   = 2                 // a message, and a question for its end
	readsASecond   = 2                 // by the worker while the model speaks: its cancel, its readers
	organizations  = 10_000            // and the largest of them has
	largestShare   = 0.05              // of the runs
	streamsATask   = 1_000             // infra/stacks/front.go
	runsAtOnce     = 200               // of a container, infra/stacks/workers.go
	framesRead     = 4 * 2             // a second, of a stream that speaks: in each glance two, internal/stream
	processorsRead = 0.0004            // for a stream that speaks, by make bench-streams
	glanceSeconds  = 2                 // between two looks at a stream that says nothing, internal/stream
	rowsOfAGlance  = 2                 // the run's head, and the place of its next frame
	dueAtOnce      = 1_000_000 / 3_600 // of a million pauses that began within an hour
	pausedRunBytes = 6_000             // of a run that waits, with its chat, slots and pause
)

// part is what one kind of partition takes.
type part struct {
	name         string
	writes, read float64 // units of a run
	partitions   int     // over which they are spread
	scope        string  // whose runs share it
}

// breaks is the load in runs a second at which one of the partitions takes no more.
func (p part) breaks() float64 {
	return float64(p.partitions) * min(partitionWrites/max(p.writes, 1e-9), partitionReads/max(p.read, 1e-9))
}

// What names of partitions are made of.
var (
	anID   = regexp.MustCompile(`[0-9a-f]{24}`)
	aUser  = regexp.MustCompile(`user/(ORG/)?[0-9a-f]{24}`)
	aDay   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}`)
	aShard = regexp.MustCompile(`(^|/)[0-9]+$`)
)

// TestCapacity counts which partitions a plain run writes and reads, and says what a load does to each, against the
// quotas of AWS: make capacity rewrites docs/capacity.md.
func TestCapacity(t *testing.T) {
	const runs = 128
	m := newMeter()
	b := open(t, m.into, "USER_CAP=100000", "ORGANIZATION_CAP=100000", "SPREAD_SLOTS=true")
	b.run("message", "warm up")
	m.take()
	m.written, m.read = map[string]int{}, map[string]int{}
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
		"| takes no more at runs a second |\n|---|---|---|---|---|---|\n")
	for _, p := range parts {
		fmt.Fprintf(&s, "| `%s` | %s | %.1f | %.1f | %d | %s |\n", p.name, p.scope, p.writes, p.read, p.partitions,
			thousands(p.breaks()))
	}
	writes, reads := float64(total.Units)/runs, runSeconds*readsASecond+float64(sum(m.read))/runs
	s.WriteString(loads(writes, reads, ofOrganization, ofService))
	there := between(t, "../../../docs/capacity.md", "capacity", "make capacity", s.String())
	for _, p := range parts {
		assert.Contains(t, there, "`"+p.name+"`", "run make capacity if this is meant")
	}
}

// kinds are the kinds of partitions that runs share, those that break first before the others. ORG and USER stand for
// ids, n for a shard; what belongs to one run or one chat is left out, as its load is that of one run.
func (b *bench) kinds(m *meter, runs int) []part {
	type kind struct {
		written, read int
		partitions    map[string]bool
	}
	kinds := map[string]*kind{}
	name := func(partition string) string {
		place, key, _ := strings.Cut(partition, " ")
		_, index, _ := strings.Cut(place, "/")
		key = strings.ReplaceAll(key, b.first.Organization.ID, "ORG")
		key = aUser.ReplaceAllString(key, "user/${1}USER")
		key = anID.ReplaceAllString(key, "ID")
		key = aDay.ReplaceAllString(key, "DAY")
		key = aShard.ReplaceAllString(key, "${1}n")
		if index != "" {
			return "index " + index + ": " + key
		}
		return key
	}
	add := func(of map[string]int, count func(*kind, int)) {
		for partition, n := range of {
			at := name(partition)
			if kinds[at] == nil {
				kinds[at] = &kind{partitions: map[string]bool{}}
			}
			kinds[at].partitions[partition] = true
			count(kinds[at], n)
		}
	}
	add(m.written, func(k *kind, n int) { k.written += n })
	add(m.read, func(k *kind, n int) { k.read += n })
	var parts []part
	for _, at := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[at]
		p := part{name: at, writes: float64(k.written) / float64(runs), read: float64(k.read) / float64(runs),
			partitions: len(k.partitions)}
		switch {
		case strings.Contains(at, "ID"), p.writes+p.read < 0.05: // of one run or chat; of what is remembered
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

// loads says what three loads ask of each quota.
func loads(writes, reads float64, ofOrganization, ofService part) string {
	var s strings.Builder
	section := func(title string) {
		fmt.Fprintf(&s, "\n**%s**\n\n| what | asked | there is | |\n|---|---|---|---|\n", title)
	}
	row := func(what string, asked, there float64, note string) {
		share := fmt.Sprintf("%.0f %%", 100*asked/there)
		if asked > there {
			share = "**" + share + "**"
		}
		if note != "" {
			share += ": " + note
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", what, thousands(asked), thousands(there), share)
	}
	const load = 1_000
	largest := load * largestShare
	section(fmt.Sprintf("%s runs a second of %d s, of %s organizations; the largest has %.0f %%", thousands(load),
		runSeconds, thousands(organizations), 100*largestShare))
	row("write units of the tables", load*writes, tableUnits, fmt.Sprintf(
		"it takes no more at %s runs a second", thousands(tableUnits/writes)))
	row("read units of the tables", load*reads, tableUnits, "")
	row("runs of the largest organization, at its busiest partition, `"+ofOrganization.name+"`", largest,
		ofOrganization.breaks(), "")
	row("runs at the busiest partition of all, `"+ofService.name+"`", load, ofService.breaks(), "")
	row("messages in flight in the run queue", load*runSeconds, queueInFlight, "")
	row("requests at API Gateway", load*requestsARun, gatewayRequests, "and the stage's own `Rate`")
	row("functions at once, one for each run (worker)", load*runSeconds, functionsAtOnce, fmt.Sprintf(
		"at %d runs a second; beyond it, `WorkerTasks`", functionsAtOnce/runSeconds))
	row("the same with `WorkerTasks`: containers", load*runSeconds/runsAtOnce, 100_000/runsAtOnce, "")

	const streams = 100_000
	section("100,000 open streams of runs that say nothing at the moment")
	row("containers", streams/streamsATask, 100, "the most that `infra/stacks/front.go` allows")
	row("read units of core and feed table together", streams*rowsOfAGlance/glanceSeconds, 2*tableUnits,
		fmt.Sprintf("at %s streams", thousands(2*tableUnits*glanceSeconds/rowsOfAGlance)))
	const speaking = 1_000
	section("1,000 open streams of runs that speak all the time")
	row("containers, for their processors", speaking*processorsRead/0.3, 100,
		"each has half of one, and is to use 60 % of it")
	row("read units of the feed table", speaking*framesRead, tableUnits,
		fmt.Sprintf("at %s streams", thousands(tableUnits/framesRead)))

	const paused = 1_000_000
	section("a million paused runs")
	row("waits that are open in Step Functions", paused, machinesOpen,
		"with more, the sweeper ends the pauses that have none")
	row("starts, when they begin within an hour", dueAtOnce, machineStarts, "beyond it, too")
	fmt.Fprintf(&s, "\nThey cost nothing while they wait: no row of them is looked at before it is due. "+
		"They take %.0f GB.\n", paused*pausedRunBytes/1e9)
	return s.String()
}

func sum(of map[string]int) (n int) {
	for _, one := range of {
		n += one
	}
	return n
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

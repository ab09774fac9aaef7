package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentplatform/infra/stage"
)

// check is one thing that must hold before a stage is deployed. Asking and judging are apart: ask only fetches, judge
// only decides, so that each verdict is tested with answers that no account needs to give.
type check struct {
	name  string
	asks  string // what it asks, in the words of IAM: what somebody has to be allowed for it
	only  func(stage.Stage) bool
	ask   func(*account, context.Context, *answers) error
	judge func(*answers) []finding
}

// finding is one sentence about what will happen, and what to do.
type finding struct {
	fatal bool // a deploy would fail for sure
	text  string
}

func fails(format string, args ...any) []finding {
	return []finding{{true, fmt.Sprintf(format, args...)}}
}
func warns(format string, args ...any) []finding {
	return []finding{{false, fmt.Sprintf(format, args...)}}
}

// answers is what was asked for.
type answers struct {
	stage stage.Stage

	region        string
	commit        string             // that is checked out
	dirty         bool               // the tree differs from it
	stacks        map[string]string  // their status, by their names; those that there are
	outputs       map[string]string  // of these stacks, by their names, of which none has two
	left          []string           // buckets and tables of an earlier life of the data stack
	concurrency   int                // functions at once
	unreserved    int                // of these, what no function has for itself
	quotas        map[string]float64 // applied values, by the keys of quotas
	vpcs          int                // that there are
	zones         []zone             // of the Region
	kept          []string           // zones that the stage's network has already
	list          prefixList         // of CloudFront
	distributions int                // that there are, of any stage
	models        map[string]model   // by the name in the settings
	certificate   certificate        // of the domain
	subscriptions []subscription     // of the address for alarms
	tag           string             // status of the cost allocation tag; empty: Billing has not seen it yet
}

// deployed says whether the stage's stack of this name is there.
func (a *answers) deployed(name string) bool {
	_, there := a.stacks["agents-"+a.stage.Name+"-"+name]
	return there
}

type zone struct{ name, id string }

type prefixList struct {
	id      string
	entries int
}

type model struct {
	known                                      bool
	profile                                    bool // an inference profile, which chooses the Region
	region, entitlement, agreement, authorized string
}

type certificate struct {
	found  bool
	status string
	names  []string
}

type subscription struct{ topic, state string }

// facts is what a deploy needs to know of the account.
type facts struct {
	Stage            string   `json:"stage"`
	Commit           string   `json:"commit"`
	Before           string   `json:"before"` // the commit that this one takes the place of; empty: not known
	OriginPrefixList string   `json:"originPrefixList"`
	Zones            []string `json:"zones"`
	Edge             bool     `json:"edge"` // the stage has a stack in us-east-1
}

// look makes the checks in their order, says what each found, and returns what it learned and how many would make a
// deploy fail. What may not be asked is said and is no failure.
func look(ctx context.Context, out io.Writer, c *account, s stage.Stage) (*answers, int) {
	a := &answers{
		stage: s, region: c.config.Region, stacks: map[string]string{}, outputs: map[string]string{},
		quotas: map[string]float64{}, models: map[string]model{},
	}
	fatal, warned := 0, 0
	for _, k := range checks {
		if k.only != nil && !k.only(s) {
			continue
		}
		var found []finding
		if err := k.ask(c, ctx, a); err != nil {
			found = unanswered(k, err)
		} else {
			found = k.judge(a)
		}
		if len(found) == 0 {
			_, _ = fmt.Fprintf(out, "ok    %s\n", k.name)
		}
		for _, f := range found {
			word := "warn "
			if f.fatal {
				word, fatal = "FAIL ", fatal+1
			} else {
				warned++
			}
			_, _ = fmt.Fprintf(out, "%s %s: %s\n", word, k.name, f.text)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || k.name == identityCheck && fatal > 0 {
			break // nothing else can be asked
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %d would make the deploy fail, %d may matter\n", s.Name, fatal, warned)
	return a, fatal
}

// unanswered is the finding about a check that could not be made. Only without credentials is that a failure.
func unanswered(k check, err error) []finding {
	switch {
	case k.name == identityCheck:
		return fails("no credentials of AWS work here (%s); log in (aws sso login, or aws configure), or name a "+
			"profile in AWS_PROFILE", plain(err))
	case denied(err):
		return warns("could not be checked: these credentials may not do %s; allow that, or look yourself", k.asks)
	default:
		return warns("could not be checked: %s", plain(err))
	}
}

// plain is an error in one line.
func plain(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// facts returns what the deploy needs, or false where something of it is not known.
func (a *answers) facts() (facts, bool) {
	commit := a.commit
	if a.dirty {
		commit += "-dirty" // as the programs say it of themselves
	}
	before := a.outputs["Commit"]
	if before == commit { // deployed once more
		before = a.outputs["CommitBefore"]
	}
	f := facts{a.stage.Name, commit, before, a.list.id, a.choice(), a.stage.AddressRate > 0}
	return f, f.OriginPrefixList != "" && len(f.Zones) == 2
}

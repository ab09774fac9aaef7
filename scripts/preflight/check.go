package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentplatform/infra/stage"
)

// check is a condition that must hold before a stage is deployed. ask only fetches and evaluate only decides. So each
// verdict is tested with answers that no real account has to give.
type check struct {
	name     string
	asks     string // the rights that it needs, as actions of IAM
	only     func(stage.Stage) bool
	ask      func(*account, context.Context, *answers) error
	evaluate func(*answers) []finding
}

// finding is one sentence about a problem, and the action against it.
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

// answers has the results of the requests.
type answers struct {
	stage stage.Stage

	region        string
	commit        string             // that is checked out
	dirty         bool               // the tree differs from it
	stacks        map[string]string  // their status, by their names; those that there are
	outputs       map[string]string  // of these stacks, by their names, of which none has two
	left          []string           // buckets and tables of an earlier life of the data stack
	concurrency   int                // of functions, of the account
	unreserved    int                // the part of it that no function has reserved
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

// deployed reports whether the stage's stack of this name exists.
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

// facts has the values of the account that a deploy needs.
type facts struct {
	Stage            string   `json:"stage"`
	Commit           string   `json:"commit"`
	Before           string   `json:"before"` // the commit that this one replaces; empty: not known
	OriginPrefixList string   `json:"originPrefixList"`
	Zones            []string `json:"zones"`
	Edge             bool     `json:"edge"` // the stage has a stack in us-east-1
}

// runChecks makes the checks in their order, and prints the findings of each. It returns the answers, and how many
// findings would make a deploy fail. A check without the right to ask gives a warning.
func runChecks(ctx context.Context, out io.Writer, c *account, s stage.Stage) (*answers, int) {
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
			found = k.evaluate(a)
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
			break // no other check can be made
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %d errors would stop the deploy, %d warnings\n", s.Name, fatal, warned)
	return a, fatal
}

// unanswered returns the finding about a check that could not be made. It is a failure only if the credentials do not
// work.
func unanswered(k check, err error) []finding {
	switch {
	case k.name == identityCheck:
		return fails("AWS credentials do not work (%s); log in (aws sso login, or aws configure), or choose a "+
			"profile in AWS_PROFILE", plain(err))
	case denied(err):
		return warns("could not be checked: these credentials may not call %s; allow it, or check yourself", k.asks)
	default:
		return warns("could not be checked: %s", plain(err))
	}
}

// plain returns an error in one line.
func plain(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// facts returns the values that the deploy needs, or false if one of them is not known.
func (a *answers) facts() (facts, bool) {
	commit := a.commit
	if a.dirty {
		commit += "-dirty" // as in the version that the programs report
	}
	before := a.outputs["Commit"]
	if before == commit { // deployed once more
		before = a.outputs["CommitBefore"]
	}
	f := facts{a.stage.Name, commit, before, a.list.id, a.choice(), a.stage.AddressRate > 0}
	return f, f.OriginPrefixList != "" && len(f.Zones) == 2
}

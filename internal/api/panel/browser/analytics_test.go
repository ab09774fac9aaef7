//go:build browser

package browser

import (
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saves keeps the files that the page saves in the page, for saved.
func (p *page) saves() {
	p.evaluate(`window.saved = []
		const make = URL.createObjectURL
		URL.createObjectURL = (b) => { b.text().then((t) => window.saved.push(t)); return make(b) }`, nil)
}

// saved waits until so many files were saved, and returns the last.
func (p *page) saved(n int) string {
	p.t.Helper()
	var all []string
	p.until("a file that is saved", func(context.Context) error {
		if p.evaluate(`window.saved`, &all); len(all) != n {
			return fmt.Errorf("saved: %v", all)
		}
		return nil
	})
	return all[n-1]
}

// The totals and the ledger, with its CSV, are of the same days, which are the viewer's. The address has these days.
func TestTotalsAndLedgerAreOfTheSameDays(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	tab := open(t, p.url)
	tab.do(emulation.SetTimezoneOverride("Pacific/Kiritimati")) // it is tomorrow there
	tab.signIn(p.key)
	tab.visit("#/analytics")
	tab.see("Whole days in Pacific/Kiritimati")
	var at, today, tomorrow string
	tab.do(chromedp.Evaluate(`new Date().toLocaleDateString('en-CA')`, &today),
		chromedp.Evaluate(`new Date(Date.now() + 86400e3).toLocaleDateString('en-CA')`, &tomorrow))
	inAddress := func(what, part string) {
		t.Helper()
		tab.until(what, func(context.Context) error { // the page sets it after it has shown the range
			if tab.evaluate(`location.hash`, &at); !strings.Contains(at, part) {
				return errNotThere
			}
			return nil
		})
	}
	inAddress("the range in the address before it was changed", "to="+tomorrow)
	tab.choose("Range", "the last day")
	inAddress("the range in the address", "from="+today)
	tab.saves()
	count := func(n int) {
		t.Helper()
		tab.until("the totals", func(context.Context) error {
			var runs string
			tab.evaluate(`document.querySelector('.figure b')?.innerText ?? ''`, &runs)
			if runs != fmt.Sprint(n) {
				return fmt.Errorf("%s runs", runs)
			}
			return nil
		})
	}
	count(1)
	tab.click("button", "Download CSV")
	rows, err := csv.NewReader(strings.NewReader(tab.saved(1))).ReadAll()
	require.NoError(t, err)
	assert.Len(t, rows, 2, "a line of names and one of the run")
	yesterday := ""
	tab.evaluate(`new Date(Date.now() - 86400e3).toLocaleDateString('en-CA')`, &yesterday)
	tab.visit("#/analytics?from=" + yesterday + "&to=" + today)
	count(0)
	tab.click("button", "Download CSV")
	rows, err = csv.NewReader(strings.NewReader(tab.saved(2))).ReadAll()
	require.NoError(t, err)
	assert.Len(t, rows, 1, "the day before, there, has none")
}

// Of many groups the largest are drawn, and the others together under a label. All of them are counted.
func TestManyGroupsAreAllCounted(t *testing.T) {
	t.Parallel()
	p := start(t)
	for n := range 13 {
		agent := p.makes("agent_id", "/agents", object{"name": fmt.Sprintf("Agent %02d", n)})
		p.send("POST", "/chat", formOf("agent_id", agent, "message", "hello"))
	}
	tab := signedIn(t, p, "#/analytics?group_by=agent")
	tab.see("The 9 largest, and the other 4 together.")
	tab.see("others")
}

// An address with invalid days shows the last days, and costs are offered where there are prices.
func TestDaysThatAreNoneAndCostsWithoutPrices(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/analytics?from=abc&to=20266-01-01")
	tab.find("heading", "Runs over time")
	offered := func() (options []string) {
		tab.evaluate(`[...document.querySelectorAll('select option')].map((o) => o.innerText)`, &options)
		return options
	}
	assert.Contains(t, offered(), "Output tokens")
	assert.NotContains(t, offered(), "Cost")
	price := object{"model": "demo/demo", "input": 1, "output": 2}
	p.send("PATCH", "/organization", object{"currency": "EUR", "prices": []any{price}})
	tab.reload()
	tab.until("the metric Cost", func(context.Context) error {
		if !slices.Contains(offered(), "Cost") {
			return errNotThere
		}
		return nil
	})
}

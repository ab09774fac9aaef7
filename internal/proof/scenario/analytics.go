package scenario

import (
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func analyticsScenarios() []Story {
	return []Story{
		{Name: "analytics/summary, series and me say what the ledger does", Run: analyticsAgree},
		{Name: "analytics/costs follow the prices in the settings", Run: costsFollowPrices},
		{Name: "analytics/a member reads its own usage, and nobody else's", Run: ownUsage},
		{Name: "analytics/usage: a part of the ledger", Run: partsOfTheLedger},
		{Name: "analytics/bad questions are named", Run: badQuestions},
		{Name: "analytics/what is deleted stays counted", Run: deletedIsCounted},
		{Name: "organization/bad prices are named", Run: badPrices},
	}
}

// sumOf adds up a series' values, by group.
func sumOf(a reply) map[string]float64 {
	a.is(200)
	sums := map[string]float64{}
	for i := range a.list("points") {
		group, _ := a.at("points", i, "group").(string)
		sums[group] += a.number("points", i, "value")
	}
	return sums
}

func analyticsAgree(x *Actor) {
	y := x.colleague("member", "run")
	for range 3 {
		x.chat("message", "one two").is(200)
	}
	x.chat("message", "/fail no").is(500)
	y.chat("message", "/tool echo {\"text\":\"hi\"}").is(200)
	cancelled := y.begin("message", "/sleep 20s")
	y.stop(cancelled)

	s := x.get("/analytics/summary").is(200)
	assert.Equal(x, object{"total": 6.0, "completed": 4.0, "failed": 1.0, "cancelled": 1.0, "timed_out": 0.0},
		s.at("runs"))
	assert.Equal(x, []float64{1, 2, 1, 1}, []float64{s.number("errors"), s.number("users"), s.number("agents"),
		s.number("tool_calls")})
	var in, out, models float64
	byKey := map[string]float64{}
	entries := x.get("/analytics/usage").is(200)
	for i := range entries.list("entries") {
		in += entries.number("entries", i, "input_tokens")
		out += entries.number("entries", i, "output_tokens")
		models += entries.number("entries", i, "model_calls")
		byKey[entries.text("entries", i, "api_key_id")]++
		assert.Contains(x, entries.text("entries", i, "model"), "demo/")
		assert.Equal(x, "run", entries.text("entries", i, "kind"))
	}
	assert.Equal(x, object{"input": in, "output": out}, s.at("tokens"))
	assert.Equal(x, models, s.number("model_calls"))
	assert.LessOrEqual(x, s.number("active_ms", "p50"), s.number("active_ms", "p95"))
	assert.LessOrEqual(x, s.number("queue_ms", "p50"), s.number("queue_ms", "p95"))
	assert.Nil(x, s.at("cost"), "there are no prices")

	assert.Equal(x, map[string]float64{x.User: 4, y.User: 2}, sumOf(x.get("/analytics/timeseries?group_by=user")))
	assert.Equal(x, map[string]float64{"completed": 4, "failed": 1, "cancelled": 1},
		sumOf(x.get("/analytics/timeseries?group_by=status&interval=hour")))
	assert.Equal(x, byKey, sumOf(x.get("/analytics/timeseries?group_by=api_key")))
	assert.Equal(x, map[string]float64{x.Agent: in},
		sumOf(x.get("/analytics/timeseries?group_by=agent&metric=input_tokens")))
	assert.Equal(x, map[string]float64{"": 2},
		sumOf(x.get("/analytics/timeseries?user_id="+y.User+"&timezone=Asia/Kathmandu")))

	// Each interval is there, also those without anything.
	now := time.Now().UTC()
	from := now.Truncate(24*time.Hour).AddDate(0, 0, -6)
	series := x.get("/analytics/timeseries?metric=errors&from=" + from.Format(time.DateOnly) + "&to=" +
		url.QueryEscape(now.Add(time.Minute).Format(time.RFC3339))).is(200)
	points := series.list("points")
	require.GreaterOrEqual(x, len(points), 7)
	for i := range points {
		assert.Equal(x, from.AddDate(0, 0, i).Format("2006-01-02T15:04:05.000Z"), series.text("points", i, "at"))
		assert.Nil(x, series.at("points", i, "group"))
	}
	assert.Equal(x, 0.0, series.number("points", 0, "value"))

	// Another organization has none of it.
	other := newActor(x.T, x.world, x.receiver)
	empty := other.get("/analytics/summary").is(200)
	assert.Equal(x, 0.0, empty.number("runs", "total"))
	assert.Nil(x, empty.at("active_ms", "p50"))
	assert.Equal(x, 0.0, other.get("/analytics/summary?user_id="+x.User).is(200).number("runs", "total"))
}

func costsFollowPrices(x *Actor) {
	run := x.chat("message", "one two three").is(200)
	in, out := run.number("usage", "input_tokens"), run.number("usage", "output_tokens")
	entry := func() reply { return x.get("/analytics/usage").is(200) }
	assert.Nil(x, entry().at("entries", 0, "cost"))
	x.get("/analytics/timeseries?metric=cost").problem(400, "invalid_request")
	model := entry().text("entries", 0, "model")

	set := x.patch("/organization", object{"currency": "EUR", "prices": []object{
		{"model": model, "input": 2, "output": 10.5}, {"model": "other/model", "input": 1, "output": 1},
	}}).is(200)
	assert.Len(x, set.list("prices"), 2)
	assert.Equal(x, "EUR", set.text("currency"))
	cost := (2*in + 10.5*out) / 1e6
	assert.InDelta(x, cost, entry().number("entries", 0, "cost"), 1e-9)
	s := x.get("/analytics/summary").is(200)
	assert.InDelta(x, cost, s.number("cost"), 1e-9)
	assert.Equal(x, "EUR", s.text("currency"))
	byModel := sumOf(x.get("/analytics/timeseries?metric=cost&group_by=model"))
	assert.InDelta(x, cost, byModel[model], 1e-9)

	x.patch("/organization", object{"prices": nil, "currency": nil}).is(200)
	assert.Nil(x, x.get("/analytics/summary").is(200).at("cost"))
	assert.Equal(x, "USD", x.get("/organization").is(200).text("currency"))
}

func ownUsage(x *Actor) {
	y := x.colleague("member", "read")
	z := x.colleague("member", "run")
	x.chat("message", "one").is(200)
	for range 2 {
		z.chat("message", "one two").is(200)
	}
	assert.Equal(x, 0.0, y.get("/analytics/me").is(200).number("runs", "total"))
	mine := z.get("/analytics/me").is(200)
	assert.Equal(x, 2.0, mine.number("runs", "total"))
	assert.Equal(x, 1.0, mine.number("users"))
	assert.Equal(x, 2.0, z.get("/analytics/me?user_id="+x.User).is(200).number("runs", "total"),
		"whose usage it is, is no question")
	assert.Equal(x, 1.0, x.get("/analytics/me").is(200).number("runs", "total"))
	assert.Equal(x, 0.0, z.get("/analytics/me?model=other/model").is(200).number("runs", "total"))
	for _, path := range []string{"summary", "timeseries", "usage"} {
		refused := z.get("/analytics/"+path+"?user_id="+z.User).problem(403, "insufficient_permission")
		assert.Equal(x, "admin", refused.text("level_needed"))
	}
}

func partsOfTheLedger(x *Actor) {
	y := x.colleague("member", "run")
	first := x.chat("message", "one").is(200).text("run_id")
	ended := x.get("/runs/" + first).is(200).text("finished_at")
	x.eventually("another instant", func() bool {
		at, err := time.Parse(time.RFC3339, ended)
		require.NoError(x, err)
		return time.Since(at) > 5*time.Millisecond
	})
	second := y.chat("message", "one").is(200).text("run_id")
	runs := func(query string) []string { return ids(x.get("/analytics/usage?"+query), "entries", "run_id") }
	assert.Equal(x, []string{second, first}, runs(""))
	assert.Equal(x, []string{second}, runs("user_id="+y.User))
	assert.Equal(x, []string{first}, runs("to="+after(x, ended)))
	assert.Equal(x, []string{second}, runs("from="+after(x, ended)))
	assert.Equal(x, []string{second, first}, runs("kind=run&agent_id="+x.Agent))
	assert.Empty(x, runs("kind=search"))
	page := x.get("/analytics/usage?limit=1&agent_id=" + x.Agent).is(200)
	assert.Equal(x, []string{second}, ids(page, "entries", "run_id"))
	assert.Equal(x, []string{first}, runs("limit=1&agent_id="+x.Agent+"&cursor="+page.text("next_cursor")))
	csv := x.get("/analytics/usage?user_id="+y.User, "Accept", "text/csv").is(200)
	assert.Equal(x, 2, strings.Count(csv.raw, "\n"))
	assert.Contains(x, csv.raw, second)
}

// after returns the millisecond after a time.
func after(x *Actor, text string) string {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(x, err)
	return at.Add(time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z")
}

func badQuestions(x *Actor) {
	for query, field := range map[string]string{
		"from=yesterday":                        "query.from",
		"to=2026-13-01":                         "query.to",
		"from=2026-01-02&to=2026-01-01":         "query.from",
		"from=2026-01-01&to=2026-01-01":         "query.from",
		"from=1999-01-01":                       "query.from",
		"from=2024-01-01&to=2026-01-01":         "query.from",
		"agent_id=x":                            "query.agent_id",
		"user_id=" + strings.Repeat("g", 24):    "query.user_id",
		"api_key_id=" + strings.Repeat("a", 25): "query.api_key_id",
		"model=demo":                            "query.model",
		"kind=walk":                             "query.kind",
		"timezone=Mars/Olympus":                 "query.timezone",
		"timezone=Local":                        "query.timezone",
		"timezone=../../etc/passwd":             "query.timezone",
	} {
		x.get("/analytics/summary?" + query).names(field)
	}
	for query, field := range map[string]string{
		"metric=joy":       "query.metric",
		"interval=minute":  "query.interval",
		"group_by=weather": "query.group_by",
		"timezone=Europe/Berlin&from=2026-01-01&to=2026-06-01": "query.timezone",
	} {
		x.get("/analytics/timeseries?" + query).names(field)
	}
	assert.Contains(x, x.get("/analytics/usage?from=2026-01-02&to=2026-01-01").problem(400, "invalid_request").raw,
		"query.from")
	x.get("/analytics/timeseries?interval=hour&from=2026-01-01&to=2027-02-01").is(200)
}

func deletedIsCounted(x *Actor) {
	y := x.colleague("member", "run")
	chat := y.chat("message", "one").is(200).text("chat_id")
	x.delete("/chats/" + chat).is(204)
	x.delete("/users/" + y.User).is(204)
	x.eventually("the end of the user", func() bool { return x.gone("/users/" + y.User) })
	assert.Equal(x, map[string]float64{y.User: 1}, sumOf(x.get("/analytics/timeseries?group_by=user")))
	assert.Equal(x, 1.0, x.get("/analytics/summary?user_id="+y.User).is(200).number("runs", "completed"))
}

func badPrices(x *Actor) {
	price := func(model string, in, out any) object { return object{"model": model, "input": in, "output": out} }
	for field, bad := range map[string]object{
		"body.prices[0].model":  {"prices": []object{price("gpt", 1, 1)}},
		"body.prices[1].model":  {"prices": []object{price("a/b", 1, 1), price("a/b", 2, 2)}},
		"body.prices[0].input":  {"prices": []object{price("a/b", -1, 1)}},
		"body.prices[0].output": {"prices": []object{price("a/b", 1, "much")}},
		"body.currency":         {"currency": "euro"},
	} {
		assert.Contains(x, x.patch("/organization", bad).problem(400, "invalid_request").raw, field)
	}
	x.colleague("member", "run").patch("/organization", object{"prices": []object{}}).problem(403,
		"insufficient_permission")
	assert.Empty(x, x.get("/organization").is(200).list("prices"))
}

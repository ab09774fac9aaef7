package scenario

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func hexMAC(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

func (x *Actor) delivery(run string) reply {
	x.Helper()
	return x.get("/webhooks/deliveries?run_id=" + run).is(200)
}

// Webhook deliveries.
func webhookScenarios() []Story {
	return []Story{
		{Name: "webhook/a terminal push for each way to end", Run: func(x *Actor) {
			for n, c := range []struct{ message, status string }{{"x", "completed"}, {"/fail y", "failed"},
				{"/sleep 20s", "cancelled"}} {
				run := x.begin("message", c.message, "callback_url", x.address("ok"), "metadata", `{"k":"v"}`)
				if c.status == "cancelled" {
					x.post("/runs/"+run+"/cancel", nil).is(200)
				}
				p := x.awaitPushes("ok", n+1)[n]
				assert.Equal(x, "agent_run.terminal", p.body["event"])
				assert.Equal(x, c.status, p.body["status"])
				assert.Equal(x, run, p.body["run_id"])
				assert.Equal(x, object{"k": "v"}, p.body["metadata"])
				assert.EqualValues(x, 1, p.body["version"])
				assert.Equal(x, "application/json", p.header.Get("Content-Type"))
				assert.Contains(x, p.header.Get("User-Agent"), "agent-platform/")
				assert.Equal(x, p.body["delivery_id"], p.header.Get("Webhook-Id"))
				if c.status == "completed" {
					assert.Equal(x, "You said: x", p.body["result"].(object)["answer"])
					assert.Equal(x, "billed", p.body["usage_status"])
				} else {
					assert.Nil(x, p.body["result"])
				}
			}
		}},
		{Name: "webhook/timed_out is pushed", Settings: "hasty", Run: func(x *Actor) {
			x.begin("message", "/sleep 20s", "callback_url", x.address("ok"))
			assert.Equal(x, "timed_out", x.awaitPushes("ok", 1)[0].body["status"])
		}},
		{Name: "webhook/a push for each pause, and one for the end", Run: func(x *Actor) {
			a := x.chat("message", "/ask One?\n/stream 1 1ms\n/ask Two?", "callback_url", x.address("ok"), "chat_id",
				"c").is(202)
			x.chat("message", "first", "chat_id", "c").is(202)
			x.chat("message", "second", "chat_id", "c").is(200)
			pushes := x.awaitPushes("ok", 3)
			byStatus := map[string]int{}
			seen := map[string]bool{}
			for _, p := range pushes {
				byStatus[p.body["status"].(string)]++
				seen[p.header.Get("Webhook-Id")] = true
				if p.body["event"] == "agent_run.awaiting_input" {
					assert.Len(x, p.body["interrupts"], 1)
				}
			}
			assert.Equal(x, map[string]int{"awaiting_input": 2, "completed": 1}, byStatus)
			assert.Len(x, seen, 3)
			x.eventually("all recorded", func() bool {
				d := x.get("/webhooks/deliveries?state=delivered&run_id=" + a.text("run_id")).is(200)
				return len(d.list("deliveries")) == 3
			})
		}},
		{Name: "webhook/signatures: the specified one and the Standard Webhooks trio", Run: func(x *Actor) {
			x.begin("message", "x", "callback_url", x.address("ok"))
			p := x.awaitPushes("ok", 1)[0]
			assert.Equal(x, hexMAC("a plain secret", p.raw), p.header.Get("X-Agent-Signature"))
			verify := func(secret string, p push) error {
				w, err := standardwebhooks.NewWebhook(secret)
				require.NoError(x, err)
				return w.Verify(p.raw, p.header)
			}
			first := x.post("/organization/webhook-secret/rotate", nil).is(200).text("secret")
			assert.Regexp(x, `^whsec_`, first)
			x.begin("message", "y", "callback_url", x.address("ok"))
			p = x.awaitPushes("ok", 2)[1]
			assert.Equal(x, hexMAC(first, p.raw), p.header.Get("X-Agent-Signature"),
				"an organization's first secret is used at once")
			assert.NoError(x, verify(first, p))
			second := x.post("/organization/webhook-secret/rotate",
				object{"overlap_seconds": 3600}).is(200).text("secret")
			x.begin("message", "z", "callback_url", x.address("ok"))
			p = x.awaitPushes("ok", 3)[2]
			assert.Equal(x, hexMAC(first, p.raw), p.header.Get("X-Agent-Signature"),
				"while the overlap lasts, the previous secret's")
			assert.NoError(x, verify(first, p))
			assert.NoError(x, verify(second, p))
			third := x.post("/organization/webhook-secret/rotate", object{"overlap_seconds": 0}).is(200).text("secret")
			x.begin("message", "z", "callback_url", x.address("ok"))
			p = x.awaitPushes("ok", 4)[3]
			assert.Equal(x, hexMAC(third, p.raw), p.header.Get("X-Agent-Signature"))
			assert.Error(x, verify(second, p))
		}},
		{Name: "webhook/5xx is tried again with the same id and bytes", Run: func(x *Actor) {
			run := x.begin("message", "x", "callback_url", x.address("flaky"))
			pushes := x.awaitPushes("flaky", 2)
			assert.Equal(x, pushes[0].header.Get("Webhook-Id"), pushes[1].header.Get("Webhook-Id"))
			assert.Equal(x, pushes[0].raw, pushes[1].raw)
			x.eventually("delivered",
				func() bool { return x.delivery(run).text("deliveries", 0, "state") == "delivered" })
			d := x.delivery(run)
			assert.Len(x, d.list("deliveries", 0, "attempts"), 2)
			assert.Equal(x, 503.0, d.number("deliveries", 0, "attempts", 0, "status"))
			assert.Equal(x, "thank you", d.text("deliveries", 0, "attempts", 1, "response_excerpt"))
		}},
		{Name: "webhook/a broken connection is tried again", Run: func(x *Actor) {
			x.begin("message", "x", "callback_url", x.address("reset"))
			x.awaitPushes("reset", 2)
		}},
		{Name: "webhook/4xx and redirects end it, redelivery is another try", Run: func(x *Actor) {
			for _, behaviour := range []string{"gone", "redirect"} {
				run := x.begin("message", "x", "callback_url", x.address(behaviour))
				x.eventually("failed", func() bool {
					d := x.delivery(run)
					return len(d.list("deliveries")) == 1 && d.text("deliveries", 0, "state") == "failed"
				})
				id := x.delivery(run).text("deliveries", 0, "delivery_id")
				x.post("/webhooks/deliveries/"+id+"/redeliver", nil).is(200)
				pushes := x.awaitPushes(behaviour, 2)
				assert.Equal(x, pushes[0].header.Get("Webhook-Id"), pushes[1].header.Get("Webhook-Id"))
				x.eventually("recorded",
					func() bool { return len(x.delivery(run).list("deliveries", 0, "attempts")) == 2 })
			}
		}},
		{Name: "webhook/redelivery of a delivered one needs force", Run: func(x *Actor) {
			run := x.begin("message", "x", "callback_url", x.address("ok"))
			x.awaitPushes("ok", 1)
			x.eventually("delivered",
				func() bool { return x.delivery(run).text("deliveries", 0, "state") == "delivered" })
			id := x.delivery(run).text("deliveries", 0, "delivery_id")
			x.post("/webhooks/deliveries/"+id+"/redeliver", nil).problem(409, "conflict")
			x.post("/webhooks/deliveries/"+id+"/redeliver", object{"force": true}).is(200)
			x.awaitPushes("ok", 2)
			x.post("/webhooks/deliveries/0123456789abcdef01234567/redeliver", nil).problem(404, "not_found")
		}},
		{Name: "webhook/a name that leads inside is refused at the dial", Run: func(x *Actor) {
			run := x.begin("message", "x", "callback_url", "https://localhost:1/")
			x.await(run, "completed")
			x.eventually("failed", func() bool {
				d := x.delivery(run)
				return len(d.list("deliveries")) == 1 && d.text("deliveries", 0, "state") == "failed"
			})
			assert.Len(x, x.delivery(run).list("deliveries", 0, "attempts"), 1)
		}},
		{Name: "webhook/a test push", Run: func(x *Actor) {
			assert.Equal(x, 200.0,
				x.post("/webhooks/test", object{"callback_url": x.address("ok")}).is(200).number("status"))
			assert.Len(x, x.pushes("ok"), 1)
			x.post("/webhooks/test", object{"callback_url": "http://example.com"}).problem(400,
				"callback_url_not_https")
		}},
	}
}

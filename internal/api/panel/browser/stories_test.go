//go:build browser

package browser

import (
	"net"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A user makes a key, uses it, sees that it was used, revokes it and sees it refused.
func TestAKeyIsMadeUsedSeenAndRevoked(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "")
	tab.section("API keys")
	tab.fill("Name", "Story key")
	tab.choose("Level", "run")
	tab.click("button", "Create key")
	tab.find("button", "Copy key")
	var text string
	tab.do(chromedp.Evaluate(`document.querySelector('[data-key]').innerText`, &text))
	require.True(t, strings.HasPrefix(text, "ap_"), text)
	tab.click("button", "Done")
	assert.NotContains(t, tab.text(), text)

	user := p.as(text)
	answer := user.send("POST", "/chat", formOf("agent_id", p.demo(), "message", "hello from a key"))
	assert.Equal(t, "You said: hello from a key", answer["answer"])

	tab.click("link", "Story key")
	tab.find("heading", "Story key")
	tab.gone("Last used\n–")
	tab.see("1 run, 0 failed")
	tab.section("API keys")
	tab.clickIn("Story key", "Revoke")
	tab.click("button", "Confirm")
	tab.gone("Story key")
	status, refused := user.request("GET", "/me", nil)
	assert.Equal(t, 401, status)
	assert.Equal(t, "invalid_api_key", refused["code"])
}

// An invalid key is refused where it was typed, with the reason.
func TestAWrongKeyIsRefusedInPlace(t *testing.T) {
	t.Parallel()
	tab := open(t, start(t).url)
	tab.fill("API key", "ap_00000000_wrong")
	tab.click("button", "Sign in")
	tab.find("alert", "")
	tab.see("Request")
	tab.find("textbox", "API key")
}

// careful makes an agent whose every tool call needs approval.
func careful(p *program) string {
	made := p.send("POST", "/agents", object{"name": "Careful", "approval": object{"mode": "always"}})
	return made["agent_id"].(string)
}

// Two approvals of one run are decided in the inbox of one browser while the chat streams in another.
func TestTwoApprovalsAreDecidedInTheInboxWhileTheChatStreams(t *testing.T) {
	t.Parallel()
	p := start(t)
	agent := careful(p)
	chat := signedIn(t, p, "#/chat?agent="+agent)
	chat.find("heading", "Chat")
	inbox := signedIn(t, p, "")
	chat.fill("Message", "two of them\n/tool calculate {\"expression\":\"2+3\"}\n/tool echo {\"text\":\"said\"}")
	chat.click("button", "Send")
	chat.see("May the agent call calculate?")

	inbox.click("link", "Inbox, 2 waiting")
	inbox.find("heading", "Inbox")
	inbox.see("May the agent call echo?")
	inbox.clickWithin("Approval of calculate", "Approve")
	inbox.see("Approved.")
	inbox.fill("Reason", "not that one")
	inbox.click("button", "Reject")
	inbox.see("No run waits for a human")
	inbox.find("link", "Inbox")
	chat.see("calculate → 5")
	chat.see("echo → rejected: not that one")
	chat.find("button", "Send")
}

// A tool's arguments are edited as a form before they are approved.
func TestArgumentsAreEditedInPlace(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+careful(p))
	tab.fill("Message", `/tool calculate {"expression":"1+1"}`)
	tab.click("button", "Send")
	tab.click("button", "Edit")
	tab.fill("expression", "20+3")
	tab.click("button", "Approve")
	tab.see("calculate → 23")
}

// Edited arguments that the tool does not take are refused at their field, and none of the other decisions is sent. The
// edited text stays, and the user corrects it there.
func TestEditedArgumentsThatDoNotFitAreMendedInPlace(t *testing.T) {
	t.Parallel()
	p := start(t)
	kit := p.send("POST", "/toolkits", object{
		"kind": "http", "name": "Bank", "url": "https://bank.example/pay",
		"request": object{"name": "pay", "method": "POST", "parameters": object{
			"type": "object", "properties": object{"amount": object{"type": "integer", "maximum": 10}},
		}},
	})
	made := p.send("POST", "/agents", object{"name": "Payer", "can_ask": true, "approval": object{"mode": "always"},
		"toolkit_ids": []any{kit["toolkit_id"]}})
	tab := signedIn(t, p, "#/chat?agent="+made["agent_id"].(string))
	tab.fill("Message", "/tool pay {\"amount\":5}\n/ask Sure?")
	tab.click("button", "Send")
	tab.see("May the agent call pay?")
	tab.click("button", "Edit")
	tab.types("spinbutton", "amount", "50")
	tab.click("button", "Approve")
	tab.see("Approved with other arguments.")
	tab.fill("Answer", "yes")
	tab.click("button", "Answer")
	tab.see("must fit the tool pay: amount: maximum: got 50, want 10")
	tab.types("spinbutton", "amount", "7")
	tab.click("button", "Approve")
	tab.see("Answer: yes")
	tab.see("pay → error")
}

// A question is answered where it is asked.
func TestAQuestionIsAnsweredInTheChat(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	tab.fill("Message", "/ask Which city?")
	tab.click("button", "Send")
	tab.fill("Answer", "Paris")
	tab.click("button", "Answer")
	tab.see("Answer: Paris")
}

// A call of a function that the client of a run executes is shown with its arguments. Any user there may give its
// output.
func TestTheOutputOfAClientsFunctionIsGiven(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/responses", object{
		"model": p.demo(), "input": `/tool get_weather {"place":"Oslo"}`, "tools": []object{{
			"type": "function", "name": "get_weather", "parameters": object{"type": "object"},
		}},
	})
	tab := signedIn(t, p, "#/inbox")
	tab.find("region", "Output of get_weather")
	tab.see(`"place": "Oslo"`)
	tab.fill("Output", "cold")
	tab.click("button", "Answer")
	tab.see("No run waits")
}

// A busy chat queues a message behind the run, and the run is stopped.
func TestAMessageQueuesBehindAndTheRunIsStopped(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	tab.fill("Message", "/sleep 60s")
	tab.click("button", "Send")
	tab.find("button", "Stop")
	tab.fill("Message", "and then this")
	tab.click("button", "Queue behind")
	tab.see("Behind it: “and then this”")
	tab.click("button", "Stop")
	tab.see("You said: and then this")
}

// cutter is a way to a service that can be cut.
type cutter struct {
	listener net.Listener
	to       string
	cuts     chan chan struct{}
	conns    chan net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	var listening net.ListenConfig
	l, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{listener: l, to: to, cuts: make(chan chan struct{}), conns: make(chan net.Conn)}
	t.Cleanup(func() { _ = l.Close() })
	go c.serve()
	go c.keep()
	return c
}

func (c *cutter) serve() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to) //nolint:noctx // it ends with the connection that it serves
		if err != nil {
			_ = in.Close()
			continue
		}
		c.conns <- in
		c.conns <- out
		go pipe(in, out)
		go pipe(out, in)
	}
}

// pipe copies until one of both ends, and ends both then.
func pipe(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, wrong := to.Write(buffer[:n]); wrong != nil {
				err = wrong
			}
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func (c *cutter) keep() {
	var open []net.Conn
	for {
		select {
		case conn := <-c.conns:
			open = append(open, conn)
		case done := <-c.cuts:
			for _, conn := range open {
				_ = conn.Close()
			}
			open = nil
			close(done)
		}
	}
}

// cut ends every connection there is.
func (c *cutter) cut() {
	done := make(chan struct{})
	c.cuts <- done
	<-done
}

// A stream whose connection is lost in the middle goes on, and no part of the answer is missing or doubled.
func TestALostConnectionInTheMiddleOfAStream(t *testing.T) {
	t.Parallel()
	p := start(t)
	way := newCutter(t, strings.TrimPrefix(p.url, "http://"))
	tab := open(t, "http://"+way.listener.Addr().String())
	tab.signIn(p.key)
	tab.visit("#/chat?agent=" + p.demo())
	tab.fill("Message", "/stream 120 40ms")
	tab.click("button", "Send")
	tab.see("5 6 7 8")
	way.cut()
	tab.see("50 51 52")
	way.cut()
	var whole []string
	for i := range 120 {
		whole = append(whole, number(i+1))
	}
	tab.see(strings.Join(whole, " "))
	tab.find("button", "Send")
	assert.Equal(t, 1, strings.Count(tab.text(), "117 118 119"))
}

func number(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return number(n/10) + string(rune('0'+n%10))
}

// When a key ends during work, the sign-in opens over the page. The typed text stays, and so does the user's place.
func TestA401InTheMiddleKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	p := start(t)
	made := p.send("POST", "/api-keys", object{"name": "short", "level": "admin"})
	tab := signedIn(t, p.as(made["key"].(string)), "")
	tab.section("Groups")
	tab.fill("Name", "A group in the making")
	p.send("DELETE", "/api-keys/"+made["api_key_id"].(string), nil)
	tab.find("dialog", "Sign in again")
	tab.fill("API key", p.key)
	tab.click("button", "Sign in")
	tab.find("heading", "Groups")
	tab.click("button", "Create group")
	tab.find("link", "A group in the making")
}

// The text of a model is only text: no script of it runs, nothing is loaded for it, and no style of it counts.
func TestAnAnswerFullOfHTMLAndScriptDoesNothing(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	tab.fill("Message", strings.Join([]string{
		`<script>document.title = 'taken'</script>`, `<img src=x onerror="document.title='taken'">`,
		`<img src="https://tracker.example/pixel.gif">`, `![picture](https://tracker.example/other.gif)`,
		`<svg onload="document.title='taken'"><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>`,
		`[link](javascript:alert(1)) <a href="data:text/html,<script>alert(1)</script>">data</a>`,
		`<p style="position:fixed;inset:0;background:red">styled</p><style>body{display:none}</style>`,
		`<iframe src="https://tracker.example"></iframe><form action="https://tracker.example"><input name=q></form>`,
		`<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>`, `**bold** and [a link](https://example.com)`,
	}, "\n\n"))
	tab.click("button", "Send")
	tab.see("bold and a link")
	tab.find("button", "Send")
	var found []string
	tab.do(chromedp.Evaluate(`[...document.querySelectorAll('.message.assistant *')].filter((e) =>
		!['P','STRONG','A','BR','HEADER','TIME','SPAN','DIV','EM'].includes(e.tagName) || [...e.attributes].some((a) =>
			a.name === 'style' || a.name.startsWith('on') || /javascript:|data:/.test(a.value))
	).map((e) => e.outerHTML)`, &found))
	assert.Empty(t, found)
	var rel string
	tab.do(chromedp.Evaluate(`document.querySelector('.message.assistant a[href="https://example.com"]').rel`, &rel))
	assert.Equal(t, "noopener noreferrer", rel)
	var title string
	tab.do(chromedp.Title(&title))
	assert.NotContains(t, title, "taken")
	var loaded int
	tab.do(chromedp.Evaluate(`performance.getEntriesByType('resource').filter(
		(r) => !r.name.startsWith(location.origin)).length`, &loaded))
	assert.Zero(t, loaded, "something was loaded from elsewhere")
}

// Two browsers look at the same chat: each message of one appears in the other.
func TestTwoBrowsersInTheSameChat(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.send("POST", "/chat", formOf("agent_id", p.demo(), "chat_id", "both", "message", "first"))
	one, two := signedIn(t, p, "#/chat/both"), signedIn(t, p, "#/chat/both")
	one.see("You said: first")
	two.see("You said: first")
	one.fill("Message", "second\n/stream 5 50ms")
	one.click("button", "Send")
	two.see("You said: second")
	two.fill("Message", "third")
	two.click("button", "Send")
	one.see("You said: third")
}

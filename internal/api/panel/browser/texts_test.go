//go:build browser

package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const unformatted = "Shown as plain text: too long or too deeply nested to format."

// A text that would take a browser very long to format, or is nested very deep, is shown as it is; the other texts of
// the page are formatted.
func TestATextThatIsTooMuchIsShownAsText(t *testing.T) {
	t.Parallel()
	p := start(t)
	runs := map[string]string{}
	for _, text := range []string{
		"and\n" + strings.Repeat("* ", 3000) + "x", "and\n" + strings.Repeat("> ", 3000) + "deep",
		strings.Repeat("_a_", 20_000), "a **short** one", strings.Repeat("a line of a long text\n", 11_000),
	} {
		runs[text] = p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "chat_id", "much", "message", text))
	}
	tab := signedIn(t, p, "#/chat/much")
	tab.see("a short one")
	var plain int
	tab.evaluate(`document.querySelectorAll('.message.assistant .prose.pre').length`, &plain)
	assert.Equal(t, len(runs)-1, plain)
	assert.Equal(t, plain, strings.Count(tab.text(), unformatted))
	for text, run := range runs {
		tab.visit("#/runs/" + run)
		tab.find("heading", run)
		tab.see("of work")
		assert.Equal(t, len(text) > 100, strings.Contains(tab.text(), unformatted), text[:10])
		tab.find("heading", "Steps")
		if len(text) > 200_000 {
			tab.see("These are the first 20,000 of 242,000 characters.")
			tab.evaluate(`[...document.querySelectorAll('main button')]
				.find((b) => b.innerText === 'Show more').click()`, nil)
			tab.see("These are the first 200,000 of 242,000 characters.")
		}
	}
}

// A text that grows beyond the bound while it comes is shown as text from then on, and does not change to and fro.
func TestAnAnswerThatGrowsTooLongBecomesTextOnce(t *testing.T) {
	t.Parallel()
	p := start(t)
	tab := signedIn(t, p, "#/chat?agent="+p.demo())
	tab.find("heading", "Chat")
	tab.evaluate(`window.looks = []; new MutationObserver(() => {
		const message = document.querySelector('.message.assistant')
		if (!message?.querySelector('.prose')) return
		const look = message.querySelector('.prose.pre') ? 'text' : 'formatted'
		if (window.looks.at(-1) !== look) window.looks.push(look)
	}).observe(document.body, { subtree: true, childList: true })`, nil)
	tab.fill("Message", "It is **long**.\n/stream 300 5ms\n"+strings.Repeat("`code` and *words* ", 900)+
		"\n/stream 40000 0ms")
	tab.click("button", "Send")
	tab.see(unformatted)
	tab.find("button", "Send")
	var formats []string
	tab.evaluate(`window.looks`, &formats)
	assert.Equal(t, []string{"formatted", "text"}, formats)
}

// A part of a page that cannot be shown has an error; the rest of the page is there.
func TestAPartThatBreaksLeavesTheRestOfThePage(t *testing.T) {
	t.Parallel()
	p := start(t)
	run := p.makes("run_id", "/chat", formOf("agent_id", p.demo(), "message", "hello"))
	way := newBetween(t, p)
	way.goesWrong(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/steps") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"steps":[{"index":0,"kind":"tool","name":"x","started_at":"never"}]}`))
		return true
	})
	tab := signedInThrough(t, way, p, "#/runs/"+run)
	tab.breaks = true
	tab.see("This part cannot be shown")
	tab.see("You said: hello")
	way.goesWrong(nil)
}

package providerhttp

import (
	"net/http"
	"slices"
)

// Cause is the meaning of a failure for the call, however its provider reports it.
type Cause int

// The causes.
const (
	Passing   Cause = iota // the same call may succeed later
	Throttled              // as Passing, after a wait
	TooLong                // what was sent does not fit the model's context window
	Filtered               // the provider refuses the content
	UsedUp                 // the quota or credit of the account is used up
	BadKey                 // the credentials are refused
	Denied                 // the credentials do not allow this call
	Wrong                  // the same call never succeeds
)

// Cause returns the meaning of this failure. status is that of the HTTP answer; 0 or 200 where the failure stands
// within an answer. Its name decides before its words, and its words before the status.
func (t Trouble) Cause(status int) Cause {
	within := status < http.StatusBadRequest
	if within {
		status = t.status()
	}
	switch {
	case t.tooLong(status):
		return TooLong
	case t.named(filteredCode) || t.worded(filtered):
		return Filtered
	case t.usedUp(status):
		return UsedUp
	case t.named(keyCode) || t.worded(key):
		return BadKey
	case t.named(generationCode) || t.worded(generation):
		return Passing
	}
	switch status {
	case http.StatusUnauthorized:
		return BadKey
	case http.StatusForbidden:
		return Denied
	case http.StatusTooManyRequests:
		return Throttled
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusFailedDependency,
		498, 499: // Groq has no capacity, a proxy gave the call up
		return Passing
	case http.StatusNotImplemented:
		return Wrong
	case http.StatusBadRequest:
		switch {
		case t.named(throttledCode) || t.worded(throttled) && !t.worded(invalid):
			return Throttled
		case within && t.worded(passing): // some give each failure the name of a bad request
			return Passing
		}
		return Wrong
	}
	switch {
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError, t.named(wrongCode),
		t.worded(wrong):
		return Wrong
	case status < http.StatusBadRequest && (t.named(throttledCode) || t.worded(throttled)):
		return Throttled
	}
	return Passing
}

// usedUp reports whether waiting for minutes does not help. Some providers have the same words for a limit of a minute.
// A limit of a day may have a short wait.
func (t Trouble) usedUp(status int) bool {
	switch {
	case t.named(usedUpCode), status == http.StatusPaymentRequired, t.worded(noQuota):
		return true
	case t.Wait > 0, t.worded(minutes), t.named(exhaustedCode):
		return false
	}
	return t.worded(usedUp) || status == http.StatusTooManyRequests && t.worded(daily)
}

func (t Trouble) named(by pattern) bool { return slices.ContainsFunc(t.codes, by.MatchString) }
func (t Trouble) worded(words pattern) bool {
	return slices.ContainsFunc(t.words, words.MatchString)
}

// In is the cause in words, as the beginning of a sentence about a provider.
func (c Cause) In(provider string) string {
	switch c {
	case Filtered:
		return provider + " refuses this content: it "
	case UsedUp:
		return "the quota or credit at " + provider + " is used up: it "
	case BadKey:
		return provider + " refuses the API key: it "
	case Denied:
		return provider + " refuses the API key or its request: it "
	default:
		return provider + " "
	}
}

const limits = `\b(spending|spend|billing|monthly|api usage|usage|key|credit)`

// The names and words are those that providers document, or that were reported in public. modeltest.Answers has a row
// for each.
var (
	filteredCode = anyOf(`content_?filter`, `content_?policy`, `responsibleaipolicy`, `data_inspection_failed`,
		`sensitive_?content`, `prohibited_content`, `content_?moderation`,
		`guardrail_(violat|block|interven)`, `^(1301|safety|recitation|blocklist)$`)
	filtered = anyOf(`content management policy`, `content[_ -]?(filter(ing|ed)?|moderation) (policy|system)`,
		`contentpolicyviolation`, `content_policy_violation`, `flagged (as|by|for|because)`, `requires moderation`,
		`(violat\w+|against) [^.;]{0,30}(usage|content|safety) (policy|policies|guidelines)`,
		`rejected [^.;]{0,40}safety`,
		`(violated|violates|blocked by) [^.;]{0,30}guardrail`, `content blocked`, `\b(in|out)put (new_)?sensitive`,
		`content exists risk`, `inappropriate content`, `prohibited_content`,
		`content (is|was|has been) (blocked|filtered)`+
			`($|[^\w ]| (and|as|because|due)\b| (by|for) [^.;]{0,40}(polic|safety|filter|moderat|guard))`,
		`不安全或敏感内容`, `敏感内容`)

	usedUpCode = anyOf(`insufficient_?(quota|credit|balance|fund)`, `billing`, `credits?_(exhausted|required|limit)`,
		`out_of_credits`, `payment_required`, `exceeded_current_quota`, `arrearage`, `overdue`, `budget_exceeded`,
		`account_deactivated`, `usage_limit_reached`, `freetieronly`, `^1113$`)
	usedUp = anyOf(`exceeded your current quota`, `insufficient (quota|credit|balance|fund)`,
		`(credit|balance)s?\b[^.;]{0,30}\b(too low|exhausted|used up|run out|ran out|depleted|insufficient|expired)`,
		`(out of|run out of|used all|no (more|remaining)|not enough|purchase( more)?|add( more)?|requires more) `+
			`(available )?(\d+ )?(api )?credits`,
		limits+` (hard )?limits?\b[^.;]{0,20}(reached|exceeded)`,
		`(reached|exceeded|hit)[^.;]{0,40}`+limits+` (hard )?limits?\b`,
		`billing (details|is not|not active|account)`, `budget has been exceeded`, `exceeded budget`, `exceededbudget`,
		`account is not active`, `余额不足`, `欠费`)
	noQuota       = anyOf(`quota exceeded[^;]{0,200}, limit: 0\b`)
	exhaustedCode = anyOf(`^resource_exhausted$`) // Google's name for each kind of limit
	daily         = anyOf(`\b(per|a)[ _-]?day\b`, `\bdaily\b`, `\bper[ _-]?month\b`, `\bmonthly\b`,
		`(calls|requests|tokens) / (day|month)\b`)
	minutes = anyOf(`\bper[ _-]?(second|sec|minute|min)\b`, `perminute`, `\b[TR]PM\b`)

	keyCode = anyOf(`(invalid|incorrect|expired|missing)_?api_?key`, `api_?key_?(invalid|expired)`,
		`^authentication_?error$`, `^unrecognizedclient`, `invalidsignature`, `expiredtoken`, `invalidclienttokenid`)
	key = anyOf(`(incorrect|invalid|wrong|bad|no|missing|unknown) api[ -]?key`, `api[ -]?key [^.;]{0,20}`+
		`(not valid|invalid|expired|not found|incorrect)`, `security token [^.;]{0,30}(invalid|expired)`)

	// generationCode and generation match failures of the model's output. Another attempt may have other output.
	generationCode = anyOf(`tool_use_failed`, `json_validate_failed`)
	generation     = anyOf(`tool call validation failed`, `failed to call a function`, `model did not call a tool`)

	passing = anyOf(`overloaded`, `\btoo busy\b`, `try again later`, `temporarily`,
		`time[d -]? ?out`, `\bunavailable\b`)

	throttledCode = anyOf(`rate_?limit`, `throttl`, `too_?many_?requests`, `slow_?down`, `^resource_exhausted$`,
		`servicequotaexceeded`)
	throttled = anyOf(`rate.?limit[^.;]{0,40}(reached|exceeded|hit)`, `(exceeded|reached|hit)[^.;]{0,30}rate.?limit`,
		`too many requests`, `throttl`)

	// invalid matches the words of failures that repeat a value of the request.
	invalid = anyOf(`\b(not|n't) (a )?(valid|allowed|supported|one of)\b`, `\binvalid (value|argument|enum|name|input)`,
		`\bis (invalid|unknown)\b`, `(supported|allowed|valid) (values|options) `, `validation error`)

	// wrong matches the words of failures that servers report as their own, but that only another request avoids.
	wrongCode = anyOf(`^not_supported`, `^unsupported`, `^model_not_found$`,
		`^invalid_?argument$`, `^not_found_error$`, `^validation`, `unimplemented`)
	wrong = anyOf(`\b(image|audio|video|vision|file|tool|function|system|reasoning|thinking|grammar|schema|stream|`+
		`multi.?modal|response_format|json_schema)\w*( \w+){0,3} (is|are) not (supported|enabled)`,
		`(does|do|did) ?n[o']t support`, `(not|un)[- ]?supported (by|with|for|in|param|content|value|type)`,
		`param(eter)? requires`, `--mmproj|mmproj file`,
		`\bjinja\b`, `for this template`, `not callable: \w+ at row`,
		`(failed|unable) to parse (grammar|tools|messages|schema|json)`, `(conversation )?roles must alternate`,
		`model \S+ (was |is )?not found`, `no such model`, `unknown model`, `unexpected endpoint`)
)

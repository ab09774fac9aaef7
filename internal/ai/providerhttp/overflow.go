package providerhttp

import (
	"net/http"
	"regexp"
	"strings"
)

// tooLong reports whether the request does not fit the model's context window. Names of failures have precedence over
// words.
func (t Trouble) tooLong(status int) bool {
	switch {
	case status == http.StatusTooManyRequests && t.worded(minutes):
		return false
	case t.named(overflowCode):
		return true
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden,
		status == http.StatusNotFound, status == http.StatusTooManyRequests:
		return false
	case t.worded(longContent):
		return true
	case t.named(otherCode), t.worded(otherLimit):
		return false
	}
	return status == http.StatusRequestEntityTooLarge || t.worded(overflow)
}

type pattern = *regexp.Regexp

// anyOf makes one expression. A point within a number does not end a sentence.
func anyOf(patterns ...string) pattern {
	return regexp.MustCompile("(?i)" + strings.ReplaceAll(strings.Join(patterns, "|"), `[^.;]`, `(?:[^.;]|\.\d)`))
}

// The names and words are those of servers and providers as they were reported in public: modeltest.Answers has one
// row for each. Apostrophes and quotation marks differ, so none is matched.
var (
	// overflowCode matches the names of this failure.
	overflowCode = anyOf(
		`context_?(length|window|size)_?(exceeded|error)`, `context_overflow`, `exceed_context`,
		`(prompt|input|context)_too_long`,
		`max_prompt_tokens_exceeded`, `request_too_large`, `tokens_limit_reached`, `token_quantity_exceeded`,
		`too_many_tokens`, `^1261$`) // a number of Zhipu

	// otherCode matches the names of failures whose words may be like those of an overflow.
	otherCode = anyOf(
		`^tokens$`, `rate_?limit`, `quota`, `throttl`, `too_?many_?requests`, `overloaded`, `billing`,
		`(string|array)_(above|too_long)`, `invalid_function`, `image`)

	// otherLimit matches the words of limits that are not the window's. They limit time, money, a user's usage, allowed
	// content, how many things there are, a name, a picture or a file.
	otherLimit = anyOf(
		`rate.?limit`, `\b(per|an?)[ _-]?(sec|second|min|minute|hour|day|month)\b`, `\b[TR]P[MDS]\b`,
		`\b(daily|monthly)\b`, `quota`, `too many requests`, `please wait`, `throttl`, `\bcredits?\b`, `billing`,
		`\b(string|array) too long`, `\b(budget|account|plan|tier|subscription|organi[sz]ation|workspace)s?\b`,
		`\bfor (the |this |your )?(api.)?(team|user|key|project)\b`, `\b(safety|policy|policies|moderation)\b`,
		`\bmax(imum)?( allowed)? (number|count) of (tools?|functions?|images?|pictures?|requests?|messages?|files?|`+
			`documents?|items?|parts?|stop sequences?|choices)\b`,
		`\b(key|name|id|identifier|url|schema|metadata|title|label|header)s?\b\W{0,3}(length )?`+
			`(is too (long|large)|(has )?exceed)`,
		`\b(duration|seconds)\b`, `图片|图像|文件|音频|视频|配额|额度|余额|频率|限流|每分钟`,
		`\b(image|picture|audio|video|file|document|pdf)s?\b[^.;]{0,40}(exceed|too (large|big)|larger than)`+
			`[^.;]{0,60}\b(mb|kb|mib|bytes|pixels|pages|size|dimensions?|resolution)\b`,
		`\b(image|picture|audio|video|file|document|pdf)( size| file)?( is)? too (large|big)`)

	// longContent matches a message whose content is too long as a text.
	longContent = anyOf(`(messages|input)\[\d+\]\.content\S* string too long`)

	// overflow matches the words of this failure.
	overflow = anyOf(
		`maximum context`,
		`exceed(s|ed|ing)?\b[^.;]{0,60}\bcontext.?(window|length|limit|size)`,
		`context.?(window|length|limit|size)[^.;]{0,20}(exceed|reached|overflow|\bfull\b)`,
		`reached[^.;]{0,20}\bcontext.?(window|length|limit|size)`,
		`exceed_context`,
		`\bcontext[ _](the )?overflow`,
		`context (size|length|window) is (only )?[\d,]+ tokens`, `context length of only \d+`,
		`(greater|longer|larger) than the (maximum )?(model.{0,4} )?(context|model|sequence) (length|size|window)`,
		`\b(prompt|input|conversation|context|messages?|chat|history)( history| texts?| tokens?)?`+
			`( length)? (is |are )?too (long|large|big)\b`,
		`kv.?cache (is )?full`, `(space|slot)[^.;]{0,20} in (the )?kv.?cache`,
		`is too long and exceeds`,
		`maximum prompt length`, `max(imum)?[ _]sequence[ _]length`, `\bmax_seq_len\b`, `max tokens of \d+ exceeded`,
		`reduce the (length|size) of (the |your )?(messages?|input|prompt|conversation)`, `reduce your prompt`,
		`inputs\W{1,3}tokens \+ \W?max_new_tokens\W? must be`, `inputs\W{1,3}must have less than \d+ tokens`,
		`\b(prompt|input)s?(\b|_tokens?\b)[^.;]{0,60}(exceed(s|ed|ing)?|(greater|longer|larger|more) than) `+
			`(the |its )?(max|limit|model|context|allowed|configured|[\d,.]+k?[ -]tokens?\b)`,
		`(\b|_)(prompt|input|total)s?[ _](tokens?|length)\b[^.;]{0,60}`+
			`((can ?not|must not|should not|may not) exceed|must be (<|(less|smaller|lower|fewer) than))`,
		`\bmax\w*tokens\W{0,3}must be [^.;]{0,20}got -\d`,
		`input token count is \d+ but`,
		`too many (input |prompt )?tokens`, `too many total text bytes`,
		`total (number of )?tokens\b[^.;]{0,60}exceed`, `token limit (was |is )?exceeded`,
		`exceed(s|ed)? (the )?max(imum)? (message|input|prompt) tokens?\b`, `exceeded model token limit`,
		`tokens in request more than max`, `max size: [\d,]+ tokens`, `range of input length should be`,
		`request entity too large`,
		`超长`, `(输入|提示词|上下文|对话|消息|prompt|tokens?)[^。；]{0,20}(过长|太长|超过|超出)`)
)

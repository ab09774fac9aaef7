package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// token matches one token of a regular expression.
var token = regexp.MustCompile(`(?s)\\x[0-9a-fA-F]{2}|\\.|\(\?|\[\^?\]?|.`)

// portablePattern reports whether each provider reads a regular expression. Some use the re module of Python and refuse
// any other syntax. It is also false for a few expressions that Python reads, such as those that look ahead.
func portablePattern(pattern string) bool {
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil || len(pattern) > maxPattern {
		return false
	}
	tokens := token.FindAllString(pattern, -1)
	within := false // a class
	for i, t := range tokens {
		before, next := "", ""
		if i > 0 {
			before = tokens[i-1]
		}
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case t[0] == '\\' && !pythons(t):
			return false
		case within && t == "-" && isClass(before) && next != "]": // [\w-.]
			return false
		case within:
			within = t[0] == '\\' || !strings.HasSuffix(t, "]")
		case t[0] == '[':
			within = true
		case t == "(?" && next != ":":
			return false
		case strings.ContainsAny(t[:1], "*+?{") && (isAnchor(before) || t == "{" && next == ","):
			return false
		}
	}
	return true
}

// isForeign reports whether a regular expression with this error may be right in another language. Such an expression
// looks ahead, refers back, names a class of characters, or repeats very often.
func isForeign(err error) bool {
	fault, is := errors.AsType[*syntax.Error](err)
	if !is {
		return false
	}
	switch fault.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrLarge:
		return true
	case syntax.ErrInvalidCharRange: // not [z-a]
		return strings.ContainsAny(fault.Expr[:1], `\[`)
	case syntax.ErrInvalidRepeatSize: // not a{3,2}
		least, most := 0, 0
		n, _ := fmt.Sscanf(fault.Expr, "{%d,%d}", &least, &most)
		return n < 2 || least <= most
	}
	return false
}

// pythons reports whether Python knows an escape sequence.
func pythons(escape string) bool {
	letter := escape[1] | 0x20
	if letter == 'x' && len(escape) == 4 {
		return true
	}
	isWord := letter >= 'a' && letter <= 'z' || escape[1] >= '0' && escape[1] <= '9'
	return !isWord || len(escape) == 2 && strings.IndexByte("dDwWsSbBAnrtfva", escape[1]) >= 0
}

func isClass(escape string) bool {
	return len(escape) == 2 && escape[0] == '\\' && strings.IndexByte("dDwWsS", escape[1]) >= 0
}

// isAnchor reports whether a token matches a position. Such a token cannot be repeated.
func isAnchor(t string) bool {
	return t == "^" || t == "$" || t == `\b` || t == `\B` || t == `\A`
}

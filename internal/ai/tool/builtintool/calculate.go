package builtintool

import (
	"math"
	"math/big"
	"strings"
	"text/scanner"

	"agentplatform/internal/ai/tool"
)

// The evaluator is our own. Libraries for expressions call methods by reflection, so the linker keeps every method of
// every linked type. The worker was three times as large.

// Limits on expressions and results.
const (
	maxExpression = 1000 // characters
	maxExponent   = 1000
	maxBits       = 1 << 14 // of a numerator or a denominator
	digits        = 16      // after the decimal point
)

// calculate evaluates an expression of numbers, pi and e, with + - * / % ** and parentheses. The result is exact as
// long as all values are integers and fractions. The error is a [tool.Error].
func calculate(expression string) (result string, err error) {
	if len(expression) > maxExpression {
		return "", tool.Fail("the expression has more than %d characters", maxExpression)
	}
	c := &calculator{}
	c.Init(strings.NewReader(strings.ReplaceAll(expression, "**", "^")))
	c.Mode = scanner.ScanInts | scanner.ScanFloats | scanner.ScanIdents
	c.Error = func(*scanner.Scanner, string) {} // the parser reports text that the scanner cannot read
	defer func() {
		if p := recover(); p != nil {
			failure, ours := p.(*tool.Error)
			if !ours {
				panic(p)
			}
			result, err = "", failure
		}
	}()
	c.next()
	n := c.sum()
	if c.token != scanner.EOF {
		c.unreadable()
	}
	if n.IsInt() {
		return n.Num().String(), nil
	}
	return strings.TrimRight(n.FloatString(digits), "0"), nil
}

// calculator is a recursive-descent evaluator; it panics with a [tool.Error].
type calculator struct {
	scanner.Scanner
	token rune
}

func (c *calculator) next() { c.token = c.Scan() }

func (c *calculator) unreadable() {
	what := c.TokenText()
	if c.token == scanner.EOF {
		what = "its end"
	}
	panic(&tool.Error{Message: "the expression is not valid at " + what})
}

func (c *calculator) bounded(n *big.Rat) *big.Rat {
	if n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits {
		panic(&tool.Error{Message: "the numbers grow too large"})
	}
	return n
}

func (c *calculator) sum() *big.Rat { return c.chain("+-", c.product) }

func (c *calculator) product() *big.Rat { return c.chain("*/%", c.signed) }

// chain evaluates operands and the operators of one rank between them, from left to right.
func (c *calculator) chain(operators string, operand func() *big.Rat) *big.Rat {
	n := operand()
	for strings.ContainsRune(operators, c.token) {
		operator := c.token
		c.next()
		n = c.bounded(apply(operator, n, operand()))
	}
	return n
}

func apply(operator rune, left, right *big.Rat) *big.Rat {
	n := new(big.Rat)
	switch operator {
	case '+':
		return n.Add(left, right)
	case '-':
		return n.Sub(left, right)
	case '*':
		return n.Mul(left, right)
	}
	if right.Sign() == 0 {
		panic(&tool.Error{Message: "the expression divides by zero"})
	}
	if n.Quo(left, right); operator == '/' {
		return n
	}
	whole := new(big.Rat).SetInt(new(big.Int).Quo(n.Num(), n.Denom()))
	return n.Sub(left, whole.Mul(whole, right))
}

func (c *calculator) signed() *big.Rat {
	minus := false
	for c.token == '-' || c.token == '+' {
		minus = minus != (c.token == '-')
		c.next()
	}
	n := c.power()
	if minus {
		n = new(big.Rat).Neg(n)
	}
	return n
}

func (c *calculator) power() *big.Rat {
	base := c.number()
	if c.token != '^' {
		return base
	}
	c.next()
	exponent := c.signed()
	if !exponent.IsInt() {
		b, _ := base.Float64()
		e, _ := exponent.Float64()
		return c.float(math.Pow(b, e))
	}
	if !exponent.Num().IsInt64() || exponent.Num().Int64() > maxExponent || exponent.Num().Int64() < -maxExponent {
		panic(&tool.Error{Message: "the exponent is too large"})
	}
	n, e := big.NewRat(1, 1), exponent.Num().Int64()
	if e < 0 {
		if base.Sign() == 0 {
			panic(&tool.Error{Message: "the expression divides by zero"})
		}
		base, e = new(big.Rat).Inv(base), -e
	}
	for range e {
		n = c.bounded(n.Mul(n, base))
	}
	return n
}

func (c *calculator) float(f float64) *big.Rat {
	n := new(big.Rat).SetFloat64(f)
	if n == nil {
		panic(&tool.Error{Message: "the result is not a number"})
	}
	return n
}

func (c *calculator) number() *big.Rat {
	text, token := c.TokenText(), c.token
	switch {
	case token == '(':
		c.next()
		n := c.sum()
		if c.token != ')' {
			c.unreadable()
		}
		c.next()
		return n
	case token == scanner.Ident && (text == "pi" || text == "e"):
		c.next()
		return c.float(map[string]float64{"pi": math.Pi, "e": math.E}[text])
	case token == scanner.Int || token == scanner.Float:
		n, ok := new(big.Rat).SetString(text)
		if !ok || len(text) > 200 || strings.ContainsAny(text, "pP") {
			c.unreadable()
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 5 && !strings.HasPrefix(text, "0x") {
			c.unreadable()
		}
		c.next()
		return c.bounded(n)
	}
	c.unreadable()
	return nil
}

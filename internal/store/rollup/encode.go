package rollup

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Pages encodes a table as pages of bytes, in the order of the keys. Each page can be read by itself. None has more
// than limit bytes; one of a single row may have up to [MaxRow]. An empty table has no page.
func (t *Table) Pages(limit int) [][]byte {
	var pages [][]byte
	p := newPage(t.view)
	for _, k := range t.keys() {
		full := *p
		if p.row(k, t.rows[k]); p.size() > limit && full.rows > 0 {
			pages, p = append(pages, full.bytes()), newPage(t.view)
			p.row(k, t.rows[k])
		}
	}
	if p.rows > 0 {
		pages = append(pages, p.bytes())
	}
	return pages
}

// MaxRow bounds the bytes of a page of one row. Any row fits, because names, models, bins and sets are bounded.
const MaxRow = 192 << 10

// encoding is the first byte of a page: the version of its form.
const encoding = 1

// page is a page as it is written. It has the texts of its keys, each once, then its rows, which name them by number.
type page struct {
	view   View
	texts  []byte
	known  uint64 // how many texts there are, and the number of each; the empty one is always there
	number map[string]uint64
	body   []byte
	rows   uint64
}

func newPage(v View) *page { return &page{view: v, number: map[string]uint64{"": 0}} }

// size is how many bytes the page has at most.
func (p *page) size() int { return 1 + 2*binary.MaxVarintLen64 + len(p.texts) + len(p.body) }

func (p *page) bytes() []byte {
	b := []byte{encoding}
	b = binary.AppendUvarint(b, p.known)
	b = append(b, p.texts...)
	b = binary.AppendUvarint(b, p.rows)
	return append(b, p.body...)
}

// text writes the number of a text. An identifier, which is hexadecimal, takes half of its length.
func (p *page) text(s string) {
	n, known := p.number[s]
	if !known {
		p.known++
		n = p.known
		p.number[s] = n
		if raw, err := hex.DecodeString(s); err == nil && hex.EncodeToString(raw) == s {
			p.texts = append(binary.AppendUvarint(p.texts, uint64(len(raw))<<1|1), raw...)
		} else {
			p.texts = append(binary.AppendUvarint(p.texts, uint64(len(s))<<1), s...)
		}
	}
	p.body = binary.AppendUvarint(p.body, n)
}

func (p *page) numbers(n ...int64) {
	for _, v := range n {
		p.body = binary.AppendVarint(p.body, v)
	}
}

func (p *page) row(k Key, r *Row) {
	p.rows++
	for _, s := range k.all() {
		p.text(s)
	}
	p.numbers(r.Entries, r.ActiveMS, r.QueueMS, r.ModelCalls, r.ToolCalls, int64(len(r.Tokens)))
	for _, t := range r.Tokens {
		p.text(t.Model)
		p.numbers(t.Input, t.Output)
	}
	p.bins(r.Active)
	p.bins(r.Queue)
	if !p.view.separates(User) {
		p.set(r.Users)
	}
	if !p.view.separates(Agent) {
		p.set(r.Agents)
	}
}

func (p *page) bins(b Bins) {
	p.numbers(int64(len(b)))
	last := int64(0)
	for _, bin := range b {
		p.numbers(int64(bin.Index)-last, bin.Count)
		last = int64(bin.Index)
	}
}

func (p *page) set(s Set) {
	p.body = binary.AppendUvarint(p.body, uint64(len(s)))
	last := uint64(0)
	for _, hash := range s {
		p.body = binary.AppendUvarint(p.body, hash-last)
		last = hash
	}
}

// ErrPage is the error for bytes that are not a page that this program can read.
var ErrPage = errors.New("rollup: this is no page of a table")

// Read calls f with each row of a page of a table of this view. The row is valid until f returns. The error is
// [ErrPage].
func Read(v View, page []byte, f func(Key, *Row)) error {
	if len(page) == 0 || page[0] != encoding {
		return ErrPage
	}
	r := reader{rest: page[1:]}
	texts := make([]string, 1, 1+r.count(1))
	for range cap(texts) - 1 {
		texts = append(texts, r.newText())
	}
	r.texts = texts
	var row Row
	for range r.count(members) {
		k := r.row(v, &row)
		if r.bad {
			break
		}
		f(k, &row)
	}
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: it is cut off, or goes on", ErrPage)
	}
	return nil
}

// reader reads a page. After the first byte that makes no sense everything is empty and bad is set.
type reader struct {
	rest  []byte
	texts []string
	bad   bool
}

func (r *reader) fail() { r.rest, r.bad = nil, true }

func (r *reader) unsigned() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// number reads the result of [binary.AppendVarint]: the sign is the lowest bit.
func (r *reader) number() int64 {
	n := r.unsigned()
	return int64(n>>1) ^ -int64(n&1) //nolint:gosec // the bits as they were written
}

// count reads the number of the following things, each of which takes some bytes. A number above the remaining bytes is
// an error.
func (r *reader) count(bytes int) int { return r.fits(r.unsigned(), bytes) }

func (r *reader) fits(n uint64, bytes int) int {
	if n > uint64(len(r.rest)/bytes) {
		r.fail()
		return 0
	}
	return int(n) //nolint:gosec // it is at most the length of a slice
}

func (r *reader) newText() string {
	n := r.unsigned()
	raw := r.rest[:r.fits(n>>1, 1)]
	r.rest = r.rest[len(raw):]
	if n&1 == 1 {
		return hex.EncodeToString(raw)
	}
	return string(raw)
}

func (r *reader) text() string {
	n := r.unsigned()
	if n >= uint64(len(r.texts)) {
		r.fail()
		return ""
	}
	return r.texts[n]
}

func (r *reader) row(v View, row *Row) Key {
	k := Key{r.text(), r.text(), r.text(), r.text(), r.text(), r.text()}
	row.Entries, row.ActiveMS, row.QueueMS = r.number(), r.number(), r.number()
	row.ModelCalls, row.ToolCalls = r.number(), r.number()
	row.Tokens = row.Tokens[:0]
	for range r.fits(uint64(r.number()), 3) { //nolint:gosec // a negative one is too many
		row.Tokens = append(row.Tokens, Tokens{r.text(), r.number(), r.number()})
	}
	row.Active, row.Queue = r.bins(row.Active[:0]), r.bins(row.Queue[:0])
	row.Users, row.Agents = setOf(k.User), setOf(k.Agent)
	if !v.separates(User) {
		row.Users = r.set()
	}
	if !v.separates(Agent) {
		row.Agents = r.set()
	}
	return k
}

func (r *reader) bins(b Bins) Bins {
	n := r.fits(uint64(r.number()), 2) //nolint:gosec // a negative one is too many
	b = slices.Grow(b, n)
	index := int64(0)
	for range n {
		index += r.number()
		b = append(b, Bin{int32(index), r.number()}) //nolint:gosec // as it was written
	}
	return b
}

func (r *reader) set() Set {
	n := r.count(1)
	if n > Exactly {
		r.fail()
		return nil
	}
	s := make(Set, 0, n)
	hash := uint64(0)
	for range n {
		hash += r.unsigned()
		s = append(s, hash)
	}
	return s
}

package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Paging is the query of lists.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page"`
}

// LongPaging is the query of lists that mostly have one page.
type LongPaging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100"`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page"`
}

// Scanned bounds how many rows a page of a filtered listing reads. Such a page may be short and still have a cursor.
const Scanned = 500

// Filter is [record.Filter] of the page that the query wants, within [Scanned] rows. It returns the cursor of the next
// page. Its errors are those of [DecodeCursor], read and show.
func Filter[T, V any](
	ctx context.Context, in Paging, read record.Listing[T], show func(T) (v V, shown bool, err error),
) (views []V, next *string, err error) {
	after, err := DecodeCursor(in.Cursor)
	if err != nil {
		return nil, nil, err
	}
	page, err := record.Filter(ctx, after, in.Limit, Scanned, read, show)
	if err != nil {
		return nil, nil, err
	}
	return append([]V{}, page.Rows...), EncodeCursor(page.Next), nil
}

// Resources reads a page of the resources that keep returns true for, as [Filter] does. The page ends by their bytes,
// too.
func Resources[T record.Resourceful](
	ctx context.Context, store *record.Store, scope record.Scope, in Paging, keep func(T) bool,
) (rows []record.Entity[T], next *string, err error) {
	return Filter(ctx, in, func(ctx context.Context, after string, n int) (record.Page[record.Entity[T]], error) {
		return record.Resources[T](ctx, store, scope, after, n)
	}, Bounded(func(e record.Entity[T]) (record.Entity[T], bool, error) { return e, keep(e.Value), nil }))
}

// Bounded ends a page of [Filter] before a row for which it has no room.
func Bounded[T, V any](show func(T) (V, bool, error)) func(T) (V, bool, error) {
	var room Page
	return func(row T) (V, bool, error) {
		v, shown, err := show(row)
		if err == nil && shown && !room.Takes(v) {
			err = record.ErrPageFull
		}
		return v, shown, err
	}
}

// maxPage is the largest size of a page of a list, in bytes; its first row alone may have more.
const maxPage = 1 << 20

// Page counts the bytes of a page. Lists of large rows end their pages by bytes, too: a hundred runs may have hundreds
// of megabytes.
type Page struct{ rows, bytes int }

// Takes reports whether a row still has room on the page.
func (p *Page) Takes(row any) bool {
	b, err := json.Marshal(row)
	p.rows++
	p.bytes += len(b)
	return err != nil || p.rows == 1 || p.bytes <= maxPage
}

// asideOf is the largest difference between the time in a row and the time in its identifier. The audit log's entry of
// a document has the document's identifier, which was made before its bytes came.
const asideOf = 20 * time.Minute

// Between narrows a listing by identifiers, newest first, to rows whose time may lie between two moments; zero is not a
// bound. The caller must check the exact time of each row.
func Between[T any](from, to time.Time, read record.Listing[T]) record.Listing[T] {
	first, last := "", ""
	if !to.IsZero() {
		first = positionOf(to.Add(asideOf))
	}
	if !from.IsZero() {
		last = positionOf(from.Add(-asideOf))
	}
	return func(ctx context.Context, after string, limit int) (record.Page[T], error) {
		if first != "" && (after == "" || after > first) {
			after = first
		}
		page, err := read(ctx, after, limit)
		page.EndAt(last)
		return page, err
	}
}

// positionOf is the place of a moment in a listing by identifiers, which begin with their creation time.
func positionOf(t time.Time) string {
	earliest, latest := time.Unix(0, 0), time.Unix(math.MaxUint32, 0)
	switch {
	case t.Before(earliest):
		t = earliest
	case t.After(latest):
		t = latest
	}
	return host.FormatID(t, 0)
}

// Cursors are opaque to clients. A cursor is a place in a listing, and stays valid after any write.
const cursorMark = "c1:"

// EncodeCursor is the cursor after a place in a listing; nil after the last place, which is empty.
func EncodeCursor(position string) *string {
	if position == "" {
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString([]byte(cursorMark + position))
	return &s
}

// DecodeCursor is the place after which a page begins; empty for the first page. A cursor that no page has given is an
// invalid field.
func DecodeCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	position, marked := strings.CutPrefix(string(raw), cursorMark)
	if err != nil || !marked || position == "" || len(position) > 512 || strings.ContainsFunc(position, unprintable) {
		return "", problem.InvalidField("query.cursor", "must be the cursor of a previous page")
	}
	return position, nil
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"agentplatform/internal/problem"
	"agentplatform/internal/record"
)

// Paging is the query of lists.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// Resources reads a page of a listing. Its errors are those of [DecodeCursor] and of record.
func Resources[T record.Resourceful](
	ctx context.Context, store *record.Store, scope record.Scope, in Paging,
) (record.Page[record.Entity[T]], error) {
	after, err := DecodeCursor(in.Cursor)
	if err != nil {
		return record.Page[record.Entity[T]]{}, err
	}
	return record.Resources[T](ctx, store, scope, after, in.Limit)
}

// Scanned bounds how many rows a page of a filtered listing looks at; it may be short and still have a cursor.
const Scanned = 500

// maxPage is how many bytes a page of a list may have; its first row may have more by itself.
const maxPage = 1 << 20

// Page counts the bytes of a page. A list of what may be large ends its pages by them, too: a hundred runs may have
// hundreds of megabytes.
type Page struct{ rows, bytes int }

// Takes says whether a row still has room on the page.
func (p *Page) Takes(row any) bool {
	b, err := json.Marshal(row)
	p.rows++
	p.bytes += len(b)
	return err != nil || p.rows == 1 || p.bytes <= maxPage
}

// Cursors are opaque to clients: a place in a listing, which stays good whatever is written meanwhile.
const cursorMark = "c1:"

// EncodeCursor is the cursor behind a place in a listing; nil behind the last one, which is empty.
func EncodeCursor(place string) *string {
	if place == "" {
		return nil
	}
	s := base64.RawURLEncoding.EncodeToString([]byte(cursorMark + place))
	return &s
}

// DecodeCursor is the place behind which a page begins; empty for the first page. What no page has given is an invalid
// field.
func DecodeCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	place, marked := strings.CutPrefix(string(raw), cursorMark)
	if err != nil || !marked || place == "" || len(place) > 512 || strings.ContainsFunc(place, unprintable) {
		return "", problem.InvalidField("query.cursor", "is not one that a page has given")
	}
	return place, nil
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

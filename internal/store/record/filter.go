package record

import (
	"context"
	"errors"
)

// Listing reads the rows of a listing behind a place, at most limit.
type Listing[T any] func(ctx context.Context, after string, limit int) (Page[T], error)

// ErrPageFull is returned for a row that does not fit on the page of [Filter] any more.
var ErrPageFull = errors.New("record: the page is full")

// Filter reads a listing behind a place until it has shown limit rows. It reads no more than about most rows, so the
// page may be short and have a next one. A row that is not shown is left out, and one that is [ErrPageFull] ends the
// page before it. The other errors are those of read and show.
func Filter[T, V any](
	ctx context.Context, after string, limit, most int, read Listing[T], show func(T) (v V, shown bool, err error),
) (found Page[V], err error) {
	for scanned, size := 0, max(limit, 1); scanned < most; scanned, size = scanned+size, min(2*size, 100) {
		page, err := read(ctx, after, size)
		if err != nil {
			return found, err
		}
		for i, row := range page.Rows {
			v, shown, err := show(row)
			if errors.Is(err, ErrPageFull) {
				found.Next = after
				return found, nil
			}
			if err != nil {
				return found, err
			}
			after = page.Positions[i]
			if !shown {
				continue
			}
			if found.Rows = append(found.Rows, v); len(found.Rows) == limit {
				if found.Next = after; i == len(page.Rows)-1 {
					found.Next = page.Next
				}
				return found, nil
			}
		}
		if after = page.Next; after == "" {
			return found, nil
		}
	}
	found.Next = after
	return found, nil
}

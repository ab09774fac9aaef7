package knowledge

import (
	"context"
	"strings"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Bounds of a page of documents of all bases; a page that reaches one of them may be short.
const (
	acrossBases     = 100  // that are looked at
	acrossDocuments = 2000 // after so many no further base is begun
)

// wholeBase is the cursor behind all documents of a base: no identifier sorts below it.
const wholeBase = "/0"

// AllDocuments lists the documents of all bases that the principal may read, base by base, both newest first. after is
// Page.Next of the page before; a page may be short and have a next one. The only errors are failures of the store.
func (k *Knowledge) AllDocuments(
	ctx context.Context, p tenant.Principal, want Wanted, after string, limit int,
) (found record.Page[record.Entity[catalog.Document]], err error) {
	base, position, _ := strings.Cut(after, "/")
	if base != "" {
		if done, err := k.addFrom(ctx, p, want, base, position, limit, &found); done || err != nil {
			return found, err
		}
	}
	bases, err := k.Bases(ctx, p, base, acrossBases)
	if err != nil {
		return found, err
	}
	scanned := int64(0)
	for _, e := range bases.Rows {
		n, err := k.Store.Counts(ctx, catalog.DocumentsOf(e.Value.ID))
		if err != nil {
			return found, err
		}
		there := n["documents"]
		if want.Status != "" && n[string(want.Status)] == 0 {
			there = 0
		}
		found.Next = e.Value.ID + wholeBase
		if there == 0 {
			continue
		}
		done, err := k.addFrom(ctx, p, want, e.Value.ID, "", limit, &found)
		if scanned += there; done || err != nil || scanned >= acrossDocuments {
			return found, err
		}
	}
	if found.Next = bases.Next; found.Next != "" {
		found.Next += wholeBase
	}
	return found, nil
}

// addFrom adds documents of one base, and reports whether the page ends there.
func (k *Knowledge) addFrom(
	ctx context.Context, p tenant.Principal, want Wanted, base, position string, limit int,
	to *record.Page[record.Entity[catalog.Document]],
) (done bool, err error) {
	page, err := k.DocumentsOf(ctx, p, base, want, position, limit-len(to.Rows))
	if refused, is := problem.As(err); is && refused.Kind != problem.Unavailable {
		return false, nil // it has been deleted, or closed, since
	}
	if err != nil {
		return false, err
	}
	to.Rows, to.Next = append(to.Rows, page.Rows...), base+wholeBase
	if page.Next != "" {
		to.Next = base + "/" + page.Next
	}
	return page.Next != "" || len(to.Rows) == limit, nil
}

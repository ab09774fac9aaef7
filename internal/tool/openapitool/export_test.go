package openapitool

import (
	"context"

	"agentplatform/internal/tool"
)

// MaxTold is how many bytes the tools of a document may have.
const MaxTold = maxTold

// Work reads a document as Discover does and says how many steps that took, and how many it may take.
func Work(ctx context.Context, raw []byte) (steps, most int, err error) {
	d, err := read(ctx, raw)
	if err != nil {
		return 0, 0, err
	}
	items, err := itemsOf(d)
	if err != nil {
		return d.work, 0, err
	}
	base, err := baseOf(tool.Endpoint{BaseURL: "https://example.com"}, d)
	if err != nil {
		return d.work, 0, err
	}
	_, err = operations(d, items, base)
	return d.work, maxWork + tool.MaxTools*(maxNodes+maxParameters), err
}

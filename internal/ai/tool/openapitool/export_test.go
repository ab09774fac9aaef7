package openapitool

import (
	"context"

	"agentplatform/internal/ai/tool"
)

// MaxFound is the limit on the size of a document's tools, in bytes.
const MaxFound = maxFound

// Work reads a document as Discover does, and returns the steps that took and the limit.
func Work(ctx context.Context, raw []byte) (steps, most int, err error) {
	d, err := read(ctx, raw)
	if err != nil {
		return 0, 0, err
	}
	e := tool.Endpoint{BaseURL: "https://example.com"}
	all, err := chosen(e, d)
	if err != nil {
		return d.work, 0, err
	}
	_, err = operations(e, d, all)
	return d.work, 4 * (maxWork + tool.MaxTools*(maxNodes+maxParameters)), err
}

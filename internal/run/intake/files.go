package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// referenceFiles adds the writes by which a run of an agent, or a parked message for it, refers to the message's files.
// Both are in the chat of the message.
func (r *request) referenceFiles(ctx context.Context, tx *record.Tx, agent, run string) error {
	of := lifecycle.Whose{Agent: agent, Owner: r.owner}
	return reference(ctx, tx, r.who.Organization, of, run, r.message.Files)
}

// reference adds the writes by which a run refers to files; of is [record.Run.Whose]. The error is that of [NoFile].
func reference(
	ctx context.Context, tx *record.Tx, organization string, of lifecycle.Whose, run string, files []record.FileRef,
) error {
	tx.ReferenceFiles(ctx, organization, of, run, files)
	var none *record.NoFile
	if errors.As(tx.Err(), &none) {
		return errors.Join(errNoFile, NoFile(slices.IndexFunc(files, func(f record.FileRef) bool {
			return f.FileID == none.ID
		}), none.ID))
	}
	return tx.Err()
}

// errNoFile means that one of the message's files does not exist.
var errNoFile = errors.New("intake: a file is not there")

// NoFile is the error for a message whose file n, counted from 0, does not exist. It is a problem of kind NotFound with
// the field file_ids[n].
func NoFile(n int, id string) error {
	p := problem.Missing("file " + id)
	p.Fields = []problem.Field{{Location: fmt.Sprintf("file_ids[%d]", n), Message: p.Message}}
	return p
}

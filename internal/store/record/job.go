package record

import (
	"context"
	"time"

	"agentplatform/internal/store/table"
)

// Job is work that goes on after the request that stored it: it stays due until it is done.
type Job struct {
	ID           string    `json:"job_id"`
	Organization string    `json:"organization_id"`
	Kind         JobKind   `json:"kind"`
	Subject      string    `json:"subject"` // the id of a chat, a user, a run, ..., or a blob's key
	OwnID        bool      `json:"own_id,omitzero"`
	Epoch        int       `json:"epoch,omitzero"` // of the deleted chat
	Cursor       string    `json:"cursor,omitzero"`
	Due          time.Time `json:"-"`
}

// JobKind is the kind of a job's work.
type JobKind string

// The kinds of job.
const (
	RemoveChat         JobKind = "remove_chat"
	ForgetChat         JobKind = "forget_chat" // of a run whose client wants nothing stored, when it has ended
	RemoveUser         JobKind = "remove_user"
	RemoveOrganization JobKind = "remove_organization"
	RemoveGroup        JobKind = "remove_group"
	RemoveToolkit      JobKind = "remove_toolkit"
	RemoveBlob         JobKind = "remove_blob" // of a resource that does not name it, or no longer
	RemoveBody         JobKind = "remove_body" // of a message that became no run, or of a deleted run
	RemoveBase         JobKind = "remove_knowledge_base"
	RemoveDocument     JobKind = "remove_document"
	RemoveBuild        JobKind = "remove_build" // the earlier index of a document that was indexed again
	Retention          JobKind = "retention"    // due every day
	ListByUser         JobKind = "list_by_user" // what earlier versions stored of an organization

	RebuildBase      JobKind = "rebuild_knowledge_base"
	RemoveCollection JobKind = "remove_collection"      // what a knowledge base does not name any more
	RestoreIndex     JobKind = "restore_index"          // of all knowledge bases, into an index that has lost them
	RestoreBase      JobKind = "restore_knowledge_base" // one of them
)

// ForgetAfter is how long a chat that will be forgotten stays after its run has ended, so that its client can read the
// answer.
const ForgetAfter = time.Minute

// JobDone replaces a wait: the job has ended.
const JobDone time.Duration = -1

// JobEntity is a job with the data that a write needs.
type JobEntity = Entity[Job]

func (j *Job) take(from *table.Item) { j.Due = from.Due }

func jobKey(id string) table.Key { return table.Key{Part: "job/" + id, Sort: headSort} }

// PutJob writes a job and returns it as it is after the commit.
func (tx *Tx) PutJob(e JobEntity) JobEntity {
	return put(tx, e, table.Item{Key: jobKey(e.Value.ID), Owner: e.Value.Organization, Due: e.Value.Due})
}

// DeleteJob ends a job on condition that it is as it was read.
func (tx *Tx) DeleteJob(e JobEntity) {
	tx.delete(jobKey(e.Value.ID), table.VersionIs(e.version))
}

// Job reads a job; found is false when it is done.
func (s *Store) Job(ctx context.Context, id string) (e JobEntity, found bool, err error) {
	return find[Job](ctx, s, jobKey(id))
}

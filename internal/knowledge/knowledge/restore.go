package knowledge

import (
	"fmt"
	"strings"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/words"
)

// An index that replaces a lost one has another id. Each base names the index that has all of its chunks. Package
// ingest puts the chunks that the present index lacks.

// IndexID is the id of an index of this identity, filled by the present analysis of words. An index that an earlier
// analysis filled counts as lost. Search goes on in it while it is filled again.
func IndexID(identity string) string { return identity + "." + words.Version }

// Lost reports whether the index lacks chunks of a base because it was lost.
func (k *Knowledge) Lost(b catalog.KnowledgeBase) bool {
	return k.IndexID != "" && b.Index != k.IndexID
}

// RestoreJob is the id of the job that puts a base's chunks into the present index.
func (k *Knowledge) RestoreJob(base string) string {
	return record.DerivedID("restore "+k.IndexID, base)
}

// Restored reads how many documents such a job has put, and the document after which it goes on.
func Restored(j record.Job) (documents int64, after string) {
	n, after, _ := strings.Cut(j.Cursor, " ")
	_, _ = fmt.Sscan(n, &documents)
	return documents, after
}

// SetRestored is the counterpart of [Restored].
func SetRestored(j *record.Job, documents int64, after string) {
	j.Cursor = fmt.Sprint(documents, " ", after)
}

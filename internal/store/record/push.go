package record

import (
	"context"

	"agentplatform/internal/store/table"
)

// Push says where the webhooks of a run go whose client wants them in another form than ours, and may change that while
// the run goes on. It is beside the run: its webhooks are those of [Input.CallbackURL] where a request names that. A
// delivery does not have it, so that what a client replaces or deletes holds for what has not been sent yet.
type Push struct {
	ID  string `json:"id,omitzero"` // the client's name of it; empty: it gave none
	URL string `json:"url"`
	// Secrets are a [PushSecrets] as JSON, sealed for [PushSealedFor]; empty: there are none.
	Secrets string `json:"secrets,omitzero"`
	// Token is that of a push which was kept before they were sealed.
	Token string `json:"token,omitzero"`
	Form  string `json:"form"` // the name of the form
	API   string `json:"api"`  // the address of the API, as the client knows it
}

// PushSecrets are sent along with a push, by which its receiver knows it. Nobody else is told them.
type PushSecrets struct {
	URL         string `json:"url"` // the push's, sealed with them: they are sent nowhere else
	Token       string `json:"token,omitzero"`
	Scheme      string `json:"scheme,omitzero"` // of Credentials, as it is sent
	Credentials string `json:"credentials,omitzero"`
}

// PushSealedFor is the owner that the secrets of an organization's pushes are sealed for: there is no run yet when they
// are.
func PushSealedFor(organization string) string { return organization + "/push" }

// PushEntity is a push with what is needed to write it again.
type PushEntity = Entity[Push]

func pushKey(run string) table.Key { return table.Key{Part: runPart(run), Sort: "push"} }

// PutPush writes the push of a run. The caller writes the run, too, whose Callback says that there is one.
func (tx *Tx) PutPush(organization, run string, e PushEntity) {
	put(tx, e, table.Item{Key: pushKey(run), Owner: organization})
}

// DeletePush deletes the push of a run.
func (tx *Tx) DeletePush(run string, e PushEntity) {
	tx.delete(pushKey(run), table.VersionIs(e.version))
}

// Push reads the push of a run; the second result is false when there is none. The errors are those of the store.
func (s *Store) Push(ctx context.Context, run string) (PushEntity, bool, error) {
	return find[Push](ctx, s, pushKey(run))
}

package record

import (
	"context"

	"agentplatform/internal/store/table"
)

// Push is the target of a run's webhooks for a client that wants them in another form than ours. The client may change
// it while the run goes on. It is next to the run: if a request names [Input.CallbackURL], the webhooks go there. A
// delivery does not contain it. So a replacement or deletion holds for all deliveries that have not been sent yet.
type Push struct {
	ID  string `json:"id,omitzero"` // the client's name of it; empty: it gave none
	URL string `json:"url"`
	// Secrets are a [PushSecrets] as JSON, sealed for [PushSealedFor]; empty: there are none.
	Secrets string `json:"secrets,omitzero"`
	// Token is the token of a push that was stored before tokens were sealed.
	Token string `json:"token,omitzero"`
	Form  string `json:"form"` // the name of the form
	API   string `json:"api"`  // the address of the API, as the client knows it
}

// PushSecrets are sent along with a push, by which its receiver knows it. They are sent to no other server.
type PushSecrets struct {
	URL         string `json:"url"` // the push's, sealed with them: they are sent nowhere else
	Token       string `json:"token,omitzero"`
	Scheme      string `json:"scheme,omitzero"` // of Credentials, as it is sent
	Credentials string `json:"credentials,omitzero"`
}

// PushSealedFor is the owner for which the secrets of an organization's pushes are sealed. At that time there is no run
// yet.
func PushSealedFor(organization string) string { return organization + "/push" }

// PushEntity is a push with the data that a write needs.
type PushEntity = Entity[Push]

func pushKey(run string) table.Key { return table.Key{Part: runPart(run), Sort: "push"} }

// PutPush writes the push of a run. The caller writes the run, too, and marks in its Callback that there is a push.
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

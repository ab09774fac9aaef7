package knowledge

import (
	"context"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// MayEmbed returns nil when a user may use an embedding model. When the tokens of a budget of the organization or of
// the user are used up, it returns a problem of kind Limited (budget_exhausted). The built-in model uses no tokens.
func (k *Knowledge) MayEmbed(ctx context.Context, of catalog.EmbeddingModel, organization, user string) error {
	if of.Provider == embedding.Builtin {
		return nil
	}
	limits, err := k.Tenants.EmbeddingLimits(ctx, organization, user)
	if err != nil {
		return err
	}
	now := k.now()
	for _, l := range limits {
		if l.MaxTokens == nil {
			continue
		}
		spent, err := k.Store.Spent(ctx, l.Name(now))
		if err != nil {
			return err
		}
		if used := l.TokensExhausted(spent); used != "" {
			return tenant.Exhausted(l, used, now)
		}
	}
	return nil
}

// Charge adds the tokens of embeddings to a unit of work. It adds an entry to the ledger, and the tokens to the budgets
// of organization and user. The caller sets the entry's kind, user, input tokens and document. Without tokens it adds
// nothing. The commit is refused with [record.ErrConflict] when the same counts of a budget have changed since.
func (k *Knowledge) Charge(ctx context.Context, tx *record.Tx, organization string, e record.Entry) error {
	if e.InputTokens == 0 {
		return nil
	}
	limits, err := k.Tenants.EmbeddingLimits(ctx, organization, e.UserID)
	if err != nil {
		return err
	}
	tx.PutEmbedded(organization, e)
	tx.SpendEmbedded(ctx, organization, limits, e.InputTokens)
	return tx.Err()
}

// ChargeSearch charges the tokens of a search to the asker, as [Knowledge.ChargeAlone] does.
func (k *Knowledge) ChargeSearch(ctx context.Context, p tenant.Principal, paid record.Embeddings) error {
	e := record.Entry{
		Kind: record.OfSearch, UserID: p.User, APIKeyID: p.Key, InputTokens: paid.Tokens(), Embedded: paid,
	}
	switch len(paid) {
	case 0:
		return nil
	case 1:
		e.Model, e.Embedded = paid[0].Model, nil
	}
	return k.ChargeAlone(ctx, p.Organization, e)
}

// ChargeAlone is [Knowledge.Charge] in a commit of its own, even if the context ends. Without tokens it commits
// nothing.
func (k *Knowledge) ChargeAlone(ctx context.Context, organization string, e record.Entry) error {
	ctx = context.WithoutCancel(ctx)
	_, err := record.DespiteConflicts(ctx, k.Store, func() (struct{}, error) {
		tx := k.Store.Begin(k.Host.NewID())
		err := k.Charge(ctx, tx, organization, e)
		if err == nil {
			err = tx.Commit(ctx)
		}
		return struct{}{}, err
	})
	return err
}

package knowledge

import (
	"context"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// MayEmbed returns nil when a user may have an embedding model asked, else a problem of kind Limited
// (budget_exhausted): the tokens of a budget of the organization or of the user are used up. The built-in model uses
// none.
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

// Charge adds what embeddings used to a unit of work: an entry of the ledger, of which kind, user, input tokens and
// document are given, and the tokens in the budgets of organization and user. No tokens are no entry. The commit is
// refused with [record.ErrConflict] when the same counts of a budget have changed since.
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

// ChargeSearch charges what a search used to the one who asked, as [Knowledge.ChargeAlone] does.
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

// ChargeAlone is [Knowledge.Charge] in a commit of its own, whether or not the context ends. Without tokens it commits
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

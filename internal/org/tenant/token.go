package tenant

import (
	"context"
	"time"

	"agentplatform/internal/store/record"
)

// A run token's text is "rt_", 43 base62 characters of secret, 6 of checksum. As with keys, only its hash is stored, so
// that whoever reads the store cannot make one. It expires within the hour, and ends at once when the key that asked
// for it ends, or the text of that key.
const (
	runTokenPrefix = "rt_"
	runTokenSize   = len(runTokenPrefix) + secretSize + sumSize
)

// MaxRunToken is the longest that a run token is valid.
const MaxRunToken = time.Hour

// RunToken creates a token that is valid for one run, for life but at most [MaxRunToken], and returns its text and when
// it expires. The only errors are failures of the store.
func (t *Tenants) RunToken(
	ctx context.Context, p Principal, run string, life time.Duration,
) (token string, end time.Time, err error) {
	end = t.host.Now().Add(min(life, MaxRunToken)).UTC().Truncate(time.Millisecond)
	token = newText(t.host, runTokenPrefix)
	tx := t.store.Begin(t.host.NewID())
	tx.PutRunToken(hashText(token), record.RunToken{
		RunID: run, Organization: p.Organization, KeyID: p.Key, KeyHash: p.text, End: end,
	})
	return token, end, tx.Commit(ctx)
}

// ofRunToken is the principal of a run token; its errors are those of Authenticate.
func (t *Tenants) ofRunToken(ctx context.Context, text string) (Principal, error) {
	token, err := record.FindRunToken(ctx, t.known, hashText(text))
	if err != nil {
		return Principal{}, hide(err)
	}
	if !t.host.Now().Before(token.End) {
		return Principal{}, errBadKey
	}
	p, read, err := t.principalOf(ctx, t.known, token.KeyID, token.KeyHash)
	p = p.Of(read)
	if err == nil && token.Organization != p.Organization { // it was made by an operator who acted there
		p, err = actIn(ctx, t.known, p, token.Organization)
		err = hide(err)
	}
	p.Run, p.until = token.RunID, token.End
	return p, err
}

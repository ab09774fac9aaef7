package tenant

import (
	"context"
	"math/big"
	"strings"
	"time"

	"agentplatform/internal/record"
)

// A run token's text is "rt_", 43 base62 characters of secret, 6 of checksum. Like a key's it is stored nowhere: its
// row has its hash, so that whoever reads the store can make none. It ends by itself within the hour, and at once
// when the key that asked for it ends, or the text of that key.
const runTokenPrefix = "rt_"

// MaxRunToken is the longest that a run token may live.
const MaxRunToken = time.Hour

// RunToken makes a token that is good for one run.
func (t *Tenants) RunToken(
	ctx context.Context, p Principal, run string, life time.Duration,
) (token string, end time.Time, err error) {
	end = t.host.Now().Add(min(life, MaxRunToken)).UTC().Truncate(time.Millisecond)
	token = runTokenPrefix + encode62(new(big.Int).SetBytes(randomBytes(t.host, 32)), secretSize)
	token += checksum(token)
	tx := t.store.Begin(t.host.NewID())
	tx.PutRunToken(hashText(token), record.RunToken{
		RunID: run, Organization: p.Organization.ID, KeyID: p.Key.ID, KeyHash: p.text, End: end,
	})
	return token, end, tx.Commit(ctx)
}

// isRunToken says whether a text may be that of a run token.
func isRunToken(text string) bool {
	if !strings.HasPrefix(text, runTokenPrefix) || len(text) != len(runTokenPrefix)+secretSize+sumSize {
		return false
	}
	body, sum := text[:len(text)-sumSize], text[len(text)-sumSize:]
	return checksum(body) == sum
}

// ofRunToken is the one whom a run token stands for.
func (t *Tenants) ofRunToken(ctx context.Context, text string) (Principal, error) {
	token, err := t.known.RunToken(ctx, hashText(text))
	if err != nil {
		return Principal{}, hide(err)
	}
	if !t.host.Now().Before(token.End) {
		return Principal{}, errBadKey
	}
	p, err := t.principalOf(ctx, t.known, token.KeyID, token.KeyHash)
	p.Run, p.until = token.RunID, token.End
	return p, err
}

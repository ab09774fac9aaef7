package tenant

import (
	"context"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// A run token's text is "rt_", 43 base62 characters of secret, 6 of checksum. As with keys, only its hash is stored, so
// that a reader of the store cannot make one. It expires within the hour. It ends immediately when the key that
// requested it ends, or the text of that key.
const (
	runTokenPrefix = "rt_"
	runTokenSize   = len(runTokenPrefix) + secretSize + sumSize
)

// MaxRunToken is the longest that a run token is valid.
const MaxRunToken = time.Hour

// RunToken creates a token that is valid for one run, for life but at most [MaxRunToken]. It returns its text and when
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

// UploadToken creates a token that is valid for sending the bytes of one file, for [MaxRunToken]. It is a run token
// with the file in place of a run. The only errors are failures of the store.
func (t *Tenants) UploadToken(ctx context.Context, p Principal, file string) (token string, err error) {
	token, _, err = t.RunToken(ctx, p, uploadOf(file), MaxRunToken)
	return token, err
}

func uploadOf(file string) string { return "upload/" + file }

// Uploader is the principal of an upload token, to be used for sending the bytes of that file alone. It returns a
// problem of kind Unauthenticated (invalid_api_key), even for the token of another file.
func (t *Tenants) Uploader(ctx context.Context, token, file string) (Principal, error) {
	p, err := t.Authenticate(ctx, token)
	if err == nil && p.Run != uploadOf(file) || isGone(err) || problem.Is(err, errBadKey.Code) {
		return Principal{}, problem.New(problem.Unauthenticated, errBadKey.Code,
			"this address has expired or belongs to another file: announce the file again")
	}
	p.Run, p.Level = "", lower(p.Level, LevelRun)
	return p, err
}

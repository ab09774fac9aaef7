package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// A run token is "rt_", its claims, ".", their HMAC. It needs no row: it ends by itself within the hour, and at once
// when the key that made it ends, or the text with which that was asked to.
const runTokenPrefix = "rt_"

// MaxRunToken is the longest that a run token may live.
const MaxRunToken = time.Hour

type runClaims struct {
	Run  string `json:"run"`
	Key  string `json:"key"`
	Text string `json:"text"` // the beginning of the hash of the key's text
	End  int64  `json:"end"`  // unix seconds
}

// RunToken makes a token that is good for one run.
func (t *Tenants) RunToken(p Principal, run string, life time.Duration) (token string, end time.Time) {
	end = t.host.Now().Add(min(life, MaxRunToken)).Truncate(time.Second)
	claims, _ := json.Marshal(runClaims{Run: run, Key: p.Key.ID, Text: p.text[:min(len(p.text), textName)], End: end.Unix()})
	body := base64.RawURLEncoding.EncodeToString(claims)
	return runTokenPrefix + body + "." + base64.RawURLEncoding.EncodeToString(t.sign(body)), end
}

func (t *Tenants) sign(body string) []byte {
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte("run token " + body))
	return mac.Sum(nil)
}

func (t *Tenants) openRunToken(token string) (c runClaims, ok bool) {
	rest, ok := strings.CutPrefix(token, runTokenPrefix)
	if !ok {
		return c, false
	}
	body, signature, ok := strings.Cut(rest, ".")
	if !ok {
		return c, false
	}
	sum, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(sum, t.sign(body)) {
		return c, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return c, false
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.End <= t.host.Now().Unix() {
		return c, false
	}
	return c, true
}

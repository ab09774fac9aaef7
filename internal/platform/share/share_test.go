package share_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/platform/share"
)

func TestOneOrganizationLeavesTheReserve(t *testing.T) {
	p := share.New(share.Limits{All: 20, Reserve: 4})
	hog := share.Holder{Organization: "a", User: "hog"}
	for range 16 {
		require.NoError(t, p.Part(hog).Take(1))
	}
	assert.Error(t, p.Part(hog).Take(1), "the hog may not take of the reserve")
	colleague := p.Part(share.Holder{Organization: "a", User: "colleague"})
	require.NoError(t, colleague.Take(1), "a colleague may")
	require.NoError(t, p.Part(share.Holder{Organization: "a", User: "third"}).Take(1))
	assert.Error(t, p.Part(share.Holder{Organization: "a", User: "fourth"}).Take(1), "the organization has its half")
	other := p.Part(share.Holder{Organization: "b", User: "other"})
	assert.Error(t, other.Take(2), "another organization has half of what is left")
	require.NoError(t, other.Take(1))
	require.NoError(t, p.Part(share.Holder{Organization: "c"}).Take(1), "and so has the next")
	var refusal *share.Refusal
	require.ErrorAs(t, p.Part(share.Holder{Organization: "d"}).Take(1), &refusal)
	assert.Equal(t, share.Refusal{Scope: share.Process, Max: 20, Used: 20}, *refusal)
	other.Give()
	assert.NoError(t, p.Part(share.Holder{Organization: "d"}).Take(1))
}

// Organizations that each take as much as they may leave something to the next, until the reserve is one unit.
func TestEachOrganizationLeavesSomethingToTheNext(t *testing.T) {
	p := share.New(share.Limits{All: 320, Reserve: 64})
	took := map[string]int{}
	for _, organization := range []string{"a", "b", "c", "d", "e"} {
		for user := 0; ; user++ {
			holder := share.Holder{Organization: organization, User: string(rune('a' + user))}
			before := took[organization]
			for p.Part(holder).Take(1) == nil {
				took[organization]++
			}
			if took[organization] == before {
				break
			}
		}
	}
	assert.Equal(t, map[string]int{"a": 288, "b": 16, "c": 8, "d": 4, "e": 2}, took)
}

func TestTightIsMoreThanHalf(t *testing.T) {
	p := share.New(share.Limits{All: 10, Reserve: 4})
	part := p.Part(share.Holder{})
	require.NoError(t, part.Take(5))
	assert.False(t, p.Tight())
	require.NoError(t, part.Take(1))
	assert.True(t, p.Tight())
	assert.Equal(t, int64(6), p.Held())
	part.Give()
	assert.False(t, p.Tight())
	assert.Zero(t, p.Held())
}

func TestLimitsOfOrganizationAndUser(t *testing.T) {
	p := share.New(share.Limits{All: 100, Organization: 10, User: 6})
	var refusal *share.Refusal
	require.ErrorAs(t, p.Part(share.Holder{Organization: "a", User: "u"}).Take(7), &refusal)
	assert.Equal(t, share.Refusal{Scope: share.User, Max: 6}, *refusal)
	require.NoError(t, p.Part(share.Holder{Organization: "a", User: "u"}).Take(6))
	require.ErrorAs(t, p.Part(share.Holder{Organization: "a", User: "v"}).Take(5), &refusal)
	assert.Equal(t, share.Refusal{Scope: share.Organization, Max: 10, Used: 6}, *refusal)
	assert.True(t, could(p, share.Holder{Organization: "b", User: "u"}, 6), "a user of another organization is another")
}

// A key has less than its user, and gives back to both.
func TestTheLimitOfAKey(t *testing.T) {
	p := share.New(share.Limits{All: 100, Organization: 10, User: 6, Key: 4})
	k, l := share.Holder{Organization: "a", User: "u", Key: "k"}, share.Holder{Organization: "a", User: "u", Key: "l"}
	part := p.Part(k)
	require.NoError(t, part.Take(4))
	var refusal *share.Refusal
	require.ErrorAs(t, p.Part(k).Take(1), &refusal)
	assert.Equal(t, share.Refusal{Scope: share.Key, Max: 4, Used: 4}, *refusal)
	require.ErrorAs(t, p.Part(l).Take(3), &refusal)
	assert.Equal(t, share.Refusal{Scope: share.User, Max: 6, Used: 4}, *refusal)
	part.Give()
	assert.True(t, could(p, l, 4))
	assert.True(t, could(p, k, 4))
}

// A reserve of one unit can be taken, too.
func TestAReserveOfOneUnit(t *testing.T) {
	p := share.New(share.Limits{All: 5, Reserve: 1})
	for range 4 {
		require.NoError(t, p.Part(share.Holder{Organization: "a", User: "hog"}).Take(1))
	}
	assert.Error(t, p.Part(share.Holder{Organization: "a", User: "hog"}).Take(1))
	assert.False(t, p.Full(1))
	require.NoError(t, p.Part(share.Holder{Organization: "b", User: "u"}).Take(1))
	assert.True(t, p.Full(1))
}

// could takes n units and gives them back, if a holder may have them.
func could(p *share.Pool, holder share.Holder, n int64) bool {
	part := p.Part(holder)
	if part.Take(n) != nil {
		return false
	}
	part.Give()
	return true
}

// After any takes and returns, no limit is exceeded and everything can be given back. A user who holds nothing is
// refused only when others who hold little hold the reserve.
func TestTheRuleHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := share.Limits{All: 40, Reserve: 8, Organization: 30, User: 20, Key: 15}
		p := share.New(limits)
		parts := map[*share.Part]struct {
			holder share.Holder
			n      int64
		}{}
		held := func(count func(share.Holder) bool) (sum int64) {
			for _, part := range parts {
				if count(part.holder) {
					sum += part.n
				}
			}
			return sum
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			holder := share.Holder{
				Organization: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "organization"),
				User:         rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"),
				Key:          rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key"),
			}
			if len(parts) > 0 && rapid.IntRange(0, 2).Draw(t, "give") == 0 {
				for part := range parts {
					part.Give()
					delete(parts, part)
					break
				}
				continue
			}
			n := rapid.Int64Range(0, 12).Draw(t, "n")
			may, admits, full := could(p, holder, n), p.Admits(holder.Organization, n), p.Full(n)
			part := p.Part(holder)
			err := part.Take(n)
			if may != (err == nil) {
				t.Fatalf("before it was given back %v, then %v", may, err)
			}
			if may && (!admits || full) {
				t.Fatalf("taken, but Admits says %v, Full %v", admits, full)
			}
			user := func(h share.Holder) bool { return h.Organization == holder.Organization && h.User == holder.User }
			if held(user) == 0 && admits != may {
				t.Fatalf("the user holds nothing: Admits says %v, Take %v", admits, may)
			}
			if err == nil {
				parts[part] = struct {
					holder share.Holder
					n      int64
				}{holder, n}
			}
			all := held(func(share.Holder) bool { return true })
			ofOne := held(func(h share.Holder) bool { return h.Organization == holder.Organization })
			ofUser, ofKey := held(user), held(func(h share.Holder) bool { return h == holder })
			if holder.Key != "" && ofKey > limits.Key {
				t.Fatalf("over the limit of a key: %d", ofKey)
			}
			if all > limits.All || ofOne > limits.Organization || ofUser > limits.User {
				t.Fatalf("over a limit: %d, %d, %d", all, ofOne, ofUser)
			}
			if others := all - ofOne; others <= limits.All-limits.Reserve-limits.Reserve && ofOne == 0 &&
				!could(p, holder, limits.Reserve/2) {
				t.Fatalf("refused beside %d of others", others)
			}
		}
		for part := range parts {
			part.Give()
		}
		if !could(p, share.Holder{Organization: "new"}, limits.User) {
			t.Fatal("not everything came back")
		}
	})
}

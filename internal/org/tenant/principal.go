package tenant

import (
	"time"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
)

// Level is the power of a key; each level includes the ones before it.
type Level string

// The levels.
const (
	LevelRead     Level = "read"     // reads
	LevelRun      Level = "run"      // also chats and controls runs
	LevelManage   Level = "manage"   // also edits agents
	LevelAdmin    Level = "admin"    // also users, keys, organization, analytics
	LevelOperator Level = "operator" // also other organisations
)

var rank = map[Level]int{LevelRead: 1, LevelRun: 2, LevelManage: 3, LevelAdmin: 4, LevelOperator: 5}

// Covers reports whether this level includes the needed one. An unknown level covers nothing.
func (l Level) Covers(needed Level) bool { return rank[l] >= rank[needed] && rank[l] > 0 }

// Role is the role of a user in its organization. It bounds the level of the user's keys.
type Role string

// The roles.
const (
	Member  Role = "member"
	Manager Role = "manager"
	Admin   Role = "admin"
)

// Level is the level of a user of the role that has no operator key.
func (r Role) Level() Level {
	switch r {
	case Admin:
		return LevelAdmin
	case Manager:
		return LevelManage
	case Member:
		return LevelRun
	default:
		return ""
	}
}

// Most is the highest level that a key of such a user may have.
func (r Role) Most() Level {
	switch r {
	case Admin:
		return LevelOperator // a key gets this level from an operator only
	case Manager:
		return LevelManage
	default:
		return LevelRun
	}
}

func lower(a, b Level) Level {
	if rank[a] < rank[b] {
		return a
	}
	return b
}

// Principal is the sender of a request, with its rights. Each open stream keeps one.
type Principal struct {
	Organization string   // an id; [record.NoOrganization] outside all of them
	User         string   // an id
	Key          string   // an id
	Groups       []string // those of the user that exist
	Level        Level
	Run          string // not empty: the request came with a run token, valid for this run alone
	Shared       bool   // chats of colleagues may be seen, where their agents do not make them the user's own
	SeesAll      bool   // so may those of all agents, by a key that is for monitoring
	// Acting reports whether an operator acts as an admin of the organization: its user and its key are those of
	// another one.
	Acting bool

	text  string    // the hash of the key's text that the request came with
	ends  time.Time // when that text expires; zero: never
	until time.Time // when the run token expires; zero without one

	account *Account // nil when it has been left out
}

// Account has the resources that were read to know the sender of a request.
type Account struct {
	Organization catalog.Organization
	User         catalog.User
	Key          catalog.APIKey
	Home         catalog.Organization // that of the key: another one when an operator acts in Organization
}

// Account has the resources that were read to know the principal; nobody changes them. The sender of a run has none,
// see [Tenants.Sender]. To call it then is a fault of the program, and panics: with an empty account no budget would
// hold.
func (p Principal) Account() *Account {
	if p.account == nil {
		panic("tenant: the account of a principal that has none")
	}
	return p.account
}

// Of is the principal with another account.
func (p Principal) Of(a Account) Principal {
	p.account = &a
	return p
}

// Scope is the scope of the data that the principal may see.
func (p Principal) Scope() record.Scope { return record.Of(p.Organization) }

// Authorize returns nil when the principal's level covers the needed one, else a problem of kind Forbidden
// (insufficient_permission) with level_needed. A run token is refused everything.
func (p Principal) Authorize(needed Level) error {
	if p.Run != "" {
		return problem.New(problem.Forbidden, "insufficient_permission", "this token is only valid for its own run")
	}
	if p.Level.Covers(needed) {
		return nil
	}
	format := "this needs an API key of level %s; this one has %s"
	if p.Acting {
		format = "this needs level %s; in the organization of the request the key has level %s"
	}
	return problem.New(problem.Forbidden, "insufficient_permission", format, needed, p.Level).
		With("level_needed", needed)
}

// MayLoosen is Authorize(LevelAdmin) for a change that loosens the approval of a thing. The message names the thing.
func (p Principal) MayLoosen(what string) error {
	if p.Authorize(LevelAdmin) == nil {
		return nil
	}
	return problem.New(problem.Forbidden, "insufficient_permission",
		"this would loosen the approval of %s: it needs an API key of level %s; this one has %s", what,
		LevelAdmin, p.Level).With("level_needed", LevelAdmin)
}

// MayTouch is Authorize for a request about one run, which its run token may send as well. The error is a problem of
// kind Forbidden (insufficient_permission).
func (p Principal) MayTouch(run string, needed Level) error {
	if p.Run != "" && p.Run == run {
		return nil
	}
	return p.Authorize(needed)
}

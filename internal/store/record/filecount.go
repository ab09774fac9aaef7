package record

import (
	"context"
	"fmt"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// A file is counted, with its bytes, for its user and for its organization. It counts from the commit that creates its
// description to the one that deletes it. Both change in the same commit, so the counts are exact. An announced file
// counts with the announced bytes. Files that earlier versions stored are never counted.
//
// One item for each user and organization would be hot: a user may be a whole backend. So each has [countShards] items,
// as other counts have. Far from a limit a commit depends on the one that it changes. Near a limit it depends on all of
// them, so that commits at the same time cannot pass the limit together.

// FileUse is how many files there are, and how many bytes they have together.
type FileUse struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (u FileUse) plus(v FileUse) FileUse { return FileUse{u.Count + v.Count, u.Bytes + v.Bytes} }

// FileLimits are the limits of each user and each organization; 0: any number.
type FileLimits struct{ User, Organization FileUse }

// LimitFiles returns the store with limits of files.
func (s *Store) LimitFiles(l FileLimits) *Store {
	limited := *s
	limited.fileLimits = l
	return &limited
}

// FileLimits are those of [Store.LimitFiles].
func (s *Store) FileLimits() FileLimits { return s.fileLimits }

// FilesOf counts the files of a user, or, if user is empty, of the organization. The errors are those of a read.
func (s *Store) FilesOf(ctx context.Context, organization, user string) (use FileUse, err error) {
	name := filesOfUser(organization, user)
	if user == "" {
		name = filesOfOrganization(organization)
	}
	shards, err := s.fileCounts(ctx, name)
	for _, e := range shards {
		use = use.plus(e.Value)
	}
	return use, err
}

// UserFiles lists a user's files, newest first, without those that an earlier version wrote last. after is Page.Next of
// the page before.
func (s *Store) UserFiles(
	ctx context.Context, scope Scope, user, after string, limit int,
) (Page[Entity[File]], error) {
	r := table.Range{Part: innerPart("file", scope.organization+"/"+user), After: after, Reverse: true, Limit: limit}
	return listedIn[File](ctx, s, scope, table.ByChat, r)
}

// CreateFile stores the description of a file. Its errors are those of [Create], and a problem of kind Limited when its
// user or organization has no room for it.
func (s *Store) CreateFile(ctx context.Context, f File) error {
	_, err := DespiteConflicts(ctx, s, func() (struct{}, error) {
		tx := s.Begin(f.ID)
		tx.newFile(ctx, f)
		return struct{}{}, tx.Commit(ctx)
	})
	return err
}

func (tx *Tx) newFile(ctx context.Context, f File) {
	f.Counted = true
	PutResource(tx, Fresh(f))
	tx.grows()
	tx.countFile(ctx, f, FileUse{1, f.Size})
}

// The names under which the files of an organization and of a user are counted.
func filesOfOrganization(organization string) string { return "files/" + organization }
func filesOfUser(organization, user string) string   { return "files/" + organization + "/" + user }

// fileCounts are the items of a name, by their shards. Missing items are fresh.
func (s *Store) fileCounts(ctx context.Context, name string) (shards [countShards]Entity[FileUse], err error) {
	items, err := s.query(ctx, table.Range{Part: countKey(name, 0).Part, Limit: countShards})
	for _, item := range items {
		if err == nil {
			shards[item.Sort[0]-'0'], err = decode[FileUse](item)
		}
	}
	return shards, err
}

// countFile adds to the counts of a counted file's user and organization. The unit of work fails with a problem of kind
// Limited if a count would pass its limit.
func (tx *Tx) countFile(ctx context.Context, f File, add FileUse) {
	if !f.Counted || add == (FileUse{}) {
		return
	}
	limits := tx.store.fileLimits
	tx.countFileOf(ctx, f, filesOfUser(f.Organization, f.UserID), add, "user", limits.User)
	tx.countFileOf(ctx, f, filesOfOrganization(f.Organization), add, "organization", limits.Organization)
}

// near is the distance from a limit that is near: concurrent commits add less than that.
var near = FileUse{Count: 64, Bytes: 4 << 30}

// zeroLife is how long counts of zero are kept: longer than a commit takes that has read them.
const zeroLife = 24 * time.Hour

func (tx *Tx) countFileOf(ctx context.Context, f File, name string, add FileUse, scope string, limit FileUse) {
	if tx.err != nil {
		return
	}
	shards, err := tx.store.fileCounts(ctx, name)
	if tx.fail(err); err != nil {
		return
	}
	var used FileUse
	for _, e := range shards {
		used = used.plus(e.Value)
	}
	tx.fail(noRoom(used, add, scope, limit))
	own := int(f.ID[len(f.ID)-1]) % countShards
	for shard, e := range shards {
		key := countKey(name, shard)
		if shard != own {
			if comesNear(used, add, limit) {
				tx.add(table.Check(key, e.asRead()))
			}
			continue
		}
		item := table.Item{Key: key, Owner: f.Organization}
		if e.Value = e.Value.plus(add); e.Value == (FileUse{}) {
			item.Expires = tx.store.host.Now().Add(zeroLife)
		}
		put(tx, e, item)
	}
}

// noRoom is the error of an addition beyond a limit. A file of unknown size counts as one byte at least.
func noRoom(used, add FileUse, scope string, limit FileUse) error {
	if add.Count > 0 {
		add.Bytes = max(add.Bytes, 1)
	}
	var err *problem.Error
	switch {
	case add.Count > 0 && limit.Count > 0 && used.Count+add.Count > limit.Count:
		err = problem.Exceeded("files", scope, limit.Count, used.Count, "")
		err.Message = fmt.Sprintf("this %s has a limit of %d files and has %d", scope, limit.Count, used.Count)
	case add.Bytes > 0 && limit.Bytes > 0 && used.Bytes+add.Bytes > limit.Bytes:
		err = problem.Exceeded("file_bytes", scope, limit.Bytes, used.Bytes, "bytes")
		err.Message = fmt.Sprintf("the files of this %s have a limit of %d bytes and use %d", scope, limit.Bytes,
			used.Bytes)
	default:
		return nil
	}
	err.Message += "; delete files, or chats with files"
	err.RetryAfter = time.Minute
	return err
}

// comesNear reports whether an addition comes near a limit.
func comesNear(used, add, limit FileUse) bool {
	return add.Count > 0 && limit.Count > 0 && used.Count+near.Count > limit.Count ||
		add.Bytes > 0 && limit.Bytes > 0 && used.Bytes+near.Bytes > limit.Bytes
}

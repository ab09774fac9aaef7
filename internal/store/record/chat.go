package record

import (
	"context"
	"slices"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// ChatEntity is a chat with the data that a write needs.
type ChatEntity = Entity[lifecycle.Chat]

func chatKey(organization, id string, own bool) table.Key {
	if own {
		return table.Key{Part: "chat/" + organization + "/" + id, Sort: headSort}
	}
	return table.Key{Part: "chat/" + id, Sort: headSort}
}

func chatKeyOf(t lifecycle.RunSpec) table.Key { return chatKey(t.Organization, t.Chat, t.OwnChatID) }

// ChatKey is the key of a chat.
func ChatKey(c lifecycle.Chat) table.Key { return chatKey(c.Organization, c.ID, c.OwnID) }

// FindChat finds the chat that a client names. An id of the service is unique globally; an id that a client chose is
// unique in its organization. Deleted chats are returned too, because they count the epochs. found is false when there
// is none.
//
// It returns a problem of kind Forbidden (outside_organization) for a chat of another organization.
func (s *Store) FindChat(ctx context.Context, scope Scope, id string) (e ChatEntity, found bool, err error) {
	keys := []table.Key{chatKey(scope.organization, id, true)}
	if host.ValidID(id) {
		keys = append(keys, chatKey("", id, false))
	}
	items, err := s.read(ctx, keys...)
	if err != nil {
		return e, false, err
	}
	item := items[0]
	if len(items) > 1 && items[1] != nil {
		if item, err = visible(scope, "chat "+id, items[1]); err != nil {
			return e, false, err
		}
	}
	if item == nil {
		return e, false, nil
	}
	e, err = decode[lifecycle.Chat](item)
	return e, err == nil, err
}

// Chat reads a chat that is not deleted. It returns a problem of kind NotFound or Forbidden.
func (s *Store) Chat(ctx context.Context, scope Scope, id string) (ChatEntity, error) {
	e, found, err := s.FindChat(ctx, scope, id)
	if err == nil && (!found || e.Value.Deleted) {
		err = problem.Missing("chat " + id)
	}
	return e, err
}

// ChatOf reads the chat of a run, deleted or not; the second result is false when there is none.
func (s *Store) ChatOf(ctx context.Context, t lifecycle.RunSpec) (ChatEntity, bool, error) {
	return find[lifecycle.Chat](ctx, s, chatKeyOf(t))
}

// ChatsOf reads the chats of some runs of one organization, by the chat's id. Those that do not exist are left out.
func (s *Store) ChatsOf(ctx context.Context, of []lifecycle.RunSpec) (map[string]lifecycle.Chat, error) {
	items, err := s.readAll(ctx, keysOf(of, chatKeyOf))
	if err != nil {
		return nil, err
	}
	list, err := seen[lifecycle.Chat](System(), items)
	chats := make(map[string]lifecycle.Chat, len(list))
	for _, e := range list {
		chats[e.Value.ID] = e.Value
	}
	return chats, err
}

// PutChat writes a chat and returns it as it is after the commit.
func (tx *Tx) PutChat(e ChatEntity) ChatEntity {
	c := e.Value
	item := table.Item{Key: ChatKey(c), Owner: c.Organization}
	if !c.Deleted {
		at := padded(13, c.CreatedAt.UnixMilli()) + "/" + c.ID
		item.Lists = []table.Listing{
			{Index: table.ByOwner, Part: "chats/" + c.Organization, Sort: at},
			{Index: table.ByChat, Part: chatsOfUser(c.Organization, c.User), Sort: at},
		}
	}
	return put(tx, e, item)
}

// DeleteChat deletes a chat on condition that it is as it was read.
func (tx *Tx) DeleteChat(e ChatEntity) {
	tx.delete(ChatKey(e.Value), table.VersionIs(e.version))
}

// Chats lists an organization's chats, newest first. after is Page.Next of the page before, empty for the first page.
func (s *Store) Chats(ctx context.Context, scope Scope, after string, limit int) (Page[ChatEntity], error) {
	return listed[lifecycle.Chat](ctx, s, scope, "chats/"+scope.organization, after, limit)
}

// listed lists entities of the owner index, newest first.
func listed[T any](ctx context.Context, s *Store, scope Scope, part, after string, limit int) (Page[Entity[T]], error) {
	return listedIn[T](ctx, s, scope, table.ByOwner,
		table.Range{Part: part, After: after, Reverse: true, Limit: limit})
}

// maxTies is how many rows beyond its limit a page of [table.ByChat] may have, because they are of the same turn. There
// is one such row for each time that the chat was created again within the seconds of a deletion.
const maxTies = 32

func listedIn[T any](
	ctx context.Context, s *Store, scope Scope, index table.Index, of table.Range,
) (Page[Entity[T]], error) {
	limit := of.Limit
	if of.Limit++; index == table.ByChat { // one more shows whether there is a next page
		of.Limit += maxTies
	}
	entries, err := s.list(ctx, index, of)
	if err != nil {
		return Page[Entity[T]]{}, err
	}
	var page Page[Entity[T]]
	if len(entries) > limit {
		// The next page begins after a place, so all rows of one place are in one page.
		for limit < len(entries) && entries[limit].At == entries[limit-1].At {
			limit++
		}
		if limit < len(entries) || len(entries) == of.Limit {
			page.Next = entries[limit-1].At
		}
		entries = entries[:limit]
	}
	items, err := s.readAll(ctx, keysOf(entries, func(e table.Entry) table.Key { return e.Key }))
	if err != nil {
		return page, err
	}
	for i, item := range items {
		if item == nil || !scope.Includes(item.Owner) {
			continue
		}
		e, err := decode[T](item)
		if err != nil {
			return page, err
		}
		page.Rows, page.Positions = append(page.Rows, e), append(page.Positions, entries[i].At)
	}
	return page, nil
}

func (s *Store) readAll(ctx context.Context, keys []table.Key) ([]*table.Item, error) {
	var all []*table.Item
	for some := range slices.Chunk(keys, table.MaxGetKeys) {
		items, err := s.read(ctx, some...)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// keysOf are the keys of some things, in their order.
func keysOf[T any](list []T, key func(T) table.Key) []table.Key {
	keys := make([]table.Key, 0, len(list))
	for _, one := range list {
		keys = append(keys, key(one))
	}
	return keys
}

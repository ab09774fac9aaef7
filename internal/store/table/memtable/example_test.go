package memtable_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
)

// A commit applies all of its operations or none. A refusal has the item that is in the way.
func ExampleTable_Commit() {
	ctx := context.Background()
	t := memtable.New(time.Now)
	run := table.Key{Part: "run/1", Sort: "head"}
	item := table.Item{Key: run, Owner: "org-1", WriteID: "write-1", Body: []byte(`{"status":"queued"}`)}
	fmt.Println(t.Commit(ctx, "write-1", table.Put(item, table.Absent())))

	lock := table.Item{Key: table.Key{Part: "chat/1", Sort: "lock"}, Owner: "org-1", WriteID: "write-2",
		Body: []byte(`{}`)}
	err := t.Commit(ctx, "write-2", table.Put(lock, table.Absent()), table.Check(run, table.VersionIs(7)))
	refused, ok := errors.AsType[*table.Refused](err)
	fmt.Println(ok, refused.Conflicts[0].Op, refused.Conflicts[0].Current.Version)

	items, err := t.Get(ctx, run, lock.Key)
	fmt.Println(string(items[0].Body), items[1] == nil, err)
	// Output:
	// <nil>
	// true 1 1
	// {"status":"queued"} true <nil>
}

// Query reads a part of a partition in the order of the sort keys, or in reverse.
func ExampleTable_Query() {
	ctx := context.Background()
	t := memtable.New(time.Now)
	var ops []table.Op
	for _, sort := range []string{"head", "step/1", "step/2", "step/3"} {
		item := table.Item{Key: table.Key{Part: "run/1", Sort: sort}, Owner: "org-1", Body: []byte(`{}`)}
		ops = append(ops, table.Put(item, table.Absent()))
	}
	fmt.Println(t.Commit(ctx, "write-1", ops...))

	after := table.Range{Part: "run/1", Prefix: "step/", After: "step/1", Limit: 10}
	last := table.Range{Part: "run/1", Prefix: "step/", Reverse: true, Limit: 1}
	for _, r := range []table.Range{after, last} {
		items, err := t.Query(ctx, r)
		for _, item := range items {
			fmt.Print(item.Sort, " ")
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// step/2 step/3 <nil>
	// step/3 <nil>
}

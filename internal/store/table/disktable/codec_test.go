package disktable

import (
	"testing"
	"time"

	"agentplatform/internal/store/table"
)

func FuzzStoredItem(f *testing.F) {
	key := table.Key{Part: "p", Sort: "s"}
	f.Add(appendItem(nil, &table.Item{Key: key, Owner: "o", Version: 3, Due: time.Unix(1, 0),
		Lists: []table.Listing{{Index: "i", Part: "p", Sort: "s"}}, Body: []byte(`{}`)}))
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{2, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, stored []byte) {
		item, err := decodeItem(key, stored)
		if err != nil {
			return
		}
		again, err := decodeItem(key, appendItem(nil, item))
		if err != nil || again.Owner != item.Owner || len(again.Lists) != len(item.Lists) ||
			string(again.Body) != string(item.Body) {
			t.Fatalf("%v: %+v became %+v", err, item, again)
		}
	})
}

func FuzzStoredKeys(f *testing.F) {
	f.Add(appendItemKey(nil, table.Key{Part: "p", Sort: "s"}))
	f.Add([]byte("i"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = splitItemKey(b)
		_, _ = splitEntry(b)
		_, _, _ = splitEndKey(b)
	})
}

package record

import (
	"bytes"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"agentplatform/internal/store/table"
)

// memo remembers what the bodies of items were decoded to: a request reads its key, user, organization and agent, which
// are hardly ever other ones than before. What it returns is that of the very bytes that were read, so it is never
// older than they are. It is for readers that change nothing of it, as they share it.
type memo struct {
	mu      sync.Mutex
	bytes   int
	decoded *lru.LRU[table.Key, remembered]
}

// Limits of a memo. A decoded body takes a few times its bytes.
const (
	memoItems = 1024
	memoBytes = 256 << 10 // of all bodies
	memoBody  = 16 << 10  // of one body; larger ones are decoded each time
)

type remembered struct {
	body  []byte
	value any // an *envelope
}

func newMemo() *memo {
	m := &memo{}
	// It errs only on a size below 1.
	m.decoded, _ = lru.NewLRU(memoItems, func(_ table.Key, r remembered) { m.bytes -= len(r.body) })
	return m
}

// get returns what a body was decoded to; nil if that is not known.
func (m *memo) get(item *table.Item) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, there := m.decoded.Get(item.Key); there && bytes.Equal(r.body, item.Body) {
		return r.value
	}
	return nil
}

// add adds what a body was decoded to. Nobody changes a body, so it need not be copied.
func (m *memo) add(item *table.Item, value any) {
	if len(item.Body) > memoBody {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decoded.Remove(item.Key) // takes off its bytes
	m.decoded.Add(item.Key, remembered{item.Body, value})
	for m.bytes += len(item.Body); m.bytes > memoBytes; {
		m.decoded.RemoveOldest()
	}
}

// Spoiled are the keys of what a reader has changed in place, which no reader may. Tests ask for it at their end.
func (k Known) Spoiled() (keys []table.Key) {
	m := k.store.memo
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.decoded.Keys() {
		r, _ := m.decoded.Peek(key)
		again := reflect.New(reflect.TypeOf(r.value).Elem()).Interface()
		if err := json.Unmarshal(r.body, again); err != nil || !reflect.DeepEqual(again, r.value) {
			keys = append(keys, key)
		}
	}
	return keys
}

package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/store/table"
)

func TestUnknownMembersAreKept(t *testing.T) {
	item := table.Item{
		Key: RunKey("1"), Owner: "o", Version: 3, Schema: 1,
		Body: []byte(`{"run_id":"1","status":"queued","from_the_future":{"a":[1,2]}}`),
	}
	e, err := decode[Run](&item)
	require.NoError(t, err)
	assert.Equal(t, "1", e.Value.RunID)
	e.Value.Attempt = 4
	tx := new(Store).Begin("m")
	tx.PutRun(e)
	require.NoError(t, tx.Err())
	op := tx.Ops()[0]
	again, err := decode[Run](op.Item)
	require.NoError(t, err)
	assert.Equal(t, 4, again.Value.Attempt)
	assert.Contains(t, string(op.Item.Body), `"from_the_future":{"a":[1,2]}`)
	assert.Contains(t, string(op.Item.Body), `"run_id":"1"`)
}

func TestItemOfNewerSchemaIsNotOverwritten(t *testing.T) {
	e, err := decode[Run](&table.Item{Key: RunKey("1"), Schema: schema + 1, Body: []byte(`{"run_id":"1"}`)})
	require.NoError(t, err)
	tx := new(Store).Begin("m")
	tx.PutRun(e)
	require.ErrorContains(t, tx.Err(), "newer schema")
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"run_id":"1","parked":["a"]}`, `{"doc":{"a":1}}`, `[]`, `{"created_at":"x"}`, "\xff", `{"a":1,"a":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		item := &table.Item{Key: RunKey("1"), Owner: "o", Schema: 1, Version: 1, Body: body}
		if e, err := decode[Run](item); err == nil {
			tx := new(Store).Begin("m")
			tx.PutRun(e)
			if err := tx.Err(); err != nil {
				t.Fatalf("decoded but not encoded: %v", err)
			}
		}
		_, _ = decode[Delivery](item)
		_, _ = decode[document](item)
		_, _ = decode[AuditEntry](item)
	})
}

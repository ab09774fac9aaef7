package memtable_test

import (
	"testing"
	"time"

	"agentplatform/internal/store/table"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/store/table/tabletest"
)

func TestContract(t *testing.T) {
	tabletest.Run(t, tabletest.Harness{New: func(*testing.T) table.Table { return memtable.New(time.Now) }})
}

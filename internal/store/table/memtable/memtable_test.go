package memtable_test

import (
	"testing"
	"time"

	"agentplatform/internal/table"
	"agentplatform/internal/table/memtable"
	"agentplatform/internal/table/tabletest"
)

func TestContract(t *testing.T) {
	tabletest.Run(t, tabletest.Harness{New: func(*testing.T) table.Table { return memtable.New(time.Now) }})
}

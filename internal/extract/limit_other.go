//go:build !linux

package extract

// limitMemory does nothing: only Linux counts what a process maps. Time is limited everywhere.
func limitMemory(uint64) error { return nil }

//go:build !linux

package reclaim

// unmapProgram does nothing: systems that are not Linux do not say which of the program's pages are in memory.
func unmapProgram() {}

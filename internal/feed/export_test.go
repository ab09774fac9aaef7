package feed

// Groups counts the runs that somebody reads.
func (f *Feed) Groups() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.groups)
}

package feed

// Held counts the frames that are held for readers.
func (f *Feed) Held() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rooms {
		r.mu.Lock()
		n += len(r.found.frames)
		r.mu.Unlock()
	}
	return n
}

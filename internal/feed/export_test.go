package feed

import "context"

// Groups counts the runs that somebody reads.
func (f *Feed) Groups() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.groups)
}

// Watch says that somebody watches a run who asks for no answer.
func (f *Feed) Watch(ctx context.Context, run string) error { return f.watch(ctx, run, "") }

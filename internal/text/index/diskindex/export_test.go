package diskindex

// SetMaxChunks sets how many chunks of collections that no call uses stay in memory.
func (x *Index) SetMaxChunks(n int) { x.maxChunks = n }

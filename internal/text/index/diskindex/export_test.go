package diskindex

// SetMaxChunks sets how many chunks memory has of collections that nobody uses just now.
func (x *Index) SetMaxChunks(n int) { x.maxChunks = n }

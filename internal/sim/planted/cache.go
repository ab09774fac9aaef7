package planted

const (
	tableCache  = "internal/table/disktable/cache.go"
	tableRecent = "internal/table/disktable/recent.go"
	tableBatch  = "internal/table/disktable/batch.go"
	tableTable  = "internal/table/disktable/disktable.go"
)

// CacheBugs are ways in which the cache of the laptop's table could read what is not so any more, or not yet. The
// simulation has another table: the tests of this one must find them.
func CacheBugs() []Bug {
	one := func(name, file, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{file, old, new}}} }
	return []Bug{
		one("a reader adds an item that was replaced meanwhile", tableCache,
			"	if s.epoch != epoch {\n", "	if false {\n"),
		one("a reader adds the end of a partition that was changed meanwhile", tableCache,
			"	if s.epoch == epoch {\n", "	if true {\n"),
		one("what is written leaves the old in the cache", tableCache,
			"		s.epoch++\n", "		if s.parts.get(k.Part) != nil {\n			s.mu.Unlock()\n			continue\n		}\n"),
		one("what is removed leaves the old in the cache", tableCache,
			"	if item == nil && e.complete && sort > e.above {\n",
			"	if item == nil && e.complete && there {\n		return\n	}\n	if item == nil && e.complete && sort > e.above {\n"),
		one("what is forgotten is taken for not there", tableCache,
			"		e.above, e.trimmed = max(e.above, e.items[n-1].sort), true\n", ""),
		one("what was not read is taken for not there", tableCache, "			e.above = k.Sort\n", ""),
		one("what is below the end of a partition is taken for not there", tableCache,
			"			e.above, e.trimmed = k.Sort, true\n", "			e.trimmed = true\n"),
		one("what is added at the end of a partition is taken for not there", tableCache,
			"		e.above = max(e.above, sort)\n", ""),
		one("what is added lowers the end of a partition", tableCache,
			"		e.above = max(e.above, sort)\n", "		e.above = sort\n"),
		one("a range from the cache goes down too far", tableCache, "e.items[i].sort > e.above; i--", "true; i--"),
		one("a range from the cache begins too low", tableCache, "		if !enough && r.After < e.above {\n", "		if false {\n"),
		one("a range from the cache leaves out what is large", tableCache,
			"			case k.large:\n				return nil, false\n			}\n			if item := live(k.item); item != nil {\n				found = append(found, item)\n			}\n		}\n		return found, true\n",
			"			}\n			if item := live(k.item); item != nil {\n				found = append(found, item)\n			}\n		}\n		return found, true\n"),
		one("a range from the cache has what has expired", tableCache,
			"		if item := live(k.item); item != nil {\n			found = append(found, item)\n		}\n	}\n	if !enough",
			"		if item := k.item; item != nil {\n			found = append(found, item)\n		}\n	}\n	if !enough"),
		one("a large item is taken for none", tableCache, "	return e.items[i].item, !e.items[i].large\n",
			"	return e.items[i].item, true\n"),
		one("a partition is new twice", tableRecent, "	return !there && part > last.above\n",
			"	_ = there\n	return part > last.above\n"),
		one("a partition is new among older ones", tableRecent, "	return !there && part > last.above\n",
			"	return !there\n"),
		one("a partition is new after it was forgotten", tableRecent, "	last.above = gone[len(gone)-1]\n", "	last.above = gone[0]\n"),
		one("a partition is new after a restart", tableRecent, "	return k.Part, nil\n", "	return k.Part[:0], nil\n"),
		one("an old partition is known whole by what is written to it", tableCache,
			"			if begun[k.Part] && !e.complete {\n", "			if !e.complete {\n"),
		one("a new partition is known whole by its second half", tableCache, "			begun[k.Part] = false ", "			_ = begun "),
		one("a batch does not see what stands before it in the same batch", tableBatch,
			"	if item, ok := b.queued[k]; ok {\n", "	if item, ok := b.queued[k]; ok && item == nil {\n"),
		one("the cache has a commit before the view does", tableTable,
			"	t.seen.Lock()\n	t.cache.replace(written, begun)\n", "	t.cache.replace(written, begun)\n	t.seen.Lock()\n"),
	}
}

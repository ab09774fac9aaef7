package planted

const (
	tableCache = "internal/store/table/disktable/cache.go"
	tableBatch = "internal/store/table/disktable/batch.go"
	tableTable = "internal/store/table/disktable/disktable.go"
	tablePort  = "internal/store/table/table.go"
)

// CacheBugs returns ways in which the cache of the laptop's table could return outdated or uncommitted items. The
// simulation has another table, so the tests of this one must find them.
func CacheBugs() []Bug {
	one := func(name, file, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{file, old, new}}} }
	const replaced = "			c.put(k.Part, p.with(k.Sort, item))\n"
	const early = "b.table.cache.replace(map[table.Key]*table.Item{op.Item.Key: op.Item})\n"
	return []Bug{
		one("a reader adds a partition that was changed meanwhile", tableTable,
			"	if t.view == v {\n		t.cache.add", "	if v != nil {\n		t.cache.add"),
		one("what is written leaves the old in the cache", tableCache,
			replaced, "			if item == nil {\n	"+replaced+"			}\n"),
		one("what is removed leaves the old in the cache", tableCache,
			replaced, "			if item != nil {\n	"+replaced+"			}\n"),
		one("a partition is changed while readers have it", tableCache,
			"	items := append(make([]*table.Item, 0, len(p.items)+1), p.items[:at]...)\n", "	items := p.items[:at]\n"),
		one("what was not read is taken for not there", tableCache,
			"	if len(items) > partItems || bytes > partBytes {\n", "	if false {\n"),
		one("a large partition that may be small is taken for empty", tableCache,
			"		case p.deleted == partItems:\n			return nil\n",
			"		case p.deleted == partItems:\n			return &partition{}\n"),
		one("an item of a large partition is taken for none", tableCache,
			"	if p.large {\n		return read(from, k)\n", "	if false {\n		return read(from, k)\n"),
		one("a large partition has no range", tableTable,
			"; !p.large {\n", "; p != nil {\n"),
		one("a range from the cache has the item that it begins after", tablePort,
			"sort != r.After && (sort > r.After) != r.Reverse)\n", "(sort >= r.After) != r.Reverse)\n"),
		one("a range from the cache that goes down begins too high", tablePort,
			"sort != r.After && (sort > r.After) != r.Reverse)\n", "sort != r.After && sort > r.After)\n"),
		one("a range from the cache has what has expired", tableCache,
			" || live(item) == nil {\n", " {\n"),
		one("an item from the cache has expired", tableTable,
			"		found[i] = t.live(item)\n", "		found[i] = item\n"),
		one("a batch does not see what stands before it in the same batch", tableBatch,
			"	if item, ok := b.queued[k]; ok {\n", "	if item, ok := b.queued[k]; ok && item == nil {\n"),
		one("the cache has a commit before it is written", tableBatch,
			"			b.queued[op.Item.Key] = op.Item\n", "			b.queued[op.Item.Key] = op.Item\n			"+early),
		one("the cache has a commit before the view does", tableTable,
			"	t.seen.Lock()\n	t.cache.replace(written)\n", "	t.cache.replace(written)\n	t.seen.Lock()\n"),
	}
}

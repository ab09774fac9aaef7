package planted

// TurnBugs returns ways in which a worker could stay idle while a message waits for it. The simulation polls the queue
// again after each change, so that no worker sleeps there. The tests of the queue must find them.
func TurnBugs() []Bug {
	one := func(name, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{localQueue, old, new}}} }
	const found = "			l.found = i\n			return true\n		}\n"
	return []Bug{
		one("a message that is sent wakes no worker", "	q.all[e.Message] = true\n	q.signal()\n",
			"	q.all[e.Message] = true\n"),
		one("a worker that is given back wakes none for who waits", "	part.Give()\n	if len(q.all) > 0 {\n",
			"	part.Give()\n	if false {\n"),
		{Name: "who may have nothing stops who waits behind", Edits: []Edit{
			{shareLine, found, found + "		break\n"},
		}},
		one("a message at work gives way to its own base", "return may(path) && !slices.Equal(",
			"return may(path) || slices.Equal("),
		one("what gave way waits behind its base", "e.receives > 0 {", "e.receives > 9 {"),
	}
}

// IngestBugs returns ways in which an ingestion could keep others waiting, or end too late. The simulation's ingesters
// release no document, so the tests of the package must find them.
func IngestBugs() []Bug {
	one := func(name, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{ingestStages, old, new}}} }
	return []Bug{
		one("a document is never given back", "	return w.Waits != nil && ", "	return false && "),
		one("a document is given back to its deadline", "< w.Deadline/2", "< w.Deadline"),
		one("a document that is given back has failed", "w.step(ctx, docstate.Release{Claim: w.claim}, nil)",
			"w.step(ctx, docstate.Retry{Claim: w.claim}, nil)"),
		{Name: "a call in flight outlives the deadline", Edits: []Edit{
			{"internal/knowledge/ingest/ingest.go", "w.stages(limited)", "w.stages(working)"},
		}},
	}
}

// IndexBugs returns ways in which the laptop's index could keep the words of deleted documents. The simulation has
// another index, so the tests of this one must find them.
func IndexBugs() []Bug {
	const removes = "	if err := c.mark(); err != nil {\n		return err\n	}\n	return c.write(&batch{"
	const loads = "	if err := c.load(); err != nil {\n		return err\n	}\n"
	const unmarks = "	c.marked = false\n	return os.Remove(c.path + dirty)\n"
	one := func(name, file, old, new string) Bug {
		return Bug{Name: name, Edits: []Edit{{indexFolder + file, old, new}}}
	}
	return []Bug{
		one("a removal is marked after its answer", "commit.go", removes,
			"	defer func() { _ = c.mark() }()\n	return c.write(&batch{"),
		one("a replacement is not marked", "commit.go", "	if slices.ContainsFunc(entries, c.state.has) {\n",
			"	if false {\n"),
		one("a mark of an earlier process is not seen", "tidy.go", "		seen[mark] = patience\n",
			"		seen[mark] = -1 << 30\n"),
		one("a mark goes before the words", "tidy.go", loads+"	if s",
			loads+"	_ = os.Remove(c.path + dirty)\n	if s"),
		one("a mark stays for ever", "tidy.go", unmarks, "	return nil\n"),
	}
}

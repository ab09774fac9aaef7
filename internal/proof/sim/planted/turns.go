package planted

// TurnBugs are ways in which a worker could stay idle while a message waits for it. The simulation asks the queue again
// whenever something has changed, so that no worker sleeps there: the tests of the queue must find them.
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
		one("a message at work gives way to its own base", "return may(path) && !slices.Equal(", "return may(path) || slices.Equal("),
		one("what gave way waits behind its base", "e.receives > 0 {", "e.receives > 9 {"),
		one("what gives way waits after its unit is given back", "		defer q.answered(d)\n", "		q.answered(d)\n"),
	}
}

// IngestBugs are ways in which an ingestion could keep others waiting, or end too late. The simulation's ingesters give
// no document back: the tests of the package must find them.
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

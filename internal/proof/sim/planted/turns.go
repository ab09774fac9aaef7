package planted

// TurnBugs are ways in which a worker could stay idle while a message waits for it. The simulation asks the queue again
// whenever something has changed, so that no worker sleeps there: the tests of the queue must find them.
func TurnBugs() []Bug {
	one := func(name, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{localQueue, old, new}}} }
	const found = "			l.at = i\n			return true\n		}\n"
	return []Bug{
		one("a message that is sent wakes no worker", "	q.all[e.Message] = true\n	q.signal()\n",
			"	q.all[e.Message] = true\n"),
		one("a worker that is given back wakes none for who waits", "	part.Give()\n	if len(q.all) > 0 {\n",
			"	part.Give()\n	if false {\n"),
		{Name: "who may have nothing stops who waits behind", Edits: []Edit{
			{shareLine, found, found + "		break\n"},
		}},
	}
}

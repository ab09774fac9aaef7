package planted

const toolkitNaming = "internal/org/toolkit/naming.go"

// NameBugs returns ways in which the name of a tool could pass to another tool. The simulation's server has no similar
// names, so the tests of toolkits must find them.
func NameBugs() []Bug {
	one := func(name, file, old, new string) Bug { return Bug{Name: name, Edits: []Edit{{file, old, new}}} }
	return []Bug{
		one("a tool takes the name of one that has gone", toolkitNaming,
			"		taken[one.Name] = true\n", "		_ = taken\n"),
		one("the names of tools follow the order of their list", toolkitNaming,
			"				if !has[f] && !claimed[b] && same(f, b) {\n",
			"				if has[f] && same(f, b) {\n"),
		one("a tool that comes back has another name", toolkitTools, "slices.Concat(before, l.Gone)", "before"),
		one("a tool that an earlier version stored has another name", toolkitNaming,
			"		func(f, b int) bool { return !had[b].known && found[f].Name == before[b].Name },\n", ""),
		one("an operation that moves has another name", toolkitNaming,
			"return is[f].known && had[b].known && is[f].own == had[b].own", "return false"),
	}
}

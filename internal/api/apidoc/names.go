package apidoc

import (
	"cmp"
	"slices"
	"strings"
)

// names makes the names of operations identifiers, and gives each a description that has none.
func (d *document) names() {
	for _, o := range append(d.operations(), d.pushes()...) {
		o.OperationID, o.Description = Camel(o.OperationID), cmp.Or(o.Description, o.Summary+".")
	}
}

// Camel is a name of words between hyphens as one in camelCase.
func Camel(name string) string {
	words := strings.Split(name, "-")
	for i := range words[1:] {
		words[i+1] = Pascal(words[i+1])
	}
	return strings.Join(words, "")
}

// Pascal is the same in PascalCase.
func Pascal(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// GeneratorNames are names of classes that openapi-python-client writes itself. A module that uses both the class and a
// schema of such a name decodes answers with the wrong one.
var GeneratorNames = []string{"File", "Response", "Unset", "Client", "AuthenticatedClient"}

// SchemaName is the name of a schema in the document.
func SchemaName(name string) string {
	if name = Pascal(name); slices.Contains(GeneratorNames, name) {
		return name + "Object"
	}
	return name
}

// Package apidoc makes the OpenAPI document from which clients are generated. It makes it from the description of the
// operations that the framework's library keeps.
//
// The library also checks requests with its description, so that description does not change. The document is a copy,
// and each rule here is one pass over the whole copy. Rules read facts that the description does not have from the Go
// types (members that are always there, the tag shape) or from an operation's metadata. The package must not know any
// operation; it imports the library alone.
package apidoc

import (
	"cmp"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Conflicts is the key of an operation's metadata that reports whether the operation may be refused with 409. Without
// the key it may, unless its method is GET.
const Conflicts = "apidoc.conflicts"

// Stores is the key in the metadata of a reading operation that also stores data, so it may find a full disk.
const Stores = "apidoc.stores"

// Needs is the key of the names of the members that a body must have. It is for a body whose type is also the type of
// an edit: an edit needs no member.
const Needs = "apidoc.needs"

// Make is the document for a description. The description is not changed.
func Make(described *huma.OpenAPI) *huma.OpenAPI {
	d := copyOf(described)
	d.parameters()
	d.shapes()
	d.needs()
	d.refusals()
	d.splitDirections()
	d.variants()
	d.headers()
	d.inlinePushes()
	d.prune()
	d.names()
	d.nulls()
	d.examples()
	return d.OpenAPI
}

type document struct {
	*huma.OpenAPI

	schemas schemas
}

// operation is an operation with the place where it stands.
type operation struct {
	*huma.Operation

	method, path string
}

// open reports whether it answers without a key.
func (o operation) open() bool { return o.Security != nil && len(o.Security) == 0 }

func (d *document) operations() []operation { return operationsOf(d.Paths) }

// pushes are the requests that the service makes itself.
func (d *document) pushes() []operation { return operationsOf(d.Webhooks) }

func operationsOf(paths map[string]*huma.PathItem) (list []operation) {
	for path, item := range paths {
		for method, o := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
			http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if o != nil {
				list = append(list, operation{o, method, path})
			}
		}
	}
	return list
}

// Names are the names of a description's operations, by "METHOD path".
func Names(described *huma.OpenAPI) map[string]string {
	names := map[string]string{}
	for _, o := range operationsOf(described.Paths) {
		names[o.method+" "+o.path] = o.OperationID
	}
	return names
}

// needs lists the members that an operation's body cannot do without. A schema that others take, too, is copied for it.
func (d *document) needs() {
	for _, o := range d.operations() {
		names, _ := o.Metadata[Needs].([]string)
		if len(names) == 0 {
			continue
		}
		m := o.RequestBody.Content["application/json"]
		own := SchemaName(o.OperationID) + "Request"
		if nameOf(m.Schema.Ref) != own {
			d.schemas.of[own] = clone(d.schemas.of[nameOf(m.Schema.Ref)])
			d.schemas.types[own] = d.schemas.types[nameOf(m.Schema.Ref)]
			m.Schema = refTo(own)
		}
		d.schemas.of[own].Required = names
	}
}

// parameters moves descriptions to the member where OpenAPI has them. An operation with two types of bodies gets
// X-Organization as an optional parameter, although the header is already among the security schemes. The generator
// openapi-python-client makes a client for two bodies only where there is an optional parameter.
func (d *document) parameters() {
	for _, o := range d.operations() {
		for _, p := range o.Parameters {
			p.Description = cmp.Or(p.Description, p.Schema.PatternDescription)
			p.Schema.PatternDescription = ""
		}
		if o.RequestBody != nil && len(o.RequestBody.Content) > 1 {
			o.Parameters = append(o.Parameters, &huma.Param{
				Name: "X-Organization", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
				Description: "With a key of level operator: the organization in which the key acts as an admin",
			})
		}
	}
}

// Package catalog has the things of an organization besides its runs, as they are stored. These are the organization
// itself, its users, groups, API keys, agents and toolkits.
//
// Each is a [record.Resourceful]: the generic functions of package record read, list, change and delete it, and keep
// versions, blobs and the last use of it. So it has no functions that read or write. The rules about the things are
// those of the use cases (tenant, toolkit). Files are not here: they are counted by the runs that hold them.
//
// It must not know tables, runs or use cases. It imports record, docstate and the tool port.
package catalog

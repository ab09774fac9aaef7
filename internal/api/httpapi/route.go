package httpapi

import (
	"context"
	"net/http"
	"strings"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/store/record"
)

// Routes is what the operations on a kind of resource have in common.
type Routes struct {
	*Server

	Tag         string
	What        string       // the kind in words, for a path whose id is not an identifier
	Read, Write tenant.Level // of GET, and of the other methods
}

// Route is [Register] of an operation like "GET /groups/{id}". DELETE answers 204, unless more changes that. A path
// whose id is not an identifier answers 404, before handle is called. It panics for an operation without a level.
func Route[I, O any](
	r Routes, at, id, summary string, handle func(context.Context, tenant.Principal, *I) (*O, error),
	more ...func(*Operation),
) {
	method, path, _ := strings.Cut(at, " ")
	o := Operation{Method: method, Path: path, Level: r.Write, ID: id, Tag: r.Tag, Summary: summary}
	switch method {
	case http.MethodGet:
		o.Level = r.Read
	case http.MethodDelete:
		o.Status = http.StatusNoContent
	}
	for _, change := range more {
		change(&o)
	}
	if o.Level == "" {
		panic("httpapi: " + at + " has no level")
	}
	Register(r.Server, o, func(ctx context.Context, p tenant.Principal, in *I) (*O, error) {
		if named, is := any(in).(interface{ Check(what string) error }); is {
			if err := named.Check(r.What); err != nil {
				return nil, err
			}
		}
		return handle(ctx, p, in)
	})
}

// Created has an operation answer 201.
func Created(o *Operation) { o.Status = http.StatusCreated }

// Accepted has an operation answer 202.
func Accepted(o *Operation) { o.Status = http.StatusAccepted }

// OfRun has the run's token be good for an operation whose path has {run_id}.
func OfRun(o *Operation) { o.OfRun = true }

// Or has the document say that an operation may answer with something else than JSON.
func Or(contentType string) func(*Operation) {
	return func(o *Operation) { o.Or = contentType }
}

// Conflicts has the document say that a reading operation may answer 409.
func Conflicts(o *Operation) { o.Conflicts = true }

// Needs has the document say which members the body must have, where its type does not.
func Needs(members ...string) func(*Operation) {
	return func(o *Operation) { o.Needs = members }
}

// Body is an answer that shows no version.
func Body[T any](body T) *Answer[T] { return &Answer[T]{Body: body} }

// Optional is a value; nil for none: an empty text, zero.
func Optional[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Views are the rows of a list as clients see them; without rows an empty list, not nil.
func Views[T, V any](rows []record.Entity[T], view func(T) V) []V {
	return Each(rows, func(e record.Entity[T]) V { return view(e.Value) })
}

// Each is what a function makes of each value of a list; without values an empty list, not nil.
func Each[T, V any](list []T, of func(T) V) []V {
	made := make([]V, 0, len(list))
	for _, one := range list {
		made = append(made, of(one))
	}
	return made
}

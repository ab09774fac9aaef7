package rollup

import (
	"cmp"
	"slices"
)

// Key has the values that a row counts for. A view leaves members empty that it does not separate.
type Key struct{ Kind, Status, Model, Agent, User, APIKey string }

const members = 6 // of a key

// all are the members, in the order in which keys are compared and written.
func (k Key) all() [members]string {
	return [members]string{k.Kind, k.Status, k.Model, k.Agent, k.User, k.APIKey}
}

// with returns a key whose members are the results of f.
func (k Key) with(f func(string) string) Key {
	return Key{f(k.Kind), f(k.Status), f(k.Model), f(k.Agent), f(k.User), f(k.APIKey)}
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Status, o.Status), cmp.Compare(k.Model, o.Model),
		cmp.Compare(k.Agent, o.Agent), cmp.Compare(k.User, o.User), cmp.Compare(k.APIKey, o.APIKey))
}

// Dimension is a property that separates entries.
type Dimension string

// The dimensions. Each view separates kinds and statuses.
const (
	Agent  Dimension = "agent"
	User   Dimension = "user"
	APIKey Dimension = "api_key"
	Model  Dimension = "model"
	Status Dimension = "status"
)

// in is the member of a key that has the dimension; an empty text for none.
func (d Dimension) in(k *Key) *string {
	switch d {
	case Agent:
		return &k.Agent
	case User:
		return &k.User
	case APIKey:
		return &k.APIKey
	case Model:
		return &k.Model
	case Status:
		return &k.Status
	default:
		return new(string)
	}
}

// Of is the value of the dimension, empty for none.
func (d Dimension) Of(k Key) string { return *d.in(&k) }

// dimensions are those that some views do not separate.
var dimensions = []Dimension{Agent, User, APIKey, Model}

// View names the dimensions that a table separates, besides kind and status.
type View string

// The views: no dimension, one dimension with those that mostly follow from it, or all of them.
const (
	Whole    View = "whole"
	ByModel  View = View(Model)
	ByAgent  View = View(Agent) // and by model, of which an agent has one at a time
	ByUser   View = View(User)
	ByAPIKey View = View(APIKey) // and by user, the owner of the key
	All      View = "all"
)

// Views lists all views, those with fewer rows first.
func Views() []View { return []View{Whole, ByModel, ByAgent, ByUser, ByAPIKey, All} }

// separates reports whether the view separates a dimension.
func (v View) separates(d Dimension) bool {
	switch {
	case d == "" || d == Status || v == All || View(d) == v:
		return true
	default:
		return v == ByAgent && d == Model || v == ByAPIKey && d == User
	}
}

// Smallest is the view with the fewest rows that separates these dimensions.
func Smallest(dimensions ...Dimension) View {
	for _, v := range Views() {
		if !slices.ContainsFunc(dimensions, func(d Dimension) bool { return !v.separates(d) }) {
			return v
		}
	}
	return All
}

// Of is the key of the row that an entry or row with this key belongs to.
func (v View) Of(k Key) Key {
	for _, d := range dimensions {
		if !v.separates(d) {
			*d.in(&k) = ""
		}
	}
	return k
}

// Parts is the number of parts of a view's rows, by the value of one dimension. A query about one user reads only the
// part that has the user.
const Parts = 16

// divided is the dimension by which the rows are divided; empty: they are in one part.
func (v View) divided() Dimension {
	switch v {
	case Whole:
		return ""
	case All:
		return User // of which there are the most
	default:
		return Dimension(v)
	}
}

// Part is the number of the part that a row is in.
func (v View) Part(k Key) int {
	d := v.divided()
	if d == "" {
		return 0
	}
	return int(hashOf(d.Of(k)) % Parts) //nolint:gosec // below 16
}

// PartsOf are the numbers of the parts in which a filter finds rows.
func (v View) PartsOf(f Filter) []int {
	of := Key(f)
	if d := v.divided(); d == "" || d.Of(of) != "" {
		return []int{v.Part(of)}
	}
	all := make([]int, Parts)
	for n := range all {
		all[n] = n
	}
	return all
}

// Filter selects the rows that count: those with these values. An empty member lets all pass.
type Filter Key

// Passes reports whether a row counts.
func (f Filter) Passes(k Key) bool {
	wanted := Key(f).all()
	for i, value := range k.all() {
		if wanted[i] != "" && wanted[i] != value {
			return false
		}
	}
	return true
}

// Dimensions are those that the filter has values for.
func (f Filter) Dimensions() []Dimension {
	var filtered []Dimension
	for _, d := range dimensions {
		if d.Of(Key(f)) != "" {
			filtered = append(filtered, d)
		}
	}
	return slices.Clip(filtered)
}

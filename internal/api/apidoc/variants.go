package apidoc

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Varied is a type of answers whose members depend on the value of one of them, which is named by. Each variant has its
// values, separated by spaces, and the members that are then there. An optional member ends with ?.
type Varied interface {
	Variants() (by string, variants map[string][]string)
}

// variants makes the schema of each such type one of several; the value of its member selects the schema.
func (d *document) variants() {
	for _, name := range slices.Sorted(maps.Keys(d.schemas.of)) {
		t := d.schemas.types[name]
		if t == nil {
			continue
		}
		of, is := reflect.Zero(t).Interface().(Varied)
		if !is {
			continue
		}
		by, variants := of.Variants()
		whole := d.schemas.of[name]
		union := &huma.Schema{
			Description:   by + " selects the form.",
			Discriminator: &huma.Discriminator{PropertyName: by, Mapping: map[string]string{}},
		}
		for _, values := range slices.Sorted(maps.Keys(variants)) {
			one := variantOf(whole, by, strings.Fields(values), variants[values])
			ref := refTo(name + wordsOf(values))
			d.schemas.of[nameOf(ref.Ref)] = one
			union.OneOf = append(union.OneOf, ref)
			for _, value := range strings.Fields(values) {
				union.Discriminator.Mapping[value] = ref.Ref
			}
		}
		d.schemas.of[name] = union
	}
}

// variantOf is the part of a schema that belongs to one of its variants.
func variantOf(whole *huma.Schema, by string, values, members []string) *huma.Schema {
	which := *whole.Properties[by]
	which.Enum = nil
	for _, value := range values {
		which.Enum = append(which.Enum, value)
	}
	one := &huma.Schema{
		Type: huma.TypeObject, Required: []string{by}, Properties: map[string]*huma.Schema{by: &which},
	}
	for _, m := range members {
		name, maybe := strings.CutSuffix(m, "?")
		one.Properties[name] = clone(whole.Properties[name])
		if !maybe {
			one.Required = append(one.Required, name)
		}
	}
	return one
}

var betweenWords = regexp.MustCompile(`[._]+`)

// wordsOf is the first of some values in PascalCase.
func wordsOf(values string) string {
	return Pascal(strings.ToLower(betweenWords.ReplaceAllString(strings.Fields(values)[0], "-")))
}

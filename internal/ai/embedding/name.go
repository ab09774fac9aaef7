package embedding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Builtin is the provider that needs no network.
const Builtin = "builtin"

// Name names a model as deployments do: provider/name, or provider/name:dimensions.
type Name struct {
	Provider   string
	Name       string // of the model at its provider; it may have slashes and colons
	Dimensions int    // of the vectors; 0: as the model has them
}

// LeastDimensions is the lowest number of dimensions that may be asked for.
const LeastDimensions = 64

// maxName limits the name of a model, in bytes.
const maxName = 256

// String is the name as [ParseName] reads it.
func (n Name) String() string {
	if n.Dimensions == 0 {
		return n.Provider + "/" + n.Name
	}
	return n.Provider + "/" + n.Name + ":" + strconv.Itoa(n.Dimensions)
}

// ParseName reads the name of a model of one of these providers. A number of two digits or more after the last colon is
// the number of dimensions. One digit is part of the name, as Bedrock's names end in a version
// (amazon.titan-embed-text-v2:0). The error states what is wrong with the name.
func ParseName(text string, providers []string) (Name, error) {
	provider, name, _ := strings.Cut(strings.TrimSpace(text), "/")
	n := Name{Provider: provider, Name: name}
	if at := strings.LastIndexByte(name, ':'); at >= 0 && len(name)-at > 2 && isNumber(name[at+1:]) {
		n.Name = name[:at]
		n.Dimensions, _ = strconv.Atoi(name[at+1:]) // what is too large for an int is too large
		if n.Dimensions < LeastDimensions || n.Dimensions > MaxDimensions {
			return Name{}, fmt.Errorf("%q has %s dimensions: they must be %d to %d", text,
				name[at+1:], LeastDimensions, MaxDimensions)
		}
	}
	switch {
	case !slices.Contains(providers, provider):
		return Name{}, fmt.Errorf("%q must begin with %s", text, alternatives(providers))
	case n.Name == "":
		return Name{}, fmt.Errorf("%q must have a model after the provider", text)
	case len(n.Name) > maxName || strings.ContainsFunc(n.Name, isForeign):
		return Name{}, fmt.Errorf("%q must have a model name of at most %d bytes without spaces", text, maxName)
	}
	return n, nil
}

// alternatives are the beginnings of names: a/, b/ or c/.
func alternatives(providers []string) string {
	last := len(providers) - 1
	if last < 1 {
		return strings.Join(providers, "") + "/"
	}
	return strings.Join(providers[:last], "/, ") + "/ or " + providers[last] + "/"
}

// ParseNames reads a list of names of models of these providers. A name may stand only once. The error states what is
// wrong with the first invalid name.
func ParseNames(list, providers []string) ([]Name, error) {
	var names []Name
	there := map[Name]bool{}
	for _, text := range list {
		n, err := ParseName(text, providers)
		if err != nil {
			return nil, err
		}
		if there[n] {
			return nil, fmt.Errorf("%q stands twice", text)
		}
		there[n], names = true, append(names, n)
	}
	return names, nil
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

func isForeign(r rune) bool {
	return r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r)
}

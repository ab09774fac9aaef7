package agents

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/org/catalog"
)

// The document describes agentBody, and an edit is decoded into a catalog.AgentSpec. Both have the same members, apart
// from those that are not kept.
func TestTheMembersOfAnAgentThatAreDocumentedAreDecoded(t *testing.T) {
	documented := members(reflect.TypeFor[agentBody](), "")
	for _, name := range []string{"publish", "skip_check"} {
		assert.True(t, documented[name], name)
		delete(documented, name)
	}
	assert.Equal(t, members(reflect.TypeFor[catalog.AgentSpec](), ""), documented)
}

// members returns the paths of a struct's members in JSON, and of those of the structs in it. A budget is one member:
// both have the same type for it.
func members(of reflect.Type, at string) map[string]bool {
	paths := map[string]bool{}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		inner := of.Field(i).Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && name != "budget" {
			maps.Copy(paths, members(inner, at+name+"."))
			continue
		}
		paths[at+name] = true
	}
	return paths
}

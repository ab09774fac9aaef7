package service_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool/httptool"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/api/httpapi/service"
)

// Every field of a form in the document is read: it is refused when it is far too long. A field that the document does
// not have is ignored, or, where content is replaced, refused.
func TestTheFieldsOfFormsThatAreReadAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	e := httpapitest.New(t, func(c *service.Config) { c.Toolkits.Kinds["http"] = &httptool.Kind{} })
	ids := prepared(t, e, e.Send)
	d := read(t)
	forms := 0
	d.each(func(name string, o describedOperation) {
		if o.RequestBody == nil {
			return
		}
		schema := o.RequestBody.Content["multipart/form-data"].Schema
		if schema == nil {
			return
		}
		if ref, is := schema["$ref"].(string); is {
			schema = d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		}
		forms++
		method, path, _ := strings.Cut(name, " ")
		path = ids.Replace(strings.NewReplacer("{id}", "{base}", "{document_id}", "{document}").Replace(path))
		properties, _ := schema["properties"].(object)
		require.NotEmpty(t, properties, name)
		for field, described := range properties {
			if acceptsFiles(described.(object)) {
				refused := refusedFields(t, e, method, path, field, "f.txt", 300<<10)
				assert.NotContains(t, refused, field, "%s: the file %s", name, field)
				continue
			}
			refused := refusedFields(t, e, method, path, field, "", 300<<10)
			assert.Contains(t, refused, field, "%s does not read %s", name, field)
		}
		for _, field := range []string{"agent", "name", "priority", "content_type", "url"} {
			if properties[field] == nil {
				refused := refusedFields(t, e, method, path, field, "", 60<<10)
				assert.Equal(t, method == http.MethodPut, slices.Contains(refused, field), "%s reads %s", name, field)
			}
		}
	})
	assert.Equal(t, 4, forms)
}

// acceptsFiles reports whether a field is for files.
func acceptsFiles(described object) bool {
	if items, is := described["items"].(object); is {
		described = items
	}
	return described["format"] == "binary"
}

// refusedFields sends a form with one part of a size, and returns the fields that its answer refuses.
func refusedFields(t *testing.T, e httpapitest.API, method, path, field, file string, size int) []string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	create := w.CreateFormField
	if file != "" {
		create = func(field string) (io.Writer, error) { return w.CreateFormFile(field, file) }
	}
	part, err := create(field)
	require.NoError(t, err)
	_, err = part.Write(bytes.Repeat([]byte("x"), size))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r := httptest.NewRequest(method, httpapi.Base+path, &form)
	r.Header.Set("Content-Type", w.FormDataContentType())
	answer := e.Do(r)
	if answer.Code < http.StatusMultipleChoices {
		return nil
	}
	var refused struct{ Errors []struct{ Location string } }
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &refused), answer.Body)
	var fields []string
	for _, at := range refused.Errors {
		fields = append(fields, at.Location)
	}
	return fields
}

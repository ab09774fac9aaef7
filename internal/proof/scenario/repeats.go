package scenario

import (
	"strings"

	"github.com/stretchr/testify/assert"
)

// repeatedResponses returns the stories of requests that look like repeated ones.
func repeatedResponses() []Story {
	return []Story{
		{Name: "responses/a message with another key is no repeat", Run: func(x *Actor) {
			for first, input := range map[string]string{"hi": "again", "/ask Which city?": "Oslo"} {
				id := x.respond(first).is(200).text("id")
				send := func(key string) reply {
					return x.post("/responses", object{"model": x.Agent, "input": input, "previous_response_id": id},
						"Idempotency-Key", key)
				}
				next := send("1 " + first).is(200).text("id")
				assert.Equal(x, next, send("1 "+first).is(200).text("id"))
				send("2 " + first).names("previous_response_id")
			}
		}},
		{Name: "responses/an answer with other settings is no repeat", Run: func(x *Actor) {
			waiting := x.respond("/ask Which city?", "tools", []object{weather}, "metadata", object{"a": "b"}).is(200)
			answer := func(more ...any) reply {
				return x.respond("Oslo", append(more, "previous_response_id", waiting.text("id"))...)
			}
			next := answer("tools", []object{weather}).is(200).text("id")
			for field, value := range map[string]any{
				"tools": []object{}, "instructions": "Be rude.", "temperature": 0.5, "metadata": object{"a": "c"},
				"tool_choice": "none", "top_p": 0.5,
			} {
				answer(field, value).names("previous_response_id")
			}
			answer("model", x.careful()).names("previous_response_id")
			assert.Equal(x, next, answer().is(200).text("id"))
			assert.Equal(x, next, answer("metadata", object{"a": "b"}).is(200).text("id"))
		}},
		{Name: "responses/an output with other files is no repeat", Run: func(x *Actor) {
			waiting := x.respond(tool("get_weather", object{"place": "Oslo"}), "tools", []object{weather}).is(200)
			answer := func(output ...object) reply {
				return x.respond([]object{{"type": "function_call_output",
					"call_id": waiting.output("function_call")["call_id"], "output": output}},
					"previous_response_id", waiting.text("id"))
			}
			shown := object{"type": "input_image", "image_url": picture}
			next := answer(shown).is(200).text("id")
			other := strings.Replace(picture, "mNk+M9Q", "mNkYM9Q", 1) // as large
			for _, files := range [][]object{
				{{"type": "input_image", "image_url": other}}, {shown, shown},
				{{"type": "input_file", "filename": "a.png", "file_data": picture}},
			} {
				answer(files...).problem(409, "not_awaiting_input")
			}
			assert.Equal(x, next, answer(shown).is(200).text("id"))
		}},
	}
}

"""Holds conversations with the service by OpenAI's SDK. Prints what it saw, a name=value on each line.

    conversation.py URL KEY
"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2])
MODEL = "Forecaster"
WEATHER = {
    "type": "function", "name": "get_weather", "description": "The weather of a place.", "strict": True,
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"],
                   "additionalProperties": False},
}


def say(name, value):
    print(f"{name}={str(value).strip()}".replace("\n", "|") + ("|" if str(value).endswith("\n") else ""))


first = client.responses.create(model=MODEL, input="hello", metadata={"who": "me"})
say("text", first.output_text)
assert first.usage.total_tokens == 30 and first.metadata == {"who": "me"}, first

named = client.responses.create(model=MODEL, input="My name is Ann.")
say("chained", client.responses.create(model=MODEL, input="What is my name?", previous_response_id=named.id).output_text)

pieces, kinds = "", []
with client.responses.stream(model=MODEL, input="count") as stream:
    for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            pieces += event.delta
    final = stream.get_final_response()
assert pieces == final.output_text and kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
say("streamed", pieces)

asked = client.responses.create(model=MODEL, input="How is the weather?", tools=[WEATHER])
call = asked.output[0]
say("call", f"{call.name} {call.arguments}")
output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
say("called", client.responses.create(model=MODEL, input=[output], previous_response_id=asked.id, tools=[WEATHER]).output_text)

# A client that keeps the conversation sends all of it.
history = [{"role": "user", "content": "How is the weather?"}]
asked = client.responses.create(model=MODEL, input=history, tools=[WEATHER])
history += [item.model_dump(exclude_none=True) for item in asked.output]
history.append({"type": "function_call_output", "call_id": asked.output[0].call_id, "output": "cloudy"})
say("stateless", client.responses.create(model=MODEL, input=history, tools=[WEATHER]).output_text)

later = client.responses.create(model=MODEL, input="later", background=True)
assert later.background, later
with client.responses.retrieve(later.id, stream=True) as events:
    for event in events:
        pass
say("background", client.responses.retrieve(later.id).output_text)

slow = client.responses.create(model=MODEL, input="count slowly", background=True)
client.responses.cancel(slow.id)
with client.responses.retrieve(slow.id, stream=True) as events:
    for event in events:
        pass
say("cancelled", client.responses.retrieve(slow.id).status)

say("inputs", client.responses.input_items.list(first.id).data[0].content[0].text)

question = client.responses.create(model="Demo", input="/ask Which city?")
say("question", question.output_text)
say("answered", client.responses.create(model="Demo", input="Oslo", previous_response_id=question.id).output_text)

wanted = client.responses.create(model="Careful", input='/tool echo {"text":"x"}')
request = wanted.output[0]
assert request.type == "mcp_approval_request", wanted
say("approval", request.name)
no = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": False, "reason": "no"}
say("rejected", "yes" if "rejected" in client.responses.create(model="Careful", input=[no], previous_response_id=wanted.id).output_text else "no")

try:
    client.responses.retrieve("resp_0123456789abcdef01234567")
except openai.NotFoundError as e:
    say("missing", e.status_code)
try:
    client.responses.create(model=MODEL, input="x", text={"verbosity": "low"})
except openai.BadRequestError as e:
    say("refused", f"{e.status_code} {e.param}")

client.responses.delete(first.id)
try:
    client.responses.retrieve(first.id)
except openai.NotFoundError as e:
    say("deleted", e.status_code)

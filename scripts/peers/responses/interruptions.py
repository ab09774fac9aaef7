"""Has OpenAI's SDK meet connections that break, and a service that is killed. Prints what it saw, a name=value on each
line; `please WHAT NAME` asks the test for something, which says on standard input when it is done.

    interruptions.py URL KEY URL_THAT_CAN_BE_CUT
"""

import sys

import openai

MODEL = "Forecaster"
DELTA = "response.output_text.delta"
URL, KEY, FRAIL = sys.argv[1:]
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def say(name, value):
    print(f"{name}={value}", flush=True)


def please(what, name):
    print(f"please {what} {name}", flush=True)


def done():
    assert sys.stdin.readline() == "done\n"


def client(name, **more):
    return openai.OpenAI(base_url=FRAIL if "cut" in name else URL, api_key=KEY, **more)


def streamed(name):
    """Reads a stream until it breaks, takes it up behind the last event, and says both parts of the text."""
    api = client(name)
    texts, seen, broke, response = ["", ""], [], "no", None

    def heard(event, part):
        assert not seen or event.sequence_number > seen[-1], (event.sequence_number, seen)
        seen.append(event.sequence_number)
        if event.type == DELTA:
            texts[part] += event.delta
        return event.type

    stream = api.responses.create(model=MODEL, input=f"slowly python {name}", stream=True)
    try:
        for event in stream:
            response = response or event.response.id
            if heard(event, 0) != DELTA:
                continue
            if name == "closed":
                stream.close()
            please(name, f"slowly python {name}")
            if name == "closed":
                break
    except Exception as e:
        broke = type(e).__name__
    done()
    with api.responses.retrieve(response, stream=True, starting_after=seen[-1]) as rest:
        last = [heard(event, 1) for event in rest][-1]
    assert last == "response.completed", last
    assert api.responses.retrieve(response).output_text == "".join(texts), texts
    say(name, "|".join([broke, *texts]))


def plain(name, key=True, **more):
    """Waits for an answer while the connection breaks, and says whether it was that of a run which was there."""
    api = client(name, **more)
    headers = {"Idempotency-Key": f"python-{name}"} if key else {}
    please(name, f"slowly python {name}")
    raw = api.responses.with_raw_response.create(model=MODEL, input=f"slowly python {name}", extra_headers=headers)
    done()
    say(name, f"{raw.parse().output_text}|{raw.headers.get('idempotent-replayed', 'false')}")


def again(name, more):
    """Goes on with a response, without a key, while the connection breaks: with a message, or the output of a call."""
    api = client(name)
    asked = api.responses.create(model=MODEL, input="weather" if "tools" in more else f"python {name}", tools=[WEATHER])
    outputs = [
        {"type": "function_call_output", "call_id": item.call_id, "output": f"slowly python {name}"}
        for item in asked.output if item.type == "function_call"
    ]
    please(name, f"slowly python {name}")
    answer = api.responses.create(model=MODEL, previous_response_id=asked.id, **{"input": outputs, **more})
    done()
    say(name, answer.output_text)


def chained(name, previous):
    """Goes on with a conversation, without a key, while the connection breaks."""
    api = client(name)
    first = api.responses.create(model=MODEL, input=f"python {name}")
    please(name, f"slowly python {name}")
    try:
        api.responses.create(model=MODEL, input=f"slowly python {name}", **previous(first))
    except openai.APIStatusError as e:
        say(name, f"{e.status_code} {e.code}")
    please("let-go", f"slowly python {name}")
    done()
    done()


streamed("closed")
streamed("cut")
streamed("killed")
plain("cut-plain")
plain("killed-plain", max_retries=6)
plain("cut-keyless", key=False)
again("cut-chained", {"input": "slowly python cut-chained"})
again("cut-output", {"tools": [WEATHER]})
chained("cut-conversation", lambda first: {"conversation": first.conversation.id})

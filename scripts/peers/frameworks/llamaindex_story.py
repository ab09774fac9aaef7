"""LlamaIndex."""

from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAI, OpenAIResponses

from parts import KEY, MODEL, URL, part

# It looks up the window of a model that it knows; one of a name that OpenAI has.
model = OpenAIResponses(model=MODEL, api_base=URL, api_key=KEY, context_window=100_000)


def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


@part
def text():
    return model.complete("hello").text


@part
def streamed():
    return "".join(chunk.delta or "" for chunk in model.stream_complete("count"))


@part
def call():
    answer = model.chat_with_tools([FunctionTool.from_defaults(get_weather)], "How is the weather?")
    called = model.get_tool_calls_from_response(answer)[0]
    return called.tool_name, called.tool_kwargs


@part
def chat():
    return OpenAI(model="gpt-4o", api_base=URL, api_key=KEY, max_retries=0).complete("hello").text

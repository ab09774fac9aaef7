"""LangChain and LangGraph."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from parts import KEY, MODEL, URL, part

model = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, use_responses_api=True)


@tool
def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


@part
def text():
    return model.invoke("hello").text


@part
def streamed():
    return "".join(chunk.text for chunk in model.stream("count"))


@part
def call():
    called = model.bind_tools([get_weather]).invoke("How is the weather?").tool_calls[0]
    return called["name"], called["args"]


@part
def agent():
    return create_agent(model, [get_weather]).invoke({"messages": "How is the weather?"})["messages"][-1].text


@part
def chat():
    return ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY).invoke("hello").text

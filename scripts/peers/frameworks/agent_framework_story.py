"""Microsoft's Agent Framework."""

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from parts import KEY, MODEL, URL, part


def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


def agent(kind=OpenAIChatClient, **more):
    return Agent(client=kind(model=MODEL, base_url=URL, api_key=KEY), **more)


@part
async def text():
    return (await agent().run("hello")).text


@part
async def streamed():
    stream = agent().run("count", stream=True)
    async for _ in stream:
        pass
    return (await stream.get_final_response()).text


@part
async def tools():
    return (await agent(tools=[get_weather]).run("How is the weather?")).text


@part
async def chat():
    return (await agent(OpenAIChatCompletionClient).run("hello")).text

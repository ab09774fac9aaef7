"""Semantic Kernel."""

from openai import AsyncOpenAI
from semantic_kernel.agents import OpenAIResponsesAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.functions import kernel_function

from parts import KEY, MODEL, URL, part

client = AsyncOpenAI(base_url=URL, api_key=KEY)


class Weather:
    @kernel_function(description="The weather of a place.")
    def get_weather(self, location: str) -> str:
        return "sunny"


@part
async def text():
    return (await OpenAIResponsesAgent(ai_model_id=MODEL, client=client, name="A").get_response("hello")).content


@part
async def streamed():
    agent = OpenAIResponsesAgent(ai_model_id=MODEL, client=client, name="A")
    return "".join([str(piece.content) async for piece in agent.invoke_stream("count")])


@part
async def tools():
    agent = OpenAIResponsesAgent(ai_model_id=MODEL, client=client, name="A", plugins=[Weather()])
    return (await agent.get_response("How is the weather?")).content


@part
async def chat():
    agent = ChatCompletionAgent(service=OpenAIChatCompletion(ai_model_id=MODEL, async_client=client), name="A")
    return (await agent.get_response("hello")).content

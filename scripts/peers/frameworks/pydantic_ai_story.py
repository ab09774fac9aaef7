"""Pydantic AI."""

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from parts import KEY, MODEL, URL, part

provider = OpenAIProvider(base_url=URL, api_key=KEY)
model = OpenAIResponsesModel(MODEL, provider=provider)


def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


class Place(BaseModel):
    location: str


@part
def text():
    return Agent(model).run_sync("hello").output


@part
async def streamed():
    async with Agent(model).run_stream("count") as result:
        return "".join([delta async for delta in result.stream_text(delta=True)])


@part
def tools():
    return Agent(model, tools=[get_weather]).run_sync("How is the weather?").output


@part
def output_type():
    return Agent(model, output_type=Place).run_sync("Where is the weather?").output.location


@part
def chat():
    return Agent(OpenAIChatModel(MODEL, provider=provider)).run_sync("hello").output

"""The Agents SDK of OpenAI."""

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
from agents import set_tracing_disabled
from openai import AsyncOpenAI

from parts import KEY, MODEL, URL, part

set_tracing_disabled(True)


def model(kind=OpenAIResponsesModel):
    return kind(model=MODEL, openai_client=AsyncOpenAI(base_url=URL, api_key=KEY))


@function_tool
def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


@part
async def text():
    return (await Runner.run(Agent("A", model=model()), "hello")).final_output


@part
async def tools():
    agent = Agent("A", model=model(), tools=[get_weather], instructions="Be brief.")
    return (await Runner.run(agent, "How is the weather?")).final_output


@part
async def streamed():
    result = Runner.run_streamed(Agent("A", model=model()), "count")
    return "".join([event.data.delta async for event in result.stream_events()
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"])


@part
async def session():
    kept, agent = SQLiteSession("s"), Agent("A", model=model())
    await Runner.run(agent, "My name is Ann.", session=kept)
    return (await Runner.run(agent, "What is my name?", session=kept)).final_output


@part
async def handoff():
    other = Agent("Meteorologist", model=model(), instructions="You know the weather.")
    first = Agent("Desk", model=model(), instructions="You send people on.", handoffs=[other])
    result = await Runner.run(first, "How is the weather?")
    return result.last_agent.name, result.final_output


@part
async def chat():
    return (await Runner.run(Agent("A", model=model(OpenAIChatCompletionsModel)), "hello")).final_output

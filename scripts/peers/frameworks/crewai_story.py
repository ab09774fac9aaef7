"""CrewAI."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from parts import KEY, MODEL, URL, part


def model(**how):
    return LLM(model=MODEL, provider="openai", base_url=URL, api_key=KEY, **how)


@tool("get_weather")
def get_weather(location: str) -> str:
    """The weather of a place."""
    return "sunny"


@part
def text():
    return model(api="responses").call("hello")


@part
def crew():
    agent = Agent(role="A", goal="g", backstory="b", llm=model(api="responses"))
    return Crew(agents=[agent], tasks=[Task(description="hello", expected_output="a word", agent=agent)]).kickoff().raw[:9]


@part
def tools():
    agent = Agent(role="A", goal="g", backstory="b", llm=model(api="responses"), tools=[get_weather])
    task = Task(description="How is the weather?", expected_output="a word", agent=agent)
    return Crew(agents=[agent], tasks=[task]).kickoff().raw


@part
def chat():
    return model().call("hello")

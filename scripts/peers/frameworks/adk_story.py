"""The Agent Development Kit of Google, whose agent is one of the service, by A2A. URL is that of the agent."""

import httpx
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types

from parts import KEY, URL, part


@part
async def text():
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        agent = RemoteA2aAgent("Echo", URL + "/.well-known/agent-card.json", httpx_client=client)
        runner = InMemoryRunner(agent, app_name="a")
        await runner.session_service.create_session(app_name="a", user_id="u", session_id="s")
        message = types.Content(role="user", parts=[types.Part(text="hello")])
        text = ""
        async for event in runner.run_async(user_id="u", session_id="s", new_message=message):
            assert not event.error_message, event.error_message
            if not event.partial:  # what its session keeps
                text += "".join(piece.text or "" for piece in (event.content.parts if event.content else []))
        return text

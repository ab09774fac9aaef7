"""The official client for Python of the Agent2Agent protocol, version 1.0: sends a message to an agent, streaming or not.

    a2a_client.py URL KEY TEXT [TASK CONTEXT]    prints {"name": ..., "version": ..., "task": ..., "context": ..., "states": [...], "text": ..., "got": ...}

It asks for the task again at the end; with the text "cancel" it cancels TASK instead.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import CancelTaskRequest, GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState


async def main(url, key, text, task="", context=""):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create_from_url(url + "/")
        card = client._card
        states, said = [], ""
        if text == "cancel":
            states.append((await client.cancel_task(CancelTaskRequest(id=task))).status.state)
        else:
            message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task, context_id=context)
            async for event in client.send_message(SendMessageRequest(message=message)):
                if event.HasField("task"):
                    task, context = event.task.id, event.task.context_id
                    states.append(event.task.status.state)
                elif event.HasField("status_update"):
                    states.append(event.status_update.status.state)
                elif event.HasField("artifact_update"):
                    update = event.artifact_update
                    said = (said if update.append else "") + "".join(p.text for p in update.artifact.parts)
        got = await client.get_task(GetTaskRequest(id=task))
        print(json.dumps({
            "name": card.name,
            "version": [i.protocol_version for i in card.supported_interfaces],
            "task": task,
            "context": context,
            "states": [TaskState.Name(s) for s in states],
            "text": said,
            "got": TaskState.Name(got.status.state),
        }))


asyncio.run(main(*sys.argv[1:]))

"""Holds a conversation with the service by a client that openapi-python-client has made of its OpenAPI document. Prints what it saw as JSON.

    conversation.py FOLDER_OF_THE_CLIENT URL KEY
"""

import io
import json
import sys

sys.path.insert(0, sys.argv[1])
from client import AuthenticatedClient, models  # noqa: E402
from client.api.agents import create_agent  # noqa: E402
from client.api.chat import chat  # noqa: E402
from client.api.files import create_file  # noqa: E402
from client.api.runs import list_run_messages, list_runs, read_run, resume_run, stream_run  # noqa: E402
from client.api.toolkits import list_toolkits  # noqa: E402
from client.types import File  # noqa: E402

api = AuthenticatedClient(base_url=sys.argv[2].removesuffix("/api/v1"), token=sys.argv[3])
NAMES = ("init", "status", "delta", "step", "parked", "done", "heartbeat")
EVENTS = {name: getattr(models, "Event" + name.title()) for name in NAMES}


def streamed(request):
    """The events of an answer, lines of JSON or Server-Sent Events, each by the class that its member event names."""
    with api.get_httpx_client().stream(request.pop("method"), request.pop("url"), **request) as response:
        for line in response.iter_lines():
            line = line.removeprefix("data: ")
            if line.startswith("{"):
                data = json.loads(line)
                yield EVENTS[data["event"]].from_dict(data)


def events(run):
    """The events of a run."""
    return streamed(stream_run._get_kwargs(run))


def ended(run):
    """The run as it is in the end."""
    return [event for event in events(run) if isinstance(event, models.EventDone)][0].run


agent = create_agent.sync(client=api, body=models.CreateAgentRequest(name="From Python"))
assert isinstance(agent, models.AgentView), agent
sent = create_file.sync(client=api, body=models.CreateFileFilesBody(file=File(io.BytesIO(b"a text"), "note.txt", "text/plain")))
assert isinstance(sent, models.FileView) and sent.uploaded and sent.size == 6, sent

done = chat.sync(client=api, body=models.ChatFields(agent_id=agent.agent_id, message="hello", file_ids=[sent.file_id], wait=True))
assert isinstance(done, models.Completed), done
assert list_run_messages.sync(done.run_id, client=api).messages[0].files[0].name == "note.txt"

asked = chat.sync(client=api, body=models.ChatFields(agent_id=agent.agent_id, message="/ask Which city?", wait=False))
assert isinstance(asked, models.Handle), asked
paused = None
for event in events(asked.run_id):
    if isinstance(event, models.EventInit) and event.run.interrupts:
        paused = event.run.interrupts
    elif isinstance(event, models.EventStatus) and event.interrupts:
        paused = event.interrupts
    if paused:
        break
decision = models.DecisionBody(interrupt_id=paused[0].id, decision=models.DecisionBodyDecision.ANSWER, message="Paris")
resumed = resume_run.sync(asked.run_id, client=api, body=models.ResumeRunRequest(decisions=[decision]))
assert isinstance(resumed, models.Run), resumed
answered = ended(asked.run_id)
assert answered.finished_at.year > 2000 and answered.status == models.RunStatus.COMPLETED

toolkit = list_toolkits.sync(client=api).toolkits[0].toolkit_id
careful = models.CreateAgentRequest(
    name="Careful", toolkit_ids=[toolkit],
    approval=models.AgentBodyApprovalStruct(mode=models.AgentBodyApprovalStructMode.ALWAYS),
)
wanted, call = models.ChatFields(
    agent_id=create_agent.sync(client=api, body=careful).agent_id, message='/tool echo {"text": "one"}', streaming=True,
    files=[File(io.BytesIO(b"a text"), "with.txt", "text/plain")],
), None
for event in streamed(chat._get_kwargs(body=wanted)):
    if isinstance(event, models.EventInit) and event.run.interrupts:
        call, run = event.run.interrupts[0], event.run_id
    elif isinstance(event, models.EventStatus) and event.interrupts:
        call, run = event.interrupts[0], event.run_id
    if call:
        break
assert call.tool.name == "echo" and call.tool.arguments.to_dict() == {"text": "one"}, call
assert list_run_messages.sync(run, client=api).messages[0].files[0].name == "with.txt"
edit = models.DecisionBody(
    interrupt_id=call.id, decision=models.DecisionBodyDecision.EDIT,
    arguments=models.DecisionBodyArguments.from_dict({"text": "two"}),
)
assert isinstance(resume_run.sync(run, client=api, body=models.ResumeRunRequest(decisions=[edit])), models.Run)
edited = ended(run).result.steps[0]
again = resume_run.sync(run, client=api, body=models.ResumeRunRequest(decisions=[decision]))
assert isinstance(again, models.Error) and again.run_status.value == "completed", again

seen, cursor = [], None
while True:
    page = list_runs.sync(client=api, agent_id=agent.agent_id, limit=1, **({"cursor": cursor} if cursor else {}))
    seen += [run.run_id for run in page.runs]
    cursor = page.next_cursor
    if cursor is None:
        break
missing = read_run.sync("0" * 24, client=api)
assert isinstance(missing, models.Error), missing
print(json.dumps({
    "answer": done.answer, "asked": paused[0].prompt, "kind": paused[0].kind.value, "resumed": answered.result.answer,
    "runs": len(seen), "error": missing.code.value, "call": call.kind.value, "edited": edited.output, "late": again.code.value,
}))

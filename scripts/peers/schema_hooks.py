"""Makes schemathesis's requests refer to things that exist: ids from earlier responses are put into later requests, most
of the time. The caller's own key, user and organization are not changed: without them no request would succeed."""

import atexit
import json
import os
import random
import re

import schemathesis

random.seed(int(os.environ["SEED"]))
own = os.environ["PROTECTED"].split(",")  # the caller's key, user and organization
protected, home = set(own), own[-1]
answered = {}  # operation -> status -> how often; for the test that started this
atexit.register(lambda: json.dump(answered, open(os.environ["ANSWERED"], "w")))
known = {}  # kind -> identifiers, the newest last
documents = []  # (knowledge base, document), the newest last
MOST = 200  # of each kind

# The names of ids in responses, and in paths and bodies.
KINDS = {
    "agent_id": "agents", "run_id": "runs", "chat_id": "chats", "user_id": "users", "toolkit_id": "toolkits", "group_id": "groups",
    "key_id": "api-keys", "api_key_id": "api-keys", "file_id": "files", "organization_id": "organizations", "parked_id": "parked",
    "delivery_id": "deliveries", "active_run_id": "runs", "interrupt_id": "interrupts",
    "knowledge_base_id": "knowledge-bases", "document_id": "documents",
}
LISTS = {
    "toolkit_ids": "toolkits", "file_ids": "files", "group_ids": "groups", "knowledge_base_ids": "knowledge-bases",
    "document_ids": "documents",
}
SPEC = {
    "openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://api.example.com"}],
    "paths": {"/items": {"get": {"operationId": "items", "responses": {"200": {"description": "ok"}}}}},
}
MESSAGES = ["hello", "/ask Which?", "/sleep 20ms", "/sleep 3s", "/tool calculate {\"expression\":\"6*7\"}", "/fail no", "/ask A?\n/ask B?"]


def learn(value, name=""):
    if isinstance(value, dict):
        if "document_id" in value and "knowledge_base_id" in value:
            documents.append((value["knowledge_base_id"], value["document_id"]))
            del documents[:-MOST]
        for key, inner in value.items():
            learn(inner, key)
            if key == "interrupts" and isinstance(inner, list):
                for one in inner:
                    learn(one.get("id"), "interrupt_id")
    elif isinstance(value, list):
        for inner in value:
            learn(inner, name)
    elif isinstance(value, str) and name in KINDS and value not in protected:
        pool = known.setdefault(KINDS[name], [])
        if value not in pool:
            pool.append(value)
            del pool[:-MOST]


def some(kind):
    pool = known.get(kind)
    return random.choice(pool[-20:]) if pool and random.random() < 0.7 else None


def fill(body):
    if isinstance(body, list):
        for inner in body:
            fill(inner)
    if not isinstance(body, dict):
        return
    for key, value in body.items():
        if key in KINDS and isinstance(value, str):
            body[key] = some(KINDS[key]) or value
        elif key in LISTS and isinstance(value, list):
            one = some(LISTS[key])
            body[key] = [one] if one else value
        else:
            fill(value)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """The document has the schema of an event's data; schemathesis holds it to be that of the frame around the data, as
    OpenAPI 3.2 has it."""
    for item in raw_schema["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                stream = response.get("content", {}).get("text/event-stream")
                if stream:
                    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": stream["schema"]}
                    if "ResponseEvent" in json.dumps(stream["schema"]):  # Open Responses has a last event without JSON
                        data = {"anyOf": [{"const": "[DONE]"}, data]}
                    stream["schema"] = {"type": "object", "required": ["data"], "properties": {"data": data}}
                    stream.pop("example", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = context.operation.path
    if path.endswith("/stream"):
        kwargs["timeout"] = (30, 3)  # to connect, and to read: the stream of a run that waits for somebody does not end
    for name in list(case.path_parameters or {}):
        before = re.search(r"([^/]+)/\{" + name + r"\}", path)
        kind = KINDS.get(name) or (before and before.group(1))
        one = some(kind) or case.path_parameters[name]
        case.path_parameters[name] = "0" * 24 if one in protected and case.method != "GET" else one
    if "response_id" in (case.path_parameters or {}) and some("runs"):
        case.path_parameters["response_id"] = "resp_" + random.choice(known["runs"][-20:])
    if "document_id" in (case.path_parameters or {}) and documents and random.random() < 0.7:
        case.path_parameters["id"], case.path_parameters["document_id"] = random.choice(documents[-20:])
    for name in list(case.headers or {}):
        if name.lower() == "x-organization":  # to act in others is for few: what is known belongs to the caller's
            case.headers[name] = home if random.random() < 0.9 else some("organizations") or case.headers[name]
    fill(case.body)
    if path.endswith("/chat") and isinstance(case.body, dict):
        agent = some("agents")
        if agent:
            case.body["agent_id"] = agent
            case.body["message"] = random.choice(MESSAGES)
            case.body["wait"] = random.choice(["false", "false", "true"])
            if random.random() < 0.8:  # else it is about the other members
                for name in ("callback_url", "version", "file_ids", "file", "files", "metadata", "wait_timeout_s", "chat_id", "output_schema"):
                    case.body.pop(name, None)
                chat = some("chats")
                if chat:
                    case.body["chat_id"] = chat


    if path.endswith("/responses") and isinstance(case.body, dict) and some("agents"):
        case.body["model"] = random.choice(known["agents"][-20:])
        if random.random() < 0.8:  # else it is about the other members
            kept = {name: case.body[name] for name in ("model", "background", "stream") if name in case.body}
            case.body.clear()
            case.body.update(kept, input=random.choice(MESSAGES).replace("3s", "100ms"))
            (case.headers or {}).pop("Idempotency-Key", None)

    if case.method == "PATCH" and path.endswith("/organization") and isinstance(case.body, dict):
        for name in ("rate_limit", "caps", "budget"):  # it is the one that the requests are made in
            case.body.pop(name, None)
    if path.endswith("/resume") and isinstance(case.body, dict) and known.get("interrupts"):
        one = random.choice(known["interrupts"][-3:])
        case.body["decisions"] = [{"interrupt_id": one, "decision": random.choice(["answer", "approve"]), "message": "this"}]


    if isinstance(case.body, dict) and random.random() < 0.7:  # what no schema says
        if isinstance(case.body.get("email"), str):
            case.body["email"] = "someone%d@example.com" % random.randrange(10**9)
        if case.method == "POST" and path.endswith("/users"):
            case.body.update(role="member", group_ids=[])
            case.body.pop("organization_id", None)
        if path.endswith("/members") and "users" in known:
            case.body["user_id"] = random.choice(known["users"])
        if case.method == "POST" and path.endswith("/toolkits"):
            case.body.clear()
            case.body.update(name="t", kind="openapi", document=SPEC)
        if case.method == "POST" and path.endswith("/knowledge-bases"):
            case.body.clear()
            case.body.update(name="b")
        if path.endswith("/documents"):
            case.body.clear()
            case.body.update(text="text %d" % random.randrange(10**9))
        if case.method == "PUT" and path.endswith("/documents/{document_id}/content"):
            case.body.clear()
            case.body.update(text="text %d" % random.randrange(10**9))
        if path.endswith("/knowledge-bases/{id}/reprocess"):
            case.body.update(status="failed")
        if path.endswith("/followups") and "runs" in known:
            case.path_parameters["run_id"] = known["runs"][-1]


@schemathesis.check
def unexplained_server_error(ctx, response, case):
    """A 500 is allowed only as the report of a failed run to a client that waited for it."""
    if response.status_code >= 500 and response.json().get("code") != "run_failed":
        raise AssertionError("%d %s" % (response.status_code, response.text[:500]))


@schemathesis.hook
def after_call(context, case, response):
    statuses = answered.setdefault(context.operation.label, {})
    statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
    if "json" in (response.headers.get("content-type") or [""])[0]:
        try:
            learn(response.json())
        except ValueError:
            pass  # the checks tell

"""Has the client that openapi-python-client has made of the OpenAPI document read each answer that the document shows.

    answers.py FOLDER_OF_THE_CLIENT DOCUMENT
"""

import importlib
import json
import pkgutil
import sys

import httpx

sys.path.insert(0, sys.argv[1])
from client import AuthenticatedClient, api  # noqa: E402

with open(sys.argv[2]) as f:
    document = json.load(f)
client = AuthenticatedClient(base_url="http://127.0.0.1", token="key")
# Streams are read by hand (docs/clients.md); of bytes of any type, the client takes the other type that is listed.
UNREAD = {"text/event-stream", "application/x-ndjson", "*/*"}
modules = {}
for found in pkgutil.walk_packages(api.__path__, "client.api."):
    if not found.ispkg:
        modules[found.name.split(".")[-1].replace("_", "")] = importlib.import_module(found.name)


def at(response):
    """The response, or the one that it refers to."""
    while "$ref" in response:
        place = document
        for name in response["$ref"].removeprefix("#/").split("/"):
            place = place[name]
        response = place
    return response


def read(operation, status, kind, example):
    """What the client makes of an answer."""
    body = json.dumps(example).encode() if kind.endswith("json") else b"bytes"
    answer = httpx.Response(int(status), headers={"Content-Type": kind}, content=body)
    return modules[operation.lower()]._parse_response(client=client, response=answer)


read_ones = 0
for path in document["paths"].values():
    for operation in path.values():
        for status, response in operation["responses"].items():
            content = at(response).get("content", {})
            kind = next((k for k in content if k not in UNREAD), None)
            if status == "default" or kind is None:
                continue
            try:
                value = read(operation["operationId"], status, kind, content[kind].get("example"))
            except Exception as e:
                sys.exit(f"{operation['operationId']} {status} {kind}: {e!r}")
            if value is None:
                sys.exit(f"{operation['operationId']} {status} {kind}: nothing was read")
            read_ones += 1
print(f"{read_ones} answers of {len(modules)} operations")

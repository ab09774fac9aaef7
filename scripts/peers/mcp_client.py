"""The protocol's official client for Python: lists the tools of a server and calls one twice, the second time
with a listener of its progress.

    mcp_client.py URL KEY TOOL ARGUMENTS    prints {"tools": [...], "text": ..., "structured": ..., "error": ..., "progress": [...]}
"""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def main(url, key, tool, arguments):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                listed = await session.list_tools()
                result = await session.call_tool(tool, json.loads(arguments))
                raw = result.model_dump(by_alias=True)
                progress = []

                async def heard(number, total, message):
                    progress.append(message)

                await session.call_tool(tool, json.loads(arguments), progress_callback=heard)
                print(json.dumps({
                    "tools": [t.name for t in listed.tools],
                    "text": "".join(c.get("text", "") for c in raw["content"]),
                    "structured": raw.get("structuredContent"),
                    "error": raw.get("isError"),
                    "progress": progress,
                }))


asyncio.run(main(*sys.argv[1:5]))

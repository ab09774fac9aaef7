"""A server of FastMCP whose tools ask their client in the middle of a call, over stdin and stdout or on a port."""

import sys
from typing import Literal

from mcp.types import SamplingMessage, TextContent

from fastmcp import Context, FastMCP

server = FastMCP("fast")
calls = 0


@server.tool
async def count() -> int:
    """Counts the calls of this process."""
    global calls
    calls += 1
    return calls


@server.tool
async def paint(wall: str, ctx: Context) -> str:
    """Paints a wall in a colour that the user chooses."""
    colour = await ctx.elicit("Which colour?", response_type=Literal["red", "green"])
    return f"{wall}: {colour.action} {getattr(colour, 'data', None)}"


@server.tool
async def think(ctx: Context) -> str:
    """Asks the client's model."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text="What is 6 times 7?"))
    return str(await ctx.session.create_message(messages=[question], max_tokens=9))


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(show_banner=False)

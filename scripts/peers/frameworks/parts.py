"""The parts of a framework's story. Each prints a line NAME=VALUE, or NAME=failed: WHY.

A story is run as `STORY.py URL KEY`.
"""

import asyncio
import inspect
import os
import re
import sys

URL, KEY = sys.argv[1], sys.argv[2]
MODEL = "Forecaster"
loop = asyncio.new_event_loop()  # one for all parts: clients that they share belong to it
lines = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a framework prints by itself is not a line of the story


def part(function):
    """Runs a part and prints what it returns."""
    try:
        value = loop.run_until_complete(function()) if inspect.iscoroutinefunction(function) else function()
    except Exception as e:
        value = f"failed: {type(e).__name__} {e}"
    print(f"{function.__name__}=" + re.sub(r"\s+", " ", str(value)).strip()[:300], file=lines, flush=True)

"""Reads files with markitdown. Takes {"files": paths, "seconds": the most for one file} and prints, by path,
{"text", "failed", "seconds"}."""

import json
import logging
import signal
import sys
import time
import warnings

import markitdown

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def late(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, late)
request, reader, found = json.load(sys.stdin), markitdown.MarkItDown(), {}
for path in request["files"]:
    begun, text, failed = time.monotonic(), "", False
    signal.alarm(int(request["seconds"]))
    try:
        text = reader.convert_local(path).text_content
    except Exception:
        failed = True
    finally:
        signal.alarm(0)
    text = text.encode("utf-8", "replace").decode("utf-8")
    found[path] = {"text": text, "failed": failed, "seconds": time.monotonic() - begun}
json.dump(found, sys.stdout)

#!/usr/bin/env python3
"""Renders templates as transformers does, for tests that compare: reads lines of JSON {"source", "data": [one, …]}, answers each with a list of
{"out"} or {"error"}, one for each of the data. (needs Debian's python3-jinja2)
"""
import json, sys
from environment import environment

env = environment()


def render(template, data):
    try:
        out = template.render(**data)
        out.encode()  # what is no text is an error
        return {"out": out}
    except Exception as e:
        return {"error": type(e).__name__ + ": " + str(e)[:200]}


for line in sys.stdin:
    ask = json.loads(line)
    try:
        template = env.from_string(ask["source"])
        answer = [render(template, data) for data in ask["data"]]
    except Exception as e:
        answer = [{"error": type(e).__name__ + ": " + str(e)[:200]}] * len(ask["data"])
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()

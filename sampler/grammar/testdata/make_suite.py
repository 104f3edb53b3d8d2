#!/usr/bin/env python3
"""Make suite.json, a selection of cases from the JSON-Schema-Test-Suite, from a copy of its tests/draft2020-12.

    make_suite.py DIR > suite.json

DIR is the suite's own folder, or the copy in the Go module github.com/google/jsonschema-go v0.4.2
(jsonschema/testdata/draft2020-12: commit 83e866b46c9f9e7082fd51e83a61c5f2145a1ab7). What needs documents
from elsewhere, and keywords that are refused as a whole, stays out. See third_party/json-schema-test-suite for the licence.
"""
import json, pathlib, sys

OUT = {"refRemote", "dynamicRef", "unevaluatedItems", "unevaluatedProperties", "vocabulary", "content", "format"}
picked = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    if path.stem in OUT:
        continue
    for group in json.loads(path.read_text()):
        if "json-schema.org/draft" in json.dumps({k: v for k, v in group["schema"].items() if k != "$schema"} if isinstance(group["schema"], dict) else 0):
            continue
        schema = group["schema"]
        if isinstance(schema, dict):
            schema.pop("$schema", None)
        picked.setdefault(path.stem, []).append({
            "description": group["description"], "schema": schema,
            "tests": [{"description": t["description"], "data": t["data"], "valid": t["valid"]} for t in group["tests"]],
        })
lines = []
for name, groups in picked.items():
    body = ",\n".join("  " + json.dumps(g, ensure_ascii=False, separators=(",", ":")) for g in groups)
    lines.append(f'"{name}": [\n{body}\n]')
print("{\n" + ",\n".join(lines) + "\n}")

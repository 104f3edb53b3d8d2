"""Conversations as the token ids that pocket reads and writes. The text equals what tokenizer_config.json's template renders.

A piece is (text, learn): learn marks what the model itself has to write.
"""

import json

TOOLS_HEAD = ("# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>")
TOOLS_TAIL = ("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
              "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>")


def prompt(conv):
    """The text up to where the model begins, and what may be cut by a tokenizer that keeps the request's text apart from the template's."""
    out = []
    messages = conv["messages"]
    dump = (lambda t: json.dumps(t, ensure_ascii=False, separators=(",", ":"))) if conv.get("compact") else (lambda t: json.dumps(t, ensure_ascii=False))
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else None
    if conv["tools"]:
        out.append("<|im_start|>system\n")
        if system is not None:
            out += [system, "\n\n"]
        out.append(TOOLS_HEAD)
        for t in conv["tools"]:
            out += ["\n", dump(t)]
        out.append(TOOLS_TAIL + "<|im_end|>\n")
    elif system is not None:
        out += ["<|im_start|>system\n", system, "<|im_end|>\n"]
    for m in messages[1 if system is not None else 0:]:
        if m["role"] == "tool":
            out.append("<|im_start|>user")
            for r in m["results"]:
                out += ["\n<tool_response>\n", r, "\n</tool_response>"]
            out.append("<|im_end|>\n")
            continue
        out.append(f"<|im_start|>{m['role']}\n")
        if m.get("thought"):
            out.append(f"<think>\n{m['thought']}\n</think>\n\n")
        out += [m["content"], "<|im_end|>\n"]
    out.append("<|im_start|>assistant\n")
    if not conv["think"]:
        out.append("<think>\n\n</think>\n\n")
    return out


def answer(conv):
    head = f"<think>\n{conv['thought']}\n</think>\n\n" if conv["think"] else ""
    return head + conv["answer"] + "<|im_end|>"


def encode(conv, tok, apart=False):
    """(ids, first): the ids of the whole example, and the index of the first one the model has to write itself."""
    pieces = prompt(conv)
    if apart:
        # A tokenizer may keep the request's text apart from the template's; both readings of a prompt are learned.
        ids = [i for p in pieces for i in tok.encode(p)]
    else:
        ids = tok.encode("".join(pieces))
    return ids + tok.encode(answer(conv)), len(ids)

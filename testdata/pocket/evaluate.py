"""Judges a checkpoint by the held-out questions: python3 evaluate.py build/pocket/train.pt [--think] [--wrong]

A line of heldout.jsonl is {"category", "question", "must": [regular expressions, all of which the answer has to contain, case ignored],
and where needed "json": true, "system", "history": [[question, answer] …], "tools": [as in a request], "results": [after "call": the tools' results]}.
"""

import argparse
import collections
import json
import os
import re

import torch

import bpe
import chatml
import corpus
import model


def conversation(h, think):
    messages = [{"role": "system", "content": h["system"]}] if "system" in h else []
    for q, a in h.get("history", []):
        messages += [{"role": "user", "content": q}, {"role": "assistant", "content": a}]
    messages.append({"role": "user", "content": h["question"]})
    if "results" in h:
        messages += [{"role": "assistant", "content": h["call"]}, {"role": "tool", "results": h["results"]}]
    return {"messages": messages, "tools": h.get("tools", []), "think": think}


def right(h, answer):
    if h.get("json"):
        try:
            json.loads(answer)
        except ValueError:
            return False
    return all(re.search(m, answer, re.I | re.S) for m in h["must"])


def judge(net, tok, think, report=None, questions=None):
    """Scores by category: {category: [right, all]}. report(h, answer) is called for each wrong answer. questions is how many are asked; None: all."""
    net.eval()
    score = collections.defaultdict(lambda: [0, 0])
    for h in corpus.heldout()[:questions]:
        ids = tok.encode("".join(chatml.prompt(conversation(h, think))))
        text = tok.decode(net.greedy(ids, tok.special["<|im_end|>"], 160))
        answer = text.split("</think>")[-1].strip()
        ok = right(h, answer)
        score[h["category"]][0] += ok
        score[h["category"]][1] += 1
        if not ok and report:
            report(h, text)
    net.train()
    return score


def summary(score):
    good, all_ = sum(s[0] for s in score.values()), sum(s[1] for s in score.values())
    return f"{good}/{all_} = {100 * good / max(1, all_):.1f} %  " + "  ".join(f"{k} {v[0]}/{v[1]}" for k, v in sorted(score.items()))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("--think", action="store_true", help="judge with thinking on")
    p.add_argument("--wrong", action="store_true", help="print the wrong answers")
    p.add_argument("--ask", help="print the answer to this question and judge nothing")
    a = p.parse_args()
    torch.set_num_threads(1)
    tok = bpe.Tokenizer(os.path.join(os.path.dirname(os.path.abspath(a.checkpoint)), "tokenizer.json"))
    net = model.Pocket()
    net.load_state_dict(torch.load(a.checkpoint, map_location="cpu")["model"], strict=False)
    # What ships is bf16, so that is what is judged.
    for prm in net.parameters():
        prm.data = prm.data.bfloat16().float()
    if a.ask:
        ids = tok.encode("".join(chatml.prompt(conversation({"question": a.ask}, a.think))))
        print(tok.decode(net.greedy(ids, tok.special["<|im_end|>"], 200)))
    else:
        show = (lambda h, t: print(f"[{h['category']}] {h['question']}\n    {t!r}\n    must {h['must']}")) if a.wrong else None
        print(summary(judge(net, tok, a.think, show)))

"""Writes a training checkpoint as a Hugging Face folder: python3 export.py build/pocket/train.pt build/pocket/hf"""

import json
import os
import shutil
import sys

import bpe
import model

HERE = os.path.dirname(os.path.abspath(__file__))


def dump(path, doc):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, ensure_ascii=False, indent=2)
        f.write("\n")


def export(weights, tokenizer, out):
    """weights: parameter name to tensor; tokenizer: the path of tokenizer.json."""
    os.makedirs(out, exist_ok=True)
    tok = bpe.Tokenizer(tokenizer)
    model.save_safetensors(os.path.join(out, "model.safetensors"), weights)
    shutil.copyfile(tokenizer, os.path.join(out, "tokenizer.json"))
    end, text_end = tok.special["<|im_end|>"], tok.special["<|endoftext|>"]
    dump(os.path.join(out, "config.json"), model.CONFIG | {"bos_token_id": None, "eos_token_id": end, "pad_token_id": text_end})
    dump(os.path.join(out, "generation_config.json"), {"eos_token_id": [end, text_end], "pad_token_id": text_end, "do_sample": True, "temperature": 0.1, "top_k": 20, "top_p": 0.9})
    with open(os.path.join(HERE, "chat_template.jinja"), encoding="utf-8") as f:
        template = f.read()
    added = {str(i): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": n < bpe.HIDDEN}
             for n, (s, i) in enumerate(tok.special.items())}
    dump(os.path.join(out, "tokenizer_config.json"), {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": None,
        "chat_template": template, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": model.CONFIG["max_position_embeddings"],
        "pad_token": "<|endoftext|>", "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None})


if __name__ == "__main__":
    import torch
    checkpoint, out = sys.argv[1:3]
    export(torch.load(checkpoint, map_location="cpu")["model"], os.path.join(os.path.dirname(os.path.abspath(checkpoint)), "tokenizer.json"), out)
    print("wrote", out)

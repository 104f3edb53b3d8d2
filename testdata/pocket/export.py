"""Writes a checkpoint as a Hugging Face folder: python3 export.py build/pocket/sight.pt build/pocket/hf (train.pt: one that only reads)"""

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
    folder(tok, tokenizer, out, model.CONFIG)


def export_sight(net, tokenizer, out):
    """net: a sight.Seeing. The folder is a small Qwen3-VL's."""
    import sight
    os.makedirs(out, exist_ok=True)
    tok = bpe.Tokenizer(tokenizer)
    weights = {n.replace("model.", "model.language_model.", 1): q for n, q in net.state_dict().items() if not n.startswith("eye.")}
    model.save_safetensors(os.path.join(out, "model.safetensors"), weights | net.eye.export())
    text = model.CONFIG | {"model_type": "qwen3_vl_text", "rope_scaling": {"rope_type": "default", "mrope_section": sight.SECTION, "mrope_interleaved": True}}
    del text["architectures"]
    start, stop, row = (tok.special[s] for s in bpe.SIGHT)
    folder(tok, tokenizer, out, {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": True, "image_token_id": row,
                                 "vision_start_token_id": start, "vision_end_token_id": stop, "text_config": text, "vision_config": sight.VISION})


def folder(tok, tokenizer, out, config):
    """All files but the weights."""
    shutil.copyfile(tokenizer, os.path.join(out, "tokenizer.json"))
    end, text_end = tok.special["<|im_end|>"], tok.special["<|endoftext|>"]
    dump(os.path.join(out, "config.json"), config | {"bos_token_id": None, "eos_token_id": end, "pad_token_id": text_end})
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
    weights = torch.load(checkpoint, map_location="cpu")["model"]
    tokenizer = os.path.join(os.path.dirname(os.path.abspath(checkpoint)), "tokenizer.json")
    if any(n.startswith("eye.") for n in weights):
        import sight
        net = sight.Seeing()
        net.load_state_dict(weights)
        export_sight(net, tokenizer, out)
    else:
        export(weights, tokenizer, out)
    print("wrote", out)

"""Makes up a checkpoint of 0.13 billion parameters, SmolLM2-135M's shape, with random weights in bf16: make.py OUT"""

import json
import os
import struct
import sys

import torch

LAYERS, HIDDEN, HEADS, KV, DIM, INTER, VOCAB = 30, 576, 9, 3, 64, 1536, 49152
WORDS = "Story of client to be told at great length without an end the quick brown fox jumps over a lazy dog while seven small boats drift past old stone harbour and nobody counts them".split()


def tensors():
    torch.manual_seed(7)

    def normal(rows, cols, scale):
        return (torch.randn(rows, cols) * scale).to(torch.bfloat16)

    yield "model.embed_tokens.weight", normal(VOCAB, HIDDEN, 0.05)
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", torch.ones(HIDDEN, dtype=torch.bfloat16)
        yield at + "post_attention_layernorm.weight", torch.ones(HIDDEN, dtype=torch.bfloat16)
        for name, rows, cols in (("q", HEADS * DIM, HIDDEN), ("k", KV * DIM, HIDDEN), ("v", KV * DIM, HIDDEN), ("o", HIDDEN, HEADS * DIM)):
            yield at + f"self_attn.{name}_proj.weight", normal(rows, cols, cols ** -0.5)
        for name, rows, cols in (("gate", INTER, HIDDEN), ("up", INTER, HIDDEN), ("down", HIDDEN, INTER)):
            yield at + f"mlp.{name}_proj.weight", normal(rows, cols, cols ** -0.5)
    yield "model.norm.weight", torch.ones(HIDDEN, dtype=torch.bfloat16)


def byte_letters():
    """The letters that stand for bytes in a byte-level vocabulary (GPT-2's)."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        letters.setdefault(b, chr(256 + len(letters) - len(plain)))
    return [letters[b] for b in range(256)]


def main(out):
    os.makedirs(out, exist_ok=True)
    # Bytes, then the words that prompts are made of, then names of no meaning: a word that is in the vocabulary is one token.
    names = byte_letters() + ["\u0120" + w for w in WORDS]
    names += [f"<{i}>" for i in range(len(names), VOCAB)]
    docs = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INTER, "num_hidden_layers": LAYERS,
                        "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": DIM, "vocab_size": VOCAB, "max_position_embeddings": 2048, "rope_theta": 10000.0,
                        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16", "eos_token_id": VOCAB - 1, "bos_token_id": None},
        "tokenizer.json": {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                           "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {n: i for i, n in enumerate(names)}, "merges": [], "ignore_merges": True}},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"},
    }
    for name, doc in docs.items():
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            json.dump(doc, f)
    header, blobs, at = {}, [], 0
    for name, t in tensors():
        data = t.contiguous().view(torch.int16).numpy().tobytes()  # numpy knows no bf16: the bits go through int16
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, "model.safetensors.part"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for b in blobs:
            f.write(b)
    os.replace(f.name, os.path.join(out, "model.safetensors"))
    print(f"{out}: {at / 2e6:.0f} million parameters")


main(sys.argv[1])

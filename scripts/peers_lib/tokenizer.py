#!/usr/bin/env python3
"""Writes a tokenizer folder that counts as the embedded engine does: peers_tokenizer.py URL OUT

The other clients want a tokenizer to make prompts and to count answers with. This one has the words of the engine's own vocabulary,
asked for at `/detokenize`; a word that is not in it counts as one. So prompts come out at the length asked for and answers count the
same on both sides. Needs nothing but Python: `tokenizer.json` of a tokenizer of whole words is a plain list.
"""

import json
import pathlib
import sys
import urllib.request

ASKED = 8192


def words(url):
    """The words of the engine's first ids, in order."""
    body = json.dumps({"model": "simulated", "tokens": list(range(ASKED))}).encode()
    request = urllib.request.Request(f"{url}/detokenize", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["prompt"].split()


def write(url, out):
    """The folder."""
    vocabulary = words(url)
    if len(set(vocabulary)) != len(vocabulary):
        raise SystemExit(f"{url}/detokenize repeats words: this is not the embedded engine's vocabulary")
    end = vocabulary[0]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Punctuation", "behavior": "Isolated"},
            ],
        },
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(vocabulary)}, "unk_token": vocabulary[1]},
    }
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": end,
            "pad_token": end,
            "model_max_length": 32768,
            "clean_up_tokenization_spaces": False,
        },
        # Without the name of a model: libraries rebuild the tokenizers of those they know.
        "config.json": {"vocab_size": len(vocabulary), "eos_token_id": 0},
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content) + "\n")
    return len(vocabulary)


if __name__ == "__main__":
    print(f"{sys.argv[2]}: {write(sys.argv[1], pathlib.Path(sys.argv[2])):,} words")

#!/usr/bin/env python3
"""Writes a model folder without weights, with a byte-level BPE tokenizer trained here: make_tiny_model.py OUT TEXT...

For servers that can draw random weights themselves (vLLM's `--load-format dummy`): the configuration of a small Qwen2-shaped decoder, a
`tokenizer.json` and a chat template. Needs the PyPI package `tokenizers`. The folder's tokenizer also serves the benchmark's `--tokenizer`.
"""

import argparse
import json
import pathlib

import tokenizers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train(texts, size):
    """A byte-level BPE tokenizer of at most `size` entries."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in texts], trainer)
    return tokenizer


def configuration(vocabulary, end):
    """A Qwen2 decoder of four layers."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": vocabulary,
        "eos_token_id": end,
        "bos_token_id": None,
    }


def main():
    """Writes the folder and says what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="+", help="texts to train the tokenizer on")
    parser.add_argument("--vocabulary", type=int, default=2048, help="entries at most [default: %(default)s]")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train(options.texts, options.vocabulary)
    vocabulary, end = tokenizer.get_vocab_size(), tokenizer.token_to_id("<|im_end|>")
    tokenizer.save(str(options.out / "tokenizer.json"))
    files = {
        "config.json": configuration(vocabulary, end),
        "generation_config.json": {"eos_token_id": end, "do_sample": True},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 4096,
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    }
    for name, content in files.items():
        (options.out / name).write_text(json.dumps(content, indent=2) + "\n")
    print(f"{options.out}: {vocabulary:,} tokens")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes a small GGUF model with random weights and a byte-level BPE vocabulary trained here: make_tiny_gguf.py OUT TEXT...

The model says nothing sensible. It exists so that a real llama-server has something real to compute: a Qwen2-shaped decoder with
four million weights, whose every token costs a matrix product and goes through the server's own sampler, detokenizer and HTTP.
Needs the PyPI packages `gguf` and `numpy`. The same texts and seed give the same file.
"""

import argparse
import collections
import pathlib
import re

import gguf
import numpy

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS = 4, 256, 768, 4, 2
CONTEXT = 4096
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_symbols():
    """The printable stand-in of each byte that byte-level BPE vocabularies use: itself where printable, else from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols, spare = {}, 0x100
    for byte in range(256):
        if byte in printable:
            symbols[byte] = chr(byte)
        else:
            symbols[byte] = chr(spare)
            spare += 1
    return symbols


def train(text, symbols, size):
    """Byte-pair merges of the text's words until the vocabulary has `size` entries; ties go to the pair that sorts first."""
    counts = collections.Counter(re.findall(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+", text))
    words = [[symbols[byte] for byte in word.encode()] for word in counts]
    weights = list(counts.values())
    pairs, places = collections.Counter(), collections.defaultdict(set)
    for index, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weights[index]
            places[pair].add(index)
    vocabulary, merges = [symbols[byte] for byte in range(256)], []
    known = set(vocabulary)
    while len(vocabulary) < size and pairs:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(" ".join(best))
        joined = "".join(best)
        if joined not in known:
            known.add(joined)
            vocabulary.append(joined)
        for index in list(places[best]):
            word = words[index]
            for pair in zip(word, word[1:]):
                pairs[pair] -= weights[index]
                places[pair].discard(index)
            words[index] = word = merge(word, best, joined)
            for pair in zip(word, word[1:]):
                pairs[pair] += weights[index]
                places[pair].add(index)
        pairs = +pairs
    return vocabulary, merges


def merge(word, pair, joined):
    """The word with each occurrence of the pair replaced by the joined symbol, from left to right."""
    out, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            out.append(joined)
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out


def vocabulary_of(writer, text, size):
    """Trains the vocabulary and writes it; returns its entries."""
    tokens, merges = train(text, byte_symbols(), size - len(SPECIAL))
    kinds = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(SPECIAL)
    tokens += SPECIAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    return tokens


def unlikely(token):
    """Whether a trained model would hardly ever say it: a piece of a character, or a control token."""
    return token in SPECIAL or not token.replace("\u0120", " ").replace("\u010a", "\n").isascii()


def weights_of(writer, tokens, seed):
    """Random tensors, scaled so that activations stay near one through the layers; returns how many weights they hold.

    Random logits choose each token about as often as any other, and the server holds a piece of a character back until the rest
    comes. The bias of the output keeps such tokens away, so that a token is an event, as with most models most of the time.
    """
    vocabulary = len(tokens)
    draw, total = numpy.random.default_rng(seed), 0
    kv_width = WIDTH // HEADS * KV_HEADS

    def matrix(name, rows, columns):
        nonlocal total
        total += rows * columns
        tensor = draw.standard_normal((rows, columns), dtype=numpy.float32) / numpy.sqrt(columns)
        writer.add_tensor(name, tensor.astype(numpy.float16))

    def vector(name, length, value):
        writer.add_tensor(name, numpy.full(length, value, dtype=numpy.float32))

    matrix("token_embd.weight", vocabulary, WIDTH)
    matrix("output.weight", vocabulary, WIDTH)
    vector("output_norm.weight", WIDTH, 1.0)
    bias = [-1e4 if unlikely(token) else 0.0 for token in tokens]
    writer.add_tensor("output.bias", numpy.array(bias, dtype=numpy.float32))
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        vector(at + "attn_norm.weight", WIDTH, 1.0)
        vector(at + "ffn_norm.weight", WIDTH, 1.0)
        for name, rows in (("attn_q", WIDTH), ("attn_k", kv_width), ("attn_v", kv_width)):
            matrix(at + name + ".weight", rows, WIDTH)
            vector(at + name + ".bias", rows, 0.0)
        matrix(at + "attn_output.weight", WIDTH, WIDTH)
        matrix(at + "ffn_gate.weight", HIDDEN, WIDTH)
        matrix(at + "ffn_up.weight", HIDDEN, WIDTH)
        matrix(at + "ffn_down.weight", WIDTH, HIDDEN)
    return total


def main():
    """Writes the file and says how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="+", help="texts to train the vocabulary on")
    parser.add_argument("--vocabulary", type=int, default=2048, help="entries at most [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    writer = gguf.GGUFWriter(options.out, "qwen2")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    text = "\n".join(path.read_text() for path in options.texts)
    tokens = vocabulary_of(writer, text, options.vocabulary)
    total = weights_of(writer, tokens, options.seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{options.out}: {total:,} weights, {len(tokens):,} tokens")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares `tessera tokenizer encode` with Hugging Face's tokenizers, id by id.

Texts: every file under --texts, every code point alone and in contexts, random strings from all
planes (seeded), and small vocabularies with added tokens of every kind. Ends with 1 if any differs.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install tokenizers==0.23.3
    /tmp/peer/bin/python scripts/check_tokenizer.py --tokenizer gpt2.tokenizer.json --texts FOLDER
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from sample_texts import CONTEXTS, code_points, files, random_strings
from tokenizers import Tokenizer


SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def variants(path):
    """The tokenizer with added tokens of every kind, and its other switches."""
    with open(path, encoding="utf-8") as f:
        base = json.load(f)
    vocabulary = base["model"]["vocab"]
    ids = set(vocabulary.values()) | {t["id"] for t in base["added_tokens"]}

    def token(content, **flags):
        new = vocabulary.get(content, max(ids) + 1)
        ids.add(new)
        out = dict(id=new, content=content, special=False, normalized=False, lstrip=False,
                   rstrip=False, single_word=False)
        return {**out, **flags}

    yield "add_prefix_space", {**base, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True,
                                                         "trim_offsets": True, "use_regex": True}}
    yield "no regex", {**base, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                                                 "trim_offsets": True, "use_regex": False}}
    for words, digits in (("qwen2", ""), ("llama3", "{1,3}")):
        split = {"type": "Split", "pattern": {"Regex": SPLIT.replace("DIGITS", digits)},
                 "behavior": "Isolated", "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                 "use_regex": False}
        yield words, {**base, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}}
    yield "ignore_merges", {**base, "model": {**base["model"], "ignore_merges": True}}
    extra = [token("xyzzy", single_word=True), token("<l>", lstrip=True),
             token("<r>", rstrip=True, special=True), token("<lr>", lstrip=True, rstrip=True),
             token("e\u0301t\u00e9", normalized=True), token("<|end", special=True),
             token("aaaa", normalized=True, single_word=True), token("123"),
             token("\u00e5", normalized=True, rstrip=True)]
    yield "added tokens", {**base, "added_tokens": base["added_tokens"] + extra}
    yield "nfc", {**base, "normalizer": {"type": "NFC"}, "added_tokens": base["added_tokens"] + extra}


def added_token_strings(count, seed):
    rng = random.Random(seed)
    pieces = ["xyzzy", "<l>", "<r>", "<lr>", "e\u0301t\u00e9", "\u00e9te\u0301", "<|end", "<|endoftext|>",
              "aaaa", "123", "\u00e5", "a\u030a", " ", "  ", "\n", "\u3000", "_", "-", "b", "\u0301", "7",
              "\u24b6", "\u200d", "\u1c89", ".", "oftext|>"]
    for _ in range(count):
        yield "".join(rng.choice(pieces) for _ in range(rng.randint(1, 25)))


def differences(binary, tokenizer_file, texts, what):
    peer = Tokenizer.from_file(tokenizer_file)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            for text in texts:
                f.write(json.dumps({"text": text}) + "\n")
        out = subprocess.run([binary, "tokenizer", "encode", "--tokenizer", tokenizer_file, path],
                             check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[:-1]
    if len(out) != len(texts):
        sys.exit(f"{what}: {len(texts)} texts, but {len(out)} lines of ids")
    bad = []
    for i in range(0, len(texts), 10000):
        wanted = peer.encode_batch(texts[i:i + 10000], add_special_tokens=False)
        for text, line, want in zip(texts[i:], out[i:], wanted):
            if line != " ".join(map(str, want.ids)):
                bad.append((text, line, want.ids))
    print(f"  {what}: {len(bad)} of {len(texts)} differ", flush=True)
    for text, line, ids in bad[:3]:
        print(f"    {ascii(text[:80])}\n      ours {line[:200]}\n      HF   {' '.join(map(str, ids))[:200]}")
    return len(bad)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--binary", default="build/tessera")
    options.add_argument("--tokenizer", action="append", required=True)
    options.add_argument("--texts", help="a folder of text files")
    options.add_argument("--random", type=int, default=100000)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    bad = 0
    for path in o.tokenizer:
        print(path)
        bad += differences(o.binary, path, list(random_strings(o.random, o.seed)), "random strings")
        if o.texts:
            bad += differences(o.binary, path, list(files(o.texts)), "texts")
        for context in CONTEXTS:
            what = "every code point as " + ascii(context)
            bad += differences(o.binary, path, code_points(context), what)
        for name, tokenizer in variants(path):
            with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
                json.dump(tokenizer, f)
                f.flush()
                texts = list(added_token_strings(o.random // 10, o.seed))
                texts += list(random_strings(o.random // 10, o.seed + 1)) + ["", " ", "a"]
                bad += differences(o.binary, f.name, texts, name)
    print("all equal" if bad == 0 else f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

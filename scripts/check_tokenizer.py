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

from tokenizers import Tokenizer

SURROGATES = range(0xD800, 0xE000)
CONTEXTS = ["{}", "a{}a", "1{}1", "!{}!", " {} ", "a{}\u0334", "a\u0345{}", "a\u0301{}\u0323",
            "\u1100{}\u11a8", "x{}{}  y"]


def code_points(context):
    """Every code point in that context, sixteen a text."""
    found = [context.replace("{}", chr(c)) for c in range(0x110000) if c not in SURROGATES]
    return ["\nx".join(found[i:i + 16]) for i in range(0, len(found), 16)]


def random_strings(count, seed):
    rng = random.Random(seed)
    blocks = [(0, 0x20), (0x20, 0x7F), (0x20, 0x7F), (0x7F, 0x100), (0x100, 0x250), (0x300, 0x370),
              (0x370, 0x600), (0x900, 0xE00), (0x1100, 0x1200), (0x1AB0, 0x1B00), (0x1DC0, 0x2070),
              (0x2150, 0x2190), (0x3040, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFB50),
              (0x10000, 0x20000), (0x1D000, 0x1D800), (0x1F300, 0x1F650), (0x2F800, 0x2FA20),
              (0x20000, 0x110000)]
    marks = "\u0301\u0308\u0323\u0327\u0334\u0345\u05b0\u064b\u093c\u09fe\u1dfa\U0001e130\U00011930"
    pieces = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " '", "<|endoftext|>", "<|padding|>",
              "\r\n", "\n\n", "\t", " ", "\u00a0", "\u3000", "\u2028", "\u200d", "\ufffd"]
    for _ in range(count):
        text = []
        for _ in range(rng.randint(1, 30)):
            kind = rng.random()
            if kind < 0.45:
                c = rng.randrange(*rng.choice(blocks))
                text.append(" " if c in SURROGATES else chr(c))
            elif kind < 0.6:
                text.append(rng.choice(marks) * rng.randint(1, 2))
            elif kind < 0.75:
                text.append(rng.choice(pieces))
            elif kind < 0.85:
                text.append(" " * rng.randint(1, 60))
            elif kind < 0.92:
                text.append("".join(rng.choice("0123456789") for _ in range(rng.randint(1, 40))))
            else:
                text.append(rng.choice(["the", "Hello", "world", "aaaa", "xyzzy"]) * rng.randint(1, 5))
        yield "".join(text)


def files(folder):
    for root, _, names in os.walk(folder):
        for name in sorted(names):
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
                text = f.read()
            yield text
            yield from text.splitlines(keepends=True)


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

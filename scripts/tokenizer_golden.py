#!/usr/bin/env python3
"""Writes tests/data/golden_tokenizer: what Hugging Face's tokenizers make of a small text.

    text.txt             what is learned from, line by line
    tokenizer.json       400 entries learned from it, NFC, added tokens of every kind
    cases.jsonl          {"text": ..., "ids": [...]}, a case a line

and tests/data/golden_families: a small tokenizer with the components of each family
(tokenizer_families.py), NAME.json, and its cases with the decoded text, NAME.cases.jsonl.

    /tmp/peer/bin/python scripts/tokenizer_golden.py      # tokenizers==0.23.3
"""
import json
import os
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from check_tokenizer import added_token_strings
from check_tokenizers import strings
from sample_texts import random_strings
from tokenizer_families import FAMILIES, build

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data")
FOLDER = os.path.join(DATA, "golden_tokenizer")

SUBJECTS = ["the miller", "an old ferry", "her brother's clock", "the year 1742", "no one's answer",
            "caf\u00e9 owners", "\u00fcber-careful readers", "the \u6771\u4eac train", "we'll say they"]
VERBS = ["carried", "didn't find", "had forgotten", "was measuring", "won't repeat", "counted 37"]
OBJECTS = ["the river's width", "twelve (12) barrels", "a letter, unread", "some bread & salt",
           "what's left of it", "na\u00efve questions?", "    four spaces", "\ttabs", "3.14159"]


def text():
    rng = random.Random(3)
    lines = [f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}{rng.choice('.;!,')}"
             for _ in range(120)]
    return "\n".join(lines) + "\n"


def families(path):
    folder = os.path.join(DATA, "golden_families")
    os.makedirs(folder, exist_ok=True)
    for i, name in enumerate(sorted(FAMILIES)):
        tokenizer = build(name, [path], 420)
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(tokenizer, f, separators=(",", ":"))
            f.write("\n")
        peer = Tokenizer.from_str(json.dumps(tokenizer))
        with open(os.path.join(folder, name + ".cases.jsonl"), "w", encoding="utf-8") as f:
            for case in text().splitlines(keepends=True)[:10] + ["", " ", "\n"] + list(strings(30, 100 + i)):
                ids = peer.encode(case, add_special_tokens=False).ids
                back = peer.decode(ids, skip_special_tokens=False)
                f.write(json.dumps({"text": case, "ids": ids, "decoded": back}) + "\n")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "text.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text())
    peer = Tokenizer(models.BPE())
    peer.normalizer = normalizers.NFC()
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = decoders.ByteLevel()
    peer.train([path], trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    peer.add_tokens([AddedToken("xyzzy", single_word=True, normalized=False),
                     AddedToken("<l>", lstrip=True, normalized=False),
                     AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
                     AddedToken("e\u0301t\u00e9", normalized=True), AddedToken("  ", normalized=True),
                     AddedToken("aaaa", normalized=True, single_word=True)])
    peer.add_special_tokens([AddedToken("<r>", rstrip=True, normalized=False)])
    peer.save(os.path.join(FOLDER, "tokenizer.json"))
    cases = text().splitlines(keepends=True)[:20] + ["", " ", "\n", "a", text()]
    cases += list(added_token_strings(60, 5)) + list(random_strings(120, 6))
    with open(os.path.join(FOLDER, "cases.jsonl"), "w", encoding="utf-8") as f:
        for case in cases:
            f.write(json.dumps({"text": case, "ids": peer.encode(case).ids}) + "\n")
    families(path)


if __name__ == "__main__":
    main()

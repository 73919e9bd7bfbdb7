#!/usr/bin/env python3
"""Texts that tokenizers are compared on."""
import os
import random

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

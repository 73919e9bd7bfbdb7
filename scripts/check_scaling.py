#!/usr/bin/env python3
"""Doubles hostile inputs of every reader and prints the time of each size: it grows in proportion, or
the input is rejected. Takes some minutes; not part of CI, since a busy machine changes times.

usage: scripts/check_scaling.py [TESSERA]      ends with 1 if four times the input needs more than 10 times
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from small_runs import byte_alphabet

TESSERA = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/tessera")


def tokenizer(added=(), normalizer=None, words=True, **model):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": words}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    tokens = [{"id": 256 + i, "content": c, **flags, **more} for i, (c, more) in enumerate(added)]
    vocabulary = {character: byte for byte, character in enumerate(byte_alphabet())}
    return json.dumps({"version": "1.0", "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": level,
                       "model": {"type": "BPE", "vocab": vocabulary, "merges": [], **model}})


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def piece(text, kind=1):
    body = b"\x0a" + varint(len(text)) + text + b"\x15\0\0\x80\xbf\x18" + bytes([kind])
    return b"\x0a" + varint(len(body)) + body


def encode(make_tokenizer, text, name="t.json"):
    def run(n):
        made = make_tokenizer(n)
        pathlib.Path(name).write_bytes(made if isinstance(made, bytes) else made.encode())
        pathlib.Path("x.txt").write_bytes(text(n))
        return ["tokenizer", "encode", "--tokenizer", name, "--summary", "--threads", "1", "x.txt"]
    return run


def run_file(text):
    def run(n):
        pathlib.Path("x.yaml").write_text(text(n))
        return ["config", "print", "x.yaml"]
    return run


def tokenizer_file(text):
    def run(n):
        pathlib.Path("t.json").write_text(text(n))
        return ["tokenizer", "info", "t.json"]
    return run


NFC = {"type": "NFC"}
START = piece(b"<unk>", 2) + piece(b"a")
CASES = {  # name: (command of a size, first size)
    "marks of two classes under NFC": (encode(lambda n: tokenizer(normalizer=NFC),
                                              lambda n: b"a" + "\u0306\u0316".encode() * n), 100_000),
    "keys of a YAML object": (run_file(lambda n: "".join(f"k{i}: 1\n" for i in range(n))), 20_000),
    "nested YAML lists": (run_file(lambda n: "a: " + "[" * n), 2_000),
    "one long YAML text": (run_file(lambda n: "run: {name: " + "a" * n + "}"), 200_000),
    "keys of a JSON object": (tokenizer_file(lambda n: json.dumps({f"k{i}": 1 for i in range(n)})), 100_000),
    "nested JSON lists": (tokenizer_file(lambda n: "[" * n), 100_000),
    "one long JSON key": (tokenizer_file(lambda n: json.dumps({"a" * n: 1})), 1_000_000),
    "a long added token": (encode(lambda n: tokenizer([("a" * 512, {})]), lambda n: b"a" * n), 200_000),
    "added tokens that strip spaces": (encode(lambda n: tokenizer([(" ", {"rstrip": True})]), lambda n: b" " * n),
                                      200_000),
    "spaces": (encode(lambda n: tokenizer(), lambda n: b" " * n), 500_000),
    "line ends and spaces": (encode(lambda n: tokenizer(), lambda n: b"\n " * n), 500_000),
    "one word": (encode(lambda n: tokenizer(words=False), lambda n: b"ab" * n), 500_000),
    "a long piece": (encode(lambda n: START + piece(b"a" * 512), lambda n: b"a" * n, "t.model"), 100_000),
    "a piece as long as the text": (encode(lambda n: START + piece(b"a" * n), lambda n: b"a" * n, "t.model"),
                                    50_000),
}


def seconds(command):
    began = time.monotonic()
    ended = subprocess.run([TESSERA, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    if ended.returncode < 0:
        raise SystemExit(f"{' '.join(command)} ended by signal {-ended.returncode}")
    return time.monotonic() - began, ended.returncode


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, (run, size) in CASES.items():
            times = [seconds(run(size * factor)) for factor in (1, 2, 4)]
            slow = times[2][0] > 10 * max(times[0][0], 0.02)
            wrong += slow
            print(f"{name:32} " + "  ".join(f"{size * f:>9,}: {t[0]:6.2f} s" for f, t in zip((1, 2, 4), times)) +
                  f"  {'rejected' if times[2][1] else 'read'}{'  NOT IN PROPORTION' if slow else ''}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares encoding and training of byte-level BPE with tiktoken and Hugging Face's tokenizers.

Encoding: one cold pass over the lines of a text, each in a fresh process on one thread, loading
excluded. In turns, so that a busy machine is busy for all; compared by CPU time.
Training: 8,192 entries on the same text by both, all threads, by CPU time and by the clock.

    python scripts/bench_tokenizer.py TOKENIZER.json TEXT [TURNS]      (scripts/bench_tokenizer.sh)
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BINARY = os.path.join("build", "tessera")
# tiktoken's own form of the GPT-2 split: the same words, with possessive quantifiers.
PATTERN = (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s")


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return [line for line in f.read().split("\n") if line]


def byte_of_character():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in visible]
    return {**{chr(b): b for b in visible}, **{chr(256 + i): b for i, b in enumerate(others)}}


def peer_hf(tokenizer, text):
    from tokenizers import Tokenizer
    encoder = Tokenizer.from_file(tokenizer)
    lines = lines_of(text)
    start = time.process_time()
    tokens = sum(len(e.ids) for e in encoder.encode_batch(lines, add_special_tokens=False))
    return tokens, time.process_time() - start


def peer_tiktoken(tokenizer, text):
    import tiktoken
    with open(tokenizer, encoding="utf-8") as f:
        vocabulary = json.load(f)["model"]["vocab"]
    byte = byte_of_character()
    ranks = {bytes(byte[c] for c in token): i for token, i in vocabulary.items()
             if all(c in byte for c in token) and token != "<|endoftext|>"}
    encoder = tiktoken.Encoding("bench", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    lines = lines_of(text)
    start = time.process_time()
    tokens = sum(len(encoder.encode_ordinary(line)) for line in lines)
    return tokens, time.process_time() - start


def peer_training(text, out):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train([text], trainers.BpeTrainer(
        vocab_size=8192, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.save(out)


def ours(tokenizer, text):
    out = subprocess.run([BINARY, "tokenizer", "encode", "--tokenizer", tokenizer, "--threads", "1",
                          "--split", "lines", "--summary", "--json", text],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = json.loads(out.stdout)
    return found["tokens"], found["cpu_s"]


def in_fresh_process(name, *arguments):
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    out = subprocess.run([sys.executable, __file__, "--peer", name, *arguments], check=True,
                         stdout=subprocess.PIPE, env=environment)
    return json.loads(out.stdout)


def timed(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    clock, after = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare_encoding(tokenizer, text, turns):
    size = os.path.getsize(text) / 1e6
    runs = {"tessera": lambda: ours(tokenizer, text),
            "tiktoken": lambda: in_fresh_process("tiktoken", tokenizer, text),
            "HF": lambda: in_fresh_process("hf", tokenizer, text)}
    times = {name: [] for name in runs}
    tokens = {}
    for _ in range(turns):
        for name, run in runs.items():
            tokens[name], seconds = run()
            times[name].append(seconds)
    best = {name: statistics.median(t) for name, t in times.items()}
    print(f"encoding {size:.1f} MB by lines, one thread, median of {turns}")
    for name, seconds in best.items():
        print(f"  {name:9} {tokens[name]:>11,} tokens  {size / seconds:7.2f} MB/s  "
              f"tessera is {seconds / best['tessera']:.1f} x as fast")


def compare_training(text):
    with tempfile.TemporaryDirectory() as folder:
        clean, mine, theirs = (os.path.join(folder, n) for n in ("text", "mine.json", "theirs.json"))
        with open(text, encoding="utf-8", errors="replace") as f, \
                open(clean, "w", encoding="utf-8") as g:
            g.write(f.read())
        a = timed([BINARY, "tokenizer", "train", "--vocabulary", "8192", "--out", mine, clean])
        b = timed([sys.executable, __file__, "--peer", "train", clean, theirs])
        with open(mine, encoding="utf-8") as f, open(theirs, encoding="utf-8") as g:
            x, y = json.load(f)["model"], json.load(g)["model"]
    same = x["vocab"] == y["vocab"] and x["merges"] == y["merges"]
    print("training 8,192 entries on it")
    print(f"  tessera {a[0]:6.1f} s (CPU {a[1]:.1f})   HF {b[0]:6.1f} s (CPU {b[1]:.1f})   "
          f"ratio {b[0] / a[0]:.1f} by the clock, {b[1] / a[1]:.1f} by CPU time")
    print(f"  vocabulary and merges {'equal' if same else 'DIFFER'}")


def main():
    if sys.argv[1:2] == ["--peer"]:
        name, *arguments = sys.argv[2:]
        peers = {"hf": peer_hf, "tiktoken": peer_tiktoken, "train": peer_training}
        print(json.dumps(peers[name](*arguments)))
        return
    tokenizer, text = sys.argv[1:3]
    compare_encoding(tokenizer, text, int(sys.argv[3]) if len(sys.argv) > 3 else 3)
    compare_training(text)


if __name__ == "__main__":
    main()

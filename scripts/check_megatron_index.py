#!/usr/bin/env python3
"""Compares what `tessera data build` writes with what Megatron-Core writes from the same ids.

    scripts/check_megatron_index.py [--tessera build/tessera] [--large]

For vocabularies of 65,499 entries (ids of 2 bytes) and 65,500 (4 bytes), with and without
end-of-text tokens, empty documents among them: .bin and .idx must be equal byte for byte, and
Megatron-Core must read ours. --large adds a dataset of more than 2 GiB (offsets beyond 31 bits;
takes about 3 GiB of disk). Needs the Python packages megatron-core, torch, numpy and tokenizers.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import torch
from megatron.core.datasets.indexed_dataset import (
    DType, IndexedDataset, IndexedDatasetBuilder, _IndexWriter)
from tokenizers import Tokenizer

from small_runs import byte_alphabet

END = "<|endoftext|>"


def make_tokenizer(path, entries):
    """A tokenizer.json of exactly that many entries: bytes, pairs of bytes, end of text."""
    alphabet = byte_alphabet()
    pairs = [(a, b) for a in alphabet for b in alphabet][-(entries - 257):]
    vocabulary = {t: i for i, t in enumerate(alphabet + [a + b for a, b in pairs])}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": entries - 1, "content": END, "single_word": False,
                          "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
        "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                  "merges": [f"{a} {b}" for a, b in pairs]}}), encoding="utf-8")
    return Tokenizer.from_file(str(path))


def random_texts(count):
    draw = random.Random(1)
    texts = ["", "a", "", ""]
    while len(texts) < count:
        length = draw.choice([0, 1, 5, 50, 400])
        texts.append("".join(chr(draw.choice([draw.randrange(32, 127), draw.randrange(0xA0, 0x250),
                                              draw.randrange(0x4E00, 0x9FFF)]))
                             for _ in range(length)))
    return texts + [""]


def build(tessera, tokenizer, out, *more):
    subprocess.run([tessera, "data", "build", "--force", "--tokenizer", tokenizer, "--out", out, *more],
                   check=True, stdout=subprocess.DEVNULL)


def compare(name, same):
    print(f"{name}: {'equal' if same else 'DIFFERS'}")
    return same


def check_small(tessera, folder, entries):
    tokenizer = make_tokenizer(folder / "t.json", entries)
    dtype = DType.optimal_dtype(entries)
    texts, ok = random_texts(3000), True
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    ids = [e.ids for e in tokenizer.encode_batch(texts)]
    for end in (True, False):
        build(tessera, folder / "t.json", folder / "ours", folder / "in.jsonl",
              *([] if end else ["--no-end-of-text"]))
        wanted = [i + [entries - 1] for i in ids] if end else ids
        theirs = IndexedDatasetBuilder(str(folder / "theirs.bin"), dtype=dtype)
        for document in wanted:
            theirs.add_document(torch.tensor(document, dtype=torch.int64), [len(document)])
        theirs.finalize(str(folder / "theirs.idx"))
        name = f"vocabulary {entries} ({numpy.dtype(dtype).name})" + ("" if end else ", no end of text")
        for suffix in ("bin", "idx"):
            ok &= compare(f"{name}, .{suffix}", (folder / f"ours.{suffix}").read_bytes() ==
                          (folder / f"theirs.{suffix}").read_bytes())
        read = IndexedDataset(str(folder / "ours"))
        ok &= compare(f"{name}, read by Megatron-Core", len(read) == len(wanted) and
                      all(read[i].tolist() == w for i, w in enumerate(wanted)))
    return ok


def check_large(tessera, folder):
    """More than 2 GiB of 4-byte ids: equal lines, so that the ids of one line determine all."""
    entries = 65500
    tokenizer = make_tokenizer(folder / "t.json", entries)
    line = " ".join(str(i % 10) for i in range(1 << 19))
    ids = numpy.array(tokenizer.encode(line).ids + [entries - 1], dtype=numpy.int32)
    lines = (1 << 31) // ids.nbytes + 100
    with open(folder / "in.txt", "w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write(line + "\n")
    build(tessera, folder / "t.json", folder / "ours", "--split", "lines", folder / "in.txt")
    with _IndexWriter(str(folder / "theirs.idx"), numpy.int32) as writer:
        writer.write([ids.size] * lines, None, list(range(lines + 1)))
    same = (folder / "ours.idx").read_bytes() == (folder / "theirs.idx").read_bytes()
    size = (folder / "ours.bin").stat().st_size
    ok = compare(f"{size / 2**30:.2f} GiB, .idx", same and size == lines * ids.nbytes > 1 << 31)
    with open(folder / "ours.bin", "rb") as file:
        ok &= compare("  .bin", all(file.read(ids.nbytes) == ids.tobytes() for _ in range(lines)))
    read = IndexedDataset(str(folder / "ours"))
    return ok & compare("  last document read by Megatron-Core", (read[lines - 1] == ids).all())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tessera", default="build/tessera")
    parser.add_argument("--large", action="store_true", help="also a dataset beyond 2 GiB")
    options = parser.parse_args()
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        for entries in (65499, 65500):
            ok &= check_small(options.tessera, pathlib.Path(folder), entries)
        if options.large:
            ok &= check_large(options.tessera, pathlib.Path(folder))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares `tessera tokenizer encode` with the sentencepiece package of PyPI, id by id.

Texts: every file under --texts as a whole and line by line, every code point in contexts, random
strings from all planes (seeded). Models: those that are named; models that `tessera tokenizer
train` learns from the texts (unigram with nmt_nfkc, nfkc_cf and bytes; bpe); and one that the
package learns, with symbols of its own. Ends with 1 if any differs.

Releases up to 0.2.1 decide otherwise between cuts whose scores differ only in the last bit of a
float ("V" "II" or "VI" "I"): with unigram models, in 7 of 1,000 random strings.

    python3 -m venv V && V/bin/pip install "sentencepiece>=0.2.2"
    V/bin/python scripts/check_sentencepiece.py --model llama2.sentencepiece.model --texts FOLDER
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import sentencepiece
from sample_texts import code_points, files, random_strings

CONTEXTS = ["{}", "a{}a", " {} ", "a {}b", "a{} b", "x{}{}  y"]
LEARNED = {
    "unigram": ["--kind", "unigram", "--vocabulary", "4000", "--sentinels", "100"],
    "unigram_unknown": ["--kind", "unigram", "--vocabulary", "2000", "--no-byte-fallback",
                        "--normalizer", "nfkc_cf"],
    "bpe": ["--kind", "bpe", "--vocabulary", "3000"],
    "bpe_nfkc": ["--kind", "bpe", "--vocabulary", "3000", "--no-byte-fallback", "--normalizer",
                 "nmt_nfkc", "--special", "<sep>", "--special", "New York"],
}


def our_ids(binary, model, texts):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            for text in texts:
                f.write(json.dumps({"text": text}) + "\n")
        out = subprocess.run([binary, "tokenizer", "encode", "--tokenizer", model, path],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = out.split("\n")[:-1]
    if len(lines) != len(texts):
        sys.exit(f"{model}: {len(texts)} texts, but {len(lines)} lines of ids")
    return lines


def differences(binary, model, texts, what):
    peer = sentencepiece.SentencePieceProcessor(model_file=model)
    ours = our_ids(binary, model, texts)
    bad = [(text, line, ids) for text, line, ids in zip(texts, ours, peer.encode(texts))
           if line != " ".join(map(str, ids))]
    print(f"  {what}: {len(bad)} of {len(texts)} differ", flush=True)
    for text, line, ids in bad[:3]:
        print(f"    {ascii(text[:80])}\n      ours {line[:200]}\n"
              f"      PyPI {' '.join(map(str, ids))[:200]}")
    return len(bad)


def learned(binary, folder, texts):
    sources = [os.path.join(root, name) for root, _, names in os.walk(texts) for name in names]
    for name, options in LEARNED.items():
        path = os.path.join(folder, name + ".model")
        subprocess.run([binary, "tokenizer", "train", "--out", path, *options, *sources],
                       check=True, stdout=subprocess.DEVNULL)
        yield path
    sentencepiece.SentencePieceTrainer.train(
        input=sources, model_prefix=os.path.join(folder, "theirs"), vocab_size=2000,
        model_type="bpe", split_by_whitespace=False, user_defined_symbols=["<sep>", "of the"],
        minloglevel=2)
    yield os.path.join(folder, "theirs.model")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--binary", default="build/tessera")
    options.add_argument("--model", action="append", default=[])
    options.add_argument("--texts", required=True, help="a folder of text files")
    options.add_argument("--random", type=int, default=100000)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in o.model + list(learned(o.binary, folder, o.texts)):
            print(model, flush=True)
            bad += differences(o.binary, model, list(random_strings(o.random, o.seed)),
                               "random strings")
            bad += differences(o.binary, model, list(files(o.texts)), "texts")
            for context in CONTEXTS:
                bad += differences(o.binary, model, code_points(context),
                                   "every code point as " + ascii(context))
    print("all equal" if bad == 0 else f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares tokenizer.json files with Hugging Face's tokenizers: ids, and the text of the ids.

Tokenizers: those of --tokenizer, and one for each published family, which is built here with the
family's components and trained on the files of --train. Texts: the files of --texts, random strings
(seeded), and byte strings that are not UTF-8, which only must not fail. Ends with 1 if any differs.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install tokenizers==0.23.3
    /tmp/peer/bin/python scripts/check_tokenizers.py --train tests/data/golden_tokenizer/text.txt
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from sample_texts import files, random_strings
from tokenizer_families import FAMILIES, MARKERS, build
from tokenizers import Tokenizer


def strings(count, seed):
    """Random strings with markers of the families anywhere."""
    rng = random.Random(seed)
    extra = MARKERS + [" ", "  ", "\n", "\n\n", "word", "Word", "WORD", "don't", "I'LL", "x\u0301", "\u4e2d\u6587",
                       "\u3072\u3089", "\u30ab\u30bf", "1234567", "\u0661\u0662", "\u2581", "\u2581\u2581", "\U0001f600", "\U0001f468\u200d\U0001f469",
                       "()", "!?", "/", "\r\n", "\t", "\x00", "\x7f", "\ufeff", "\ufb01", "\u0130", "\u00df",
                       "\u212b", "<0x41>", "<0xe4>", "\u01c5", "\u02b0", "\u0e01"]
    for i, text in enumerate(random_strings(count, seed)):
        if i % 2:
            at = rng.randint(0, len(text))
            middle = "".join(rng.choice(extra) for _ in range(rng.randint(1, 12)))
            text = text[:at] + middle + text[at:]
        yield text


def run(binary, verb, tokenizer, path, *options):
    out = subprocess.run([binary, "tokenizer", verb, "--tokenizer", tokenizer, *options, path], check=True,
                         stdout=subprocess.PIPE).stdout
    return out.decode("utf-8", errors="replace").split("\n")[:-1]


def differences(binary, tokenizer, texts, what):
    peer = Tokenizer.from_file(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path, ids_path = os.path.join(folder, "texts.jsonl"), os.path.join(folder, "ids.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        ids = run(binary, "encode", tokenizer, path)
        with open(ids_path, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in ids)
        decoded = [json.loads(line) for line in run(binary, "decode", tokenizer, ids_path, "--json")]
    if len(ids) != len(texts) or len(decoded) != len(texts):
        sys.exit(f"{what}: {len(texts)} texts, but {len(ids)} lines of ids and {len(decoded)} texts")
    bad = []
    for i in range(0, len(texts), 10000):
        expected = [e.ids for e in peer.encode_batch(texts[i:i + 10000], add_special_tokens=False)]
        back = peer.decode_batch(expected, skip_special_tokens=False)
        for text, line, ours, want, expected_text in zip(texts[i:], ids[i:], decoded[i:], expected, back):
            if line != " ".join(map(str, want)):
                bad.append((text, line, " ".join(map(str, want))))
            elif ours != expected_text:
                bad.append((text, ours, expected_text))
    print(f"  {what}: {len(bad)} of {len(texts)} differ", flush=True)
    for text, ours, want in bad[:3]:
        print(f"    {ascii(text[:200])}\n      ours {ascii(ours[:300])}\n      HF   {ascii(want[:300])}")
    return len(bad)


def invalid_bytes(binary, tokenizer, count, seed):
    """Encodes and decodes random bytes: only a failure counts."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bytes.txt")
        with open(path, "wb") as f:
            for _ in range(count):
                f.write(bytes(rng.randrange(256) for _ in range(rng.randint(1, 60))).replace(b"\n", b" ") + b"\n")
        ids = run(binary, "encode", tokenizer, path, "--split", "lines")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in ids)
        run(binary, "decode", tokenizer, path, "--json")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--binary", default="build/tessera")
    options.add_argument("--tokenizer", action="append", default=[], help="a tokenizer.json")
    options.add_argument("--family", action="append", choices=sorted(FAMILIES), help="default: all")
    options.add_argument("--train", action="append", help="text for the built tokenizers")
    options.add_argument("--vocabulary", type=int, default=8000)
    options.add_argument("--texts", action="append", default=[], help="a folder of text files")
    options.add_argument("--random", type=int, default=100000)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    texts = [text for folder in o.texts for text in files(folder)]
    randoms = list(strings(o.random, o.seed))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        found = [(path, path) for path in o.tokenizer]
        for name in (o.family or (sorted(FAMILIES) if o.train else [])):
            path = os.path.join(folder, name + ".json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(build(name, o.train, o.vocabulary), f)
            found.append((name, path))
        for name, path in found:
            print(name)
            bad += differences(o.binary, path, randoms, "random strings")
            if texts:
                bad += differences(o.binary, path, texts, "texts")
            invalid_bytes(o.binary, path, min(1000, o.random), o.seed)
    print("all equal" if bad == 0 else f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/data/golden_sentencepiece: what the sentencepiece package makes of a small text.

    unigram.model, unigram.jsonl    rules of its own, unknown characters, symbols of its own
    bpe.model, bpe.jsonl            as LLaMA: text as it is, bytes for characters without a piece

A case is a line {"text": ..., "ids": [...], "decoded": ...}.

    V/bin/python scripts/sentencepiece_golden.py      # sentencepiece==0.2.3
"""
import contextlib
import io
import json
import os
import random
import tempfile

import sentencepiece
from sample_texts import random_strings

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data",
                      "golden_sentencepiece")
TEXT = os.path.join(FOLDER, "..", "golden_tokenizer", "text.txt")

# Some of NFKC, a character that goes away, a space that is another character, and capitals.
RULES = [("\uff21", "A"), ("\uff42", "b"), ("\ufb01", "fi"), ("a\u0301", "\u00e1"), ("\u00ad", ""),
         ("\u3000", " "), ("\t", " "), ("\n", " "), ("\u2026", "..."), ("Q", "q")]


def write_rules(path):
    with open(path, "w", encoding="utf-8") as f:
        for source, target in RULES:
            f.write(" ".join(f"{ord(c):04X}" for c in source) + "\t" +
                    " ".join(f"{ord(c):04X}" for c in target) + "\n")


def texts():
    rng = random.Random(11)
    with open(TEXT, encoding="utf-8") as f:
        lines = f.read().splitlines()
    words = [word for line in lines for word in line.split()]
    marks = ["<sep>", "of the", "\u2581", "  ", "\t", "\uff21", "\ufb01", "a\u0301", "\u00ad", "Q",
             "\u3000", "\u2026", "\u6f22", "\U0001f600", "x\u00ady", "\ufffd", "\0"]
    yield from lines[:20]
    yield from ["", " ", "  a", "a ", " a  b ", "\n", "a\nb", "<s>", "</s>", "<unk>", "<0x41>"]
    for _ in range(150):
        yield " ".join(rng.choice(words if rng.random() < 0.7 else marks)
                       for _ in range(rng.randint(1, 12)))
    yield from random_strings(100, 12)


def learn(name, **settings):
    with open(TEXT, encoding="utf-8") as f:
        lines = f.read().splitlines()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=name, minloglevel=2,
        hard_vocab_limit=False, **settings)
    with open(os.path.join(FOLDER, name + ".model"), "wb") as f:
        f.write(model.getvalue())


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_rules("rules.tsv")  # the model keeps the name
        learn("unigram", vocab_size=220, normalization_rule_tsv="rules.tsv", pad_id=0, eos_id=1,
              unk_id=2, bos_id=-1, user_defined_symbols=["<sep>", "of the"])
    learn("bpe", vocab_size=420, normalization_rule_name="identity", byte_fallback=True,
          split_digits=True, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    for name in ("unigram", "bpe"):
        peer = sentencepiece.SentencePieceProcessor(model_file=os.path.join(FOLDER, name + ".model"))
        with open(os.path.join(FOLDER, name + ".jsonl"), "w", encoding="utf-8") as f:
            for text in texts():
                ids = peer.encode(text)
                f.write(json.dumps({"text": text, "ids": ids, "decoded": peer.decode(ids)}) + "\n")


if __name__ == "__main__":
    main()

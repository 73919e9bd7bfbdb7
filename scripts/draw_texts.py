#!/usr/bin/env python3
"""Prints random comments, messages and document pages, sampled with a seed, for a review of their language.

A comment is a block of neighboring comment lines of a source under src. A message is a literal there: an error, a log
line or a help text. Very short ones are left out. A page is a Markdown file of docs.
The same seed prints the same texts until one of the files changes.

usage: scripts/draw_texts.py [--seed 1] [--comments 60] [--messages 40] [--pages 10] [--whole]
  --whole   print pages completely, instead of their first 60 lines
"""
import argparse
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_language import C_LIKE, C_TOKEN, ROOT, literal  # noqa: E402

PAGE_LINES = 60


def words(text):
    return len(re.findall(r"[A-Za-z]{2,}", text))


def texts_of(path):
    """Yields (is a comment, line, text) of a source. Neighboring comments or literals are joined."""
    source = path.read_text(encoding="utf-8")
    last, end = None, 0
    for match in C_TOKEN.finditer(source):
        token = match.group()
        comment = token.startswith(("//", "/*"))
        line = source.count("\n", 0, match.start()) + 1
        if token.startswith("'") or source[:match.start()].endswith("#include "):
            continue
        text = re.sub(r"^(///?<?|/\*+) ?|\*/$", "", token) if comment else literal(match)
        gap = source[end:match.start()]
        if last and last[0] == comment and re.fullmatch(r"\s*", gap) and gap.count("\n") <= 1:
            last = (comment, last[1], last[2] + ("\n" if comment else "") + text)
        else:
            if last:
                yield last
            last = (comment, line, text)
        end = match.end()
    if last:
        yield last


def collect():
    comments, messages = [], []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in C_LIKE:
            continue
        for comment, line, text in texts_of(path):
            where = f"{path.relative_to(ROOT)}:{line}"
            if comment and words(text) >= 5:
                comments.append((where, text))
            elif not comment and words(text) >= 4 and " " in text.strip():
                messages.append((where, text))
    pages = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))
    return comments, messages, pages


def sample(rng, texts, count):
    return sorted(rng.sample(texts, min(count, len(texts))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("seed", 1), ("comments", 60), ("messages", 40), ("pages", 10)):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N")
    parser.add_argument("--whole", action="store_true", help="print pages completely")
    asked = parser.parse_args()
    comments, messages, pages = collect()
    rng = random.Random(asked.seed)
    for title, texts, count in (("comments", comments, asked.comments), ("messages", messages, asked.messages)):
        print(f"==== {min(count, len(texts))} of {len(texts)} {title}, seed {asked.seed}")
        for where, text in sample(rng, texts, count):
            print(f"\n{where}")
            print("\n".join("    " + line for line in text.split("\n")))
        print()
    print(f"==== {min(asked.pages, len(pages))} of {len(pages)} pages, seed {asked.seed}")
    for page in sample(rng, pages, asked.pages):
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        shown = lines if asked.whole else lines[:PAGE_LINES]
        print(f"\n---- {page}")
        print("\n".join(shown))
        if len(shown) < len(lines):
            print(f"[{len(lines) - len(shown)} more lines]")


if __name__ == "__main__":
    main()

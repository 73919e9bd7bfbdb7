#!/usr/bin/env python3
"""Checks the language of documents, comments, help texts and messages: terms that are not to be used.

Reads Markdown without its code, and of sources the comments and the texts that people see. Code spans
(`x`), quoted names and identifiers are skipped. The rules are in language_rules.py, the exceptions in
language_exceptions.txt; an exception that excuses nothing is an error.

usage: scripts/check_language.py [--count] [PATH …]     (default: the paths of CLEAN)
  --count   print a table of findings per module and exit with 0
"""
import argparse
import ast
import collections
import fnmatch
import io
import pathlib
import re
import sys
import tokenize

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from language_rules import RULES, STARTS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "scripts" / "language_exceptions.txt"
# Paths that hold to the rules. A path joins the list when it is clean.
CLEAN = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "mkdocs.yml", "tests/docs", "scripts", "bench",
         "src",
         *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("studies/**/*.md"))]
# Written by scripts/generate_docs.sh: their texts are checked where they come from, in src.
GENERATED = {"docs/configuration.md"}
# Their lines quote the terms that are not to be used.
SKIPPED = {"scripts/language_rules.py", "scripts/language_exceptions.txt", "tests/docs/check_language_test.py"}
C_LIKE = {".h", ".cc", ".cu", ".cuh"}
HASH = {".sh", ".yaml", ".yml", ".cmake"}
SUFFIXES = C_LIKE | HASH | {".md", ".py"}

# Text with the line it starts at. `starts`: the rule for the start of a comment applies.
Text = collections.namedtuple("Text", "line text starts")
Hit = collections.namedtuple("Hit", "path line label found advice text")

# Identifiers, code spans, quoted names, addresses, {placeholders}: blanked before terms are compared.
NOT_WORDS = re.compile(
    r"`[^`]*`|https?://\S+|<[a-z_]+/[^>]*>|'[^' ]*'|\"[^\" ]*\"|\{[^{}]*\}|\$\w+"
    r"|(?<![\w-])--?\w[\w-]*|[\w.]*(?:::|_|/)[\w.:/]*|\b[a-z]+[A-Z]\w*|\b\w+\(\)|\b[\w-]+\.(?:h|cc|cu|py|md|sh|yaml)\b"
    r"|\b\w+(?:\.\w+)*=\S*|\b[a-z]+\.[a-z]\w*\b")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def markdown_texts(source):
    """Paragraphs, headings, list items and table rows: all but code blocks."""
    lines, fence, indented, before = [], False, False, ""
    for line in source.split("\n"):
        bare = line.lstrip()
        if bare.startswith(("```", "~~~")):
            fence, line = not fence, ""
        elif fence:
            line = ""
        else:
            depth = len(line) - len(bare)
            indented = bool(bare) and depth >= 4 and (indented or not before.strip())
            if indented:
                line = ""
            elif not bare:
                indented = False
        before = line if bare else ""
        # The text of a link is read, its address is not.
        lines.append(re.sub(r"\]\([^)]*\)", "]", line))
        if indented:
            before = ""
    for first, text in paragraphs(lines):
        yield Text(first, text, False)


def paragraphs(lines):
    """(number of the first line, lines joined) of what no empty line divides."""
    start, block = 0, []
    for number, line in enumerate(lines + [""], 1):
        if line.strip():
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, "\n".join(block)
            block = []


C_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.S)


def c_texts(source):
    """Comments, neighboring lines joined, and literals with a blank, neighbors joined."""
    pending, end = None, -1

    def line_of(at):
        return source.count("\n", 0, at) + 1

    for match in C_TOKEN.finditer(source):
        token = match.group()
        comment = token.startswith(("//", "/*"))
        if not comment and (token.startswith("'") or source[source.rfind("\n", 0, match.start()) + 1:].startswith("#include")):
            continue
        body = re.sub(r"^\s*(///?<?|/\*+|\*/?|\*+/)", "", token, flags=re.M) if comment else literal(match)
        gap = source[end:match.start()] if pending else None
        if pending and pending[0] == comment and re.fullmatch(r"\s*", gap) and gap.count("\n") <= 1:
            pending = (comment, pending[1], pending[2] + "\n" * gap.count("\n") + body)
        else:
            if pending:
                yield from emit(*pending)
            pending = (comment, line_of(match.start()), body)
        end = match.end()
    if pending:
        yield from emit(*pending)


def literal(match):
    if match.group(2) is not None:
        return match.group(2)
    return re.sub(r"\\[nt]", " ", match.group()[1:-1]).replace('\\"', '"')


def emit(comment, line, text):
    if comment or len(re.findall(r"[A-Za-z]{2,}", text)) > 1:
        yield Text(line, text, True)


def python_texts(source):
    """Comments and literals with a blank in them, docstrings among these."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        text = token.string
        if token.type == tokenize.COMMENT and not text.startswith("#!"):
            yield Text(token.start[0], text.lstrip("# "), True)
        elif token.type == tokenize.STRING and " " in text.strip("'\" "):
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError):  # an f-string
                value = text.lstrip("rRbBfF").strip("'\"")
            if isinstance(value, str) and not re.search(r"[\\^][A-Za-z(\[]", value):
                yield Text(token.start[0], value, True)


def hash_texts(source):
    """Comments of shell, YAML and CMake, and the texts that shell prints."""
    before = None
    for number, line in enumerate(source.split("\n"), 1):
        found = re.match(r"^\s*#(?!!)\s?(.*)", line) or re.search(r"\s#\s(.*)", line)
        if found:
            whole = re.match(r"^\s*#", line) is not None
            # A comment that goes over several lines starts once.
            yield Text(number, found.group(1), not (whole and before == number - 1))
            before = number if whole else None
        for command in re.finditer(r"\b(?:echo|printf|say|stop|die|message)\b[^\"']*(\"[^\"]*\"|'[^']*')", line):
            yield Text(number, command.group(1)[1:-1], True)


def texts(path, source):
    if path.suffix == ".md":
        return markdown_texts(source)
    if path.suffix in C_LIKE:
        return c_texts(source)
    if path.suffix == ".py":
        return python_texts(source)
    return hash_texts(source)


def hits_of(text):
    """(offset, rule) of every match that no context of its rule allows."""
    plain = NOT_WORDS.sub(blank, text.text)
    # A line's end is a blank; the number of characters stays.
    flat = re.sub(r"\n", " ", plain)
    for rule in RULES:
        allowed = [m.span() for a in rule.allowed for m in a.finditer(re.sub(r"[\n]", " ", text.text))]
        for match in rule.pattern.finditer(flat):
            if not any(a <= match.start() and match.end() <= b for a, b in allowed):
                yield match.start(), rule, match.group()
    start = re.sub(r"\n", " ", text.text).lstrip()
    if text.starts and (match := STARTS.pattern.match(start)) and not re.match(r"(?i)(what|who)\b[^.]*\?", start):
        yield 0, STARTS, match.group()


def check_file(path, root):
    source = path.read_text(encoding="utf-8", errors="replace")
    name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    lines = source.split("\n")
    found = []
    for text in texts(path, source):
        for offset, rule, word in hits_of(text):
            line = text.line + text.text.count("\n", 0, offset)
            here = lines[line - 1].strip() if line <= len(lines) else ""
            found.append(Hit(name, line, rule.label, " ".join(word.split()), rule.advice, here))
    return sorted(set(found), key=lambda hit: hit.line)


class Exceptions:
    """Lines `path pattern | rule | part of the line | reason`."""

    def __init__(self, path):
        self.lines = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split("|")]
            if len(parts) != 4 or not all(parts):
                sys.exit(f"{path.name}:{number}: expected 'path | rule | part of the line | reason'")
            self.lines.append((number, parts))
        self.used = set()

    def excuse(self, hit):
        for number, (path, label, part, _) in self.lines:
            if fnmatch.fnmatch(hit.path, path) and label == hit.label and part in hit.text:
                self.used.add(number)
                return True
        return False

    def unused(self, paths):
        """Exceptions for files that were read and in which they excuse nothing."""
        return [(number, parts) for number, parts in self.lines
                if number not in self.used and any(fnmatch.fnmatch(p, parts[0]) for p in paths)]


def files_under(root, names):
    for name in names:
        path = root / name
        if not path.exists():
            sys.exit(f"check_language.py: {name}: no such file or folder")
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
            known = file.suffix in SUFFIXES or file.name == "CMakeLists.txt"
            if file.is_file() and known and relative not in GENERATED | SKIPPED and "__pycache__" not in relative:
                yield file


def module_of(name):
    parts = name.split("/")
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else name


def print_table(hits):
    counts = collections.Counter((module_of(h.path), h.label) for h in hits)
    modules = sorted({m for m, _ in counts})
    labels = sorted({label for _, label in counts}, key=lambda w: -sum(counts[m, w] for m in modules))
    width = max([len(w) for w in labels] + [5])
    shown = [m.removeprefix("src/") for m in modules]
    print(" " * width, *shown, "all", sep="  ")
    for label in labels:
        row = [counts[m, label] for m in modules]
        print(f"{label:{width}}", *(f"{n or '.':>{len(s)}}" for n, s in zip(row, shown)), f"{sum(row):>3}", sep="  ")
    total = [sum(counts[m, w] for w in labels) for m in modules]
    print(f"{'all':{width}}", *(f"{n:>{len(s)}}" for n, s in zip(total, shown)), f"{sum(total):>3}", sep="  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", action="store_true", help="print a table of findings per module")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder that the paths start at")
    parser.add_argument("--exceptions", type=pathlib.Path, default=EXCEPTIONS, help="file of exceptions")
    parser.add_argument("paths", nargs="*", help="files and folders (default: those that are clean)")
    options = parser.parse_args()
    exceptions = Exceptions(options.exceptions)
    files = list(files_under(options.root, options.paths or CLEAN))
    hits = [h for f in files for h in check_file(f, options.root) if not exceptions.excuse(h)]
    if options.count:
        print_table(hits)
        return 0
    for h in hits:
        print(f"{h.path}:{h.line}: {h.found} → {h.advice}")
    unused = exceptions.unused([str(f.relative_to(options.root)) for f in files])
    for number, (path, label, part, _) in unused:
        print(f"{options.exceptions.name}:{number}: '{label}' in {path} with '{part}' excuses nothing. Remove the line.")
    if not hits and not unused:
        print(f"{len(files)} files: nothing found")
    return 1 if hits or unused else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Prints figures about the structure of a source tree: its size, casts, comments, small files, headers with
one user, and its largest classes. docs/decisions/recut.md compares two trees by them.

usage: scripts/structure_figures.py [ROOT …]     (default: this tree)
"""
import collections
import pathlib
import re
import sys

import check_modules

SMALL_LINES = 30
# Headers that only list others: a user of one uses all that it lists.
INDEX_HEADERS = ("ir/ops.h",)


def code_lines(path):
    """(lines that are not blank, lines that are only a comment)."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    return sum(bool(line) for line in lines), sum(line.startswith("//") for line in lines)


def users_of_headers(src, files):
    """{header: sources and headers that include it, without the source of the same name}."""
    users = collections.defaultdict(set)
    for path in files:
        for header in re.findall(r'#include "([^"]+)"', path.read_text(errors="replace")):
            if (src / header).with_suffix("") != path.with_suffix(""):
                users[header].add(path)
    return {path: users[str(path.relative_to(src))] for path in files if path.suffix == ".h"}


def one_user_headers(root, src, files):
    """Yields the number of headers with at most one user, and how many of them are of each kind."""
    users = users_of_headers(src, files)
    few = [path for path, own in users.items() if len(own) <= 1]
    yield "headers with at most one user", len(few)
    indexed = [p for p in few if any(src / i in users[p] for i in INDEX_HEADERS)]
    kernels = [p for p in few if re.search(r"kernels/cpu/\w+_(simd|rows|head)\.h$", str(p))]
    rest = [p for p in few if p not in indexed and p not in kernels]
    tests = " ".join(p.read_text(errors="replace") for p in (root / "tests").rglob("*")
                     if p.suffix in check_modules.SUFFIXES)
    tested = [p for p in rest if f'"{p.relative_to(src)}"' in tests]
    yield "  listed by an index header", len(indexed)
    yield "  kernels per instruction set", len(kernels)
    yield "  others that a test includes", len(tested)
    yield "  others", len(rest) - len(tested)


def largest_classes(src, most):
    """The classes with the most methods, and those with the most members."""
    sizes = check_modules.class_sizes(src)
    by_methods = sorted(sizes.items(), key=lambda c: -c[1][1])[:most]
    by_members = sorted(sizes.items(), key=lambda c: -c[1][2])[:most]
    return ([f"{name} {methods}" for name, (_, methods, _) in by_methods],
            [f"{name} {members}" for name, (_, _, members) in by_members])


def figures(root):
    src = root / "src"
    files = sorted(p for p in src.rglob("*") if p.suffix in check_modules.SUFFIXES)
    if not files:
        sys.exit(f"{src}: no source found")
    lines = {path: len(path.read_text(errors="replace").splitlines()) for path in files}
    casts = sum(path.read_text(errors="replace").count("static_cast<") for path in files)
    total = sum(lines.values())
    yield "files, lines", f"{len(files)}, {total}"
    yield "static_cast, per 1,000 lines", f"{casts}, {1000 * casts / total:.1f}"
    for suffix in (".cc", ".cu"):
        counts = [code_lines(p) for p in files if p.suffix == suffix]
        code, comments = (sum(column) for column in zip(*counts)) if counts else (1, 0)
        yield f"comment share of {suffix}", f"{100 * comments / code:.1f} %"
    yield f"files of at most {SMALL_LINES} lines", sum(n <= SMALL_LINES for n in lines.values())
    yield from one_user_headers(root, src, files)
    methods, members = largest_classes(src, 3)
    yield "most methods", ", ".join(methods)
    yield "most members", ", ".join(members)


def main():
    for root in sys.argv[1:] or [pathlib.Path(__file__).parents[1]]:
        print(root)
        for name, figure in figures(pathlib.Path(root)):
            print(f"  {name:<32} {figure}")


if __name__ == "__main__":
    main()

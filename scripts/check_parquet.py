#!/usr/bin/env python3
"""Compares our reader of Parquet with pyarrow (PyPI) on random tables.

usage: check_parquet.py TESSERA [--count N] [--seed S]     random tables, read by `tessera data rows`
       check_parquet.py --goldens FOLDER                   write the small files that the unit tests read

Each table has random columns (texts, numbers, flags, lists and structs of them, with nulls), codec, page
version, page size, row groups and encodings. Every row must be equal.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "zstd", "lz4"]  # pyarrow writes LZ4_RAW for lz4
LETTERS = "abcdefgh äöü€😀\n\"\\"


def text(r):
    return "".join(r.choice(LETTERS) for _ in range(r.choice([0, 1, 3, 20, 200])))


def scalar(r):
    """A type, a function that makes a value of it, and an encoding without a dictionary (None: any)."""
    return r.choice([
        (pa.string(), text, r.choice([None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])),
        (pa.large_string(), text, None),
        (pa.int64(), lambda r: r.randint(-2**62, 2**62), r.choice([None, "PLAIN", "DELTA_BINARY_PACKED"])),
        (pa.int32(), lambda r: r.randint(-2**31, 2**31 - 1), r.choice([None, "PLAIN", "DELTA_BINARY_PACKED"])),
        (pa.uint32(), lambda r: r.randint(0, 2**32 - 1), None),
        (pa.float64(), lambda r: r.gauss(0, 1), r.choice([None, "PLAIN"])),
        (pa.bool_(), lambda r: r.random() < 0.5, r.choice([None, "PLAIN", "RLE"])),
    ])


def nested(r, depth):
    """A type and a function that makes a value of it, perhaps None."""
    share = r.choice([0, 0, 0.2, 0.9])

    def maybe(make):
        return lambda r: None if r.random() < share else make(r)

    kind = r.random()
    if depth == 0 or kind < 0.5:
        type_, make, _ = scalar(r)
        few = [make(r) for _ in range(3)] if r.random() < 0.4 else None
        return type_, maybe((lambda r: r.choice(few)) if few else make)
    if kind < 0.75:
        of, make = nested(r, depth - 1)
        return pa.list_(of), maybe(lambda r: [make(r) for _ in range(r.choice([0, 1, 2, 5]))])
    parts = [nested(r, depth - 1) for _ in range(r.randint(1, 3))]
    return (pa.struct([(f"f{i}", p[0]) for i, p in enumerate(parts)]),
            maybe(lambda r: {f"f{i}": p[1](r) for i, p in enumerate(parts)}))


def random_file(r, path):
    rows = r.choice([0, 1, 7, 100, 1000])
    columns, encodings = {}, {}
    for i in range(r.randint(1, 4)):
        name = f"c{i}"
        if r.random() < 0.4:
            type_, make, encoding = scalar(r)
            if encoding:
                encodings[name] = encoding
        else:
            type_, make = nested(r, 3)
        columns[name] = pa.array([make(r) for _ in range(rows)], type_)
    table = pa.table(columns)
    options = {"compression": r.choice(CODECS), "data_page_version": r.choice(["1.0", "2.0"]),
               "data_page_size": r.choice([64, 1000, 1 << 20]), "row_group_size": r.choice([3, 64, 1 << 20]),
               "write_statistics": r.random() < 0.5}
    if encodings:
        options |= {"use_dictionary": [c for c in columns if c not in encodings], "column_encoding": encodings}
    else:
        options["use_dictionary"] = r.random() < 0.6
    if rows == 1000 and options["row_group_size"] == 3:
        options["row_group_size"] = 64
    pq.write_table(table, path, **options)
    return table.to_pylist(), options


def read_by(tessera, path):
    out = subprocess.run([tessera, "data", "rows", path], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.split("\n") if line]


def check(a):
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.count):
            r = random.Random(f"{a.seed}.{i}")
            path = str(Path(folder) / f"{i}.parquet")
            want, options = random_file(r, path)
            got = read_by(a.tessera, path)
            if got != want:
                first = next((k for k, (x, y) in enumerate(zip(got, want)) if x != y), min(len(got), len(want)))
                print(f"table {i} of seed {a.seed} ({options}): {len(got)} rows, expected {len(want)}; row {first}:")
                print(f"  ours    {got[first] if first < len(got) else None}")
                print(f"  pyarrow {want[first] if first < len(want) else None}")
                return 1
    print(f"{a.count} tables: every row equals pyarrow's")
    return 0


def goldens(folder):
    """One file per codec and page version, with the same rows, and one per encoding."""
    rows = [{"text": "The first document.", "n": 1, "ok": True, "x": 0.5,
             "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}],
             "tags": ["a", None, "b"]},
            {"text": "", "n": None, "ok": None, "x": None, "messages": [], "tags": []},
            {"text": None, "n": -7, "ok": False, "x": -1e300, "messages": None, "tags": None},
            {"text": "Größe €😀\nline", "n": 2**40, "ok": True, "x": 2.0,
             "messages": [{"role": "system", "content": None}, None, {"role": "user", "content": ""}], "tags": ["a"]}]
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([("text", pa.string()), ("n", pa.int64()), ("ok", pa.bool_()), ("x", pa.float64()),
                        ("messages", pa.list_(message)), ("tags", pa.list_(pa.string()))])
    table = pa.Table.from_pylist(rows, schema=schema)
    folder.mkdir(parents=True, exist_ok=True)
    for codec in CODECS:
        for version in ["1.0", "2.0"]:
            pq.write_table(table, folder / f"{codec}_{version[0]}.parquet", compression=codec,
                           data_page_version=version, row_group_size=3)
    plain = table.select(["text", "n"])
    for encoding in ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]:
        pq.write_table(plain, folder / f"{encoding.lower()}.parquet", use_dictionary=False,
                       column_encoding={"text": encoding, "n": "DELTA_BINARY_PACKED"})
    pq.write_table(plain, folder / "brotli.parquet", compression="brotli")
    import datetime
    pq.write_table(pa.table({"text": ["a"], "day": [datetime.date(2026, 1, 2)]}), folder / "date.parquet")
    (folder / "rows.jsonl").write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in rows))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("tessera", nargs="?")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", default="1")
    p.add_argument("--goldens", type=Path)
    a = p.parse_args()
    if a.goldens:
        goldens(a.goldens)
        return 0
    return check(a)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the valid seeds of checkpoint and safetensors beside this file."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ONE = safetensors({"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 1], 0, 8),
                   "b": entry("BF16", [3], 8, 14), "c": entry("BOOL", [], 14, 15)}, bytes(15))
EMPTY = safetensors({"a": entry("F32", [0, 4], 0, 0)}, b"")
INDEX = json.dumps({"metadata": {"total_size": 15},
                    "weight_map": {n: "one.safetensors" for n in "abc"}}).encode()


def piece(begin, end, file, offset, size, checksum):
    return {"begin": begin, "end": end, "file": file, "offset": offset, "bytes": size,
            "xxh3": checksum}


def index(checksum16, tokenizer):
    tensors = [
        {"name": "a", "dtype": "f32", "shape": [2, 4],
         "pieces": [piece([0, 0], [1, 4], 0, 0, 16, checksum16),
                    piece([1, 0], [2, 4], 1, 64, 16, checksum16)]},
        {"name": "b", "dtype": "bf16", "shape": [8],
         "pieces": [piece([0], [8], 0, 64, 16, checksum16)]},
    ]
    root = {"format": "tessera checkpoint", "format_version": 1, "version": "0.1.0", "step": 20,
            "tokens": 1, "ranks": 2, "model": {"family": "neox"}, "config": {}, "state": None,
            "tokenizer": tokenizer,
            "files": [{"name": "pieces-0.bin", "bytes": 512}, {"name": "pieces-1.bin", "bytes": 512}],
            "tensors": tensors}
    return json.dumps(root)[:-1].encode()


def main():
    import xxhash  # PyPI
    zeros = f"{xxhash.xxh3_64_intdigest(bytes(16)):016x}"
    tokenizer = {"bytes": 2, "xxh3": f"{xxhash.xxh3_64_intdigest(b'{}'):016x}"}
    body = index(zeros, tokenizer)
    whole = body + b',\n"xxh3":"%016x"}\n' % xxhash.xxh3_64_intdigest(body)
    lies = {
        "type": (b'"bf16"', b'"bf17"'), "shape": (b"[2, 4]", b"[4611686018427387904, 64]"),
        "outside": (b'"begin": [0], "end": [8]', b'"begin": [1], "end": [9]'),
        "order": (b'"name": "b"', b'"name": "A"'), "overlap": (b'"begin": [1, 0]', b'"begin": [0, 0]'),
        "elsewhere": (b"pieces-1.bin", b"../20/pieces"), "missing": (b"pieces-1.bin", b"pieces-2.bin"),
        "beyond": (b'"offset": 64', b'"offset": 511'), "negative": (b'"offset": 64', b'"offset": -4'),
        "file": (b'"file": 1', b'"file": 7'), "newer": (b'"format_version": 1', b'"format_version": 2'),
        "cut": (b'"bytes": 512', b'"bytes": 513'), "tokenizer": (b'{"bytes": 2', b'{"bytes": 3'),
        "damaged": (zeros.encode(), b"0" * 16), "list": (b'"tensors": [', b'"tensors": null, "x": ['),
        "checksum": (zeros.encode(), b"x"), "kind": (b'"step": 20', b'"step": "20"'),
        "text": (b'"version": "0.1.0"', b'"version": 1'), "extent": (b"[8]", b"[8.5]"),
    }
    seeds = {"safetensors/one": ONE, "safetensors/empty": EMPTY,
             "safetensors/indexed": b"index:" + INDEX + b"\n--\n" + ONE,
             "checkpoint/two_pieces": body, "checkpoint/no_tokenizer": index(zeros, None),
             "checkpoint/raw": b"raw:" + whole}
    for name, (old, new) in lies.items():
        assert old in body, name
        seeds[f"checkpoint/lie_{name}"] = body.replace(old, new, 1)
    for name, data in seeds.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

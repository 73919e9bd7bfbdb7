#!/usr/bin/env python3
"""Writes the valid seeds of checkpoint_fuzz and safetensors_fuzz beside this file."""
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
    seeds = {"safetensors_fuzz/one": ONE, "safetensors_fuzz/empty": EMPTY,
             "safetensors_fuzz/indexed": b"index:" + INDEX + b"\n--\n" + ONE,
             "checkpoint_fuzz/two_pieces": body, "checkpoint_fuzz/no_tokenizer": index(zeros, None),
             "checkpoint_fuzz/raw": b"raw:" + whole}
    for name, data in seeds.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the valid seeds of checkpoint and safetensors, and those of tokenizers whose words, added
tokens or rules a fuzzer does not come upon by itself, beside this file."""
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


SPLITS = {  # as the published files have them, and src/data/tokenizer_json.cc
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
              r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
WORDS = ("we'll'S a\u00e9 12345 x1'\u017f... \r\n\n  y\u3000z \u0663\u0664!?\n\n \t'VE 'rE 'd'  ").encode()


def token(number, content, **more):
    keys = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": number, "content": content, **{k: more.get(k, False) for k in keys}}


def tokenizer(text, added=(), split=None, normalizer=None, **model):
    letters = "\u00ef\u00bf\u00bdabelnstxyzv'1234.!?\u0120\u010a\u010d\u00c3\u00a9"
    vocabulary = {c: i for i, c in enumerate(letters)}
    for word in ("\u0120a", "ll", "12", "\u0120\u0120"):
        vocabulary[word] = len(vocabulary)
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": split is None}
    before = level if split is None else {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}, level]}
    root = {"added_tokens": [token(len(vocabulary) + i, *a[:-1], **a[-1]) for i, a in enumerate(added)],
            "normalizer": normalizer, "pre_tokenizer": before,
            "model": {"type": "BPE", "vocab": vocabulary, **model,
                      "merges": [["\u0120", "a"], ["l", "l"], ["1", "2"], ["\u0120", "\u0120"]]}}
    return json.dumps(root).encode() + b"\0" + text


def tokenizers():
    nfc = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    words = [("<a>", {"single_word": True}), ("<a>b", {"lstrip": True}), ("<a", {"rstrip": True}),
             ("x", {"single_word": True, "lstrip": True, "rstrip": True}), ("<|endoftext|>", {}),
             ("</s>", {"special": True}), ("\u00e9", {"normalized": True, "lstrip": True})]
    alone = [("<s>", {"single_word": True, "rstrip": True}), ("<e>", {"lstrip": True})]
    text = ("<a>  <a>b \u3000<a>b\u3000<a \u00a0x x  xx ax x\u00e9 \u00e9<a> <a><|endoftext|>  </s>"
            " <|endoftext <a>\u0301").encode()
    ends = b"<s> a<s> <s>a \xff<s>\xff \xe2\x80<s> \xe2\x80 <e>\xe2\x80\x80<e> <e <s"
    whole = json.loads(tokenizer(b"")[:-1])
    named = lambda change: json.dumps({**whole, **change}).encode() + b"\0a"
    seeds = {name: tokenizer(WORDS, split=split) for name, split in SPLITS.items()}
    seeds |= {f"{name}_added": tokenizer(WORDS + text, words, split, nfc) for name, split in SPLITS.items()}
    seeds["added_words"] = tokenizer(text, words, normalizer=nfc)
    seeds["added_twice"] = tokenizer(text, [*words, ("x", {}), ("", {})])
    seeds["added_one_first"] = tokenizer(ends, alone)
    seeds["whole_words"] = tokenizer(b" all 12 a", ignore_merges=True)
    seeds["no_type"] = tokenizer(b"a", type=None)
    seeds["fallback"] = tokenizer(b"a", byte_fallback=True)
    seeds["dropout"] = tokenizer(b"a", dropout=0.5)
    seeds["flag"] = tokenizer(b"a", ignore_merges=1)
    seeds["split_other"] = tokenizer(b"a", split="a+")
    seeds["split_prefix"] = named({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": SPLITS["qwen2"]}, "behavior": "Isolated"},
        {"type": "ByteLevel"}]}})
    seeds["normalizer_other"] = named({"normalizer": {"type": "NFKC"}})
    seeds["normalizers_none"] = named({"normalizer": {"type": "Sequence", "normalizers": 1}})
    seeds["no_pre_tokenizer"] = named({"pre_tokenizer": None})
    seeds["added_no_list"] = named({"added_tokens": 3})
    seeds["added_no_text"] = named({"added_tokens": [{"id": 1, "content": 2}]})
    seeds["added_null"] = named({"added_tokens": None})
    return {f"tokenizer/{name}": seed for name, seed in seeds.items()}


def pieces_with_rules():
    """The seed `bpe` with normalisers that leave the space between words alone, or do not."""
    import io
    import tempfile
    import sentencepiece  # PyPI
    from sentencepiece import sentencepiece_model_pb2 as proto
    data = (HERE / "sentencepiece/bpe").read_bytes()
    head, seeds = 1 + data[0], {}
    rules = {"kept": {"B": "b", "aB": "ab", "\uff21": "a", "cde": "a b"}, "beside": {"B": "b", "b": " a"},
             "within": {"a b": "ab"}, "before": {" b": "b"}, "removed": {"aba": ""}}
    for name, changes in rules.items():
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            for old, new in changes.items():
                file.write(" ".join(f"{ord(c):X}" for c in old) + "\t" +
                           " ".join(f"{ord(c):X}" for c in new) + "\n")
            file.flush()
            out = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(["ab ba cde fgh"] * 9), model_writer=out, model_type="char",
                vocab_size=12, hard_vocab_limit=False, normalization_rule_tsv=file.name, minloglevel=2)
        learned, model = proto.ModelProto(), proto.ModelProto()
        learned.ParseFromString(out.getvalue())
        model.ParseFromString(data[head:])
        model.normalizer_spec.precompiled_charsmap = learned.normalizer_spec.precompiled_charsmap
        text = "ab aBa  cde \uff21 b aba".encode()
        seeds[f"sentencepiece/rules_{name}"] = bytes([len(text)]) + text + model.SerializeToString()
    return seeds


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
    seeds |= tokenizers() | pieces_with_rules()
    for name, (old, new) in lies.items():
        assert old in body, name
        seeds[f"checkpoint/lie_{name}"] = body.replace(old, new, 1)
    for name, data in seeds.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

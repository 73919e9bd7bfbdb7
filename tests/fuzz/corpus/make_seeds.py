#!/usr/bin/env python3
"""Writes the seeds of checkpoint, safetensors, relay, task and hf_config, and those of tokenizers whose
words, added tokens or rules a fuzzer does not come upon by itself, next to this file."""
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


def steps():
    """Components before and after a model, as members of the file."""
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    expressions = [r"(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+", r"[\p{P}&&[^']]", r"\bthe\b|\x{e9}", r"^a|b$", r"(?<=a)b{1,2}?"]
    splits = [{"type": "Split", "pattern": {"Regex": e}, "behavior": b, "invert": b == "Contiguous"}
              for b, e in zip(behaviors, expressions)]
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {"<unk>": 0, "\u2581": 1, "a": 2, "\u2581a": 3, "##a": 4, "a</w>": 5,
                                      **{f"<0x{b:02X}>": 6 + b for b in range(256)}},
             "merges": [["\u2581", "a"]], "unk_token": "<unk>", "fuse_unk": True}
    back = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    forms = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")]
    strip = {"type": "Strip", "strip_left": True, "strip_right": False}
    sequence = lambda key, members: {"type": "Sequence", key: members}
    return {
        "split_behaviors": {"pre_tokenizer": sequence("pretokenizers", [*splits, level])},
        "split_kinds": {"pre_tokenizer": sequence("pretokenizers", [
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"},
            {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, level])},
        "split_hostile": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Removed"}},
        "byte_fallback": {"model": {**model, "byte_fallback": True}, "pre_tokenizer": metaspace,
                          "normalizer": sequence("normalizers", [{"type": "Prepend", "prepend": "\u2581"}, spaces]),
                          "decoder": sequence("decoders", back)},
        "affixes": {"model": {**model, "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"},
                    "pre_tokenizer": metaspace, "decoder": metaspace},
        "normalizers": {"normalizer": sequence("normalizers", [*forms, strip])},
    }


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
    for name, change in steps().items():
        seeds[name] = json.dumps({**whole, **change}).encode() + b"\0" + WORDS + text
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


def model_index(change=lambda root: None):
    """A whole model of one layer, all of whose tensors are the same zeros."""
    f, m, v = 8, 4, 4
    layer = {"attn.out.bias": [f], "attn.out.weight": [f, 1, f], "attn.qkv.bias": [1, 3, f],
             "attn.qkv.weight": [1, 3, f, f], "mlp.down.bias": [f], "mlp.down.weight": [f, m],
             "mlp.up.bias": [m], "mlp.up.weight": [m, f], "norm1.bias": [f], "norm1.gain": [f],
             "norm2.bias": [f], "norm2.gain": [f]}
    shapes = {"embed.weight": [v, f], "head.norm.bias": [f], "head.norm.gain": [f], "head.weight": [v, f],
              **{"layer0." + name: shape for name, shape in layer.items()}}
    tensors = []
    for name, shape in sorted(shapes.items()):
        size = 2
        for n in shape:
            size *= n
        tensors.append({"name": name, "dtype": "bf16", "shape": shape,
                        "pieces": [piece([0] * len(shape), shape, 0, 0, size, "0" * 16)]})
    root = {"format": "tessera checkpoint", "format_version": 1, "version": "0.1.0", "step": 1, "tokens": 1,
            "ranks": 1, "model": {"family": "neox", "layers": 1, "hidden": f, "heads": 1, "feed_forward": m,
                                  "vocabulary": v, "vocabulary_multiple": 1, "context": 16},
            "config": {"lora": {"rank": 0}}, "state": {"loss_scale": 1.0}, "tokenizer": None,
            "files": [{"name": "pieces-0.bin", "bytes": 512}], "tensors": tensors}
    change(root)
    return json.dumps(root)[:-1].encode()


def models():
    def tensor(key, value):
        return lambda root: root["tensors"][0].update({key: value})
    changes = {"model": lambda root: None, "model_rank": lambda root: root.update(ranks=0),
               "model_section": lambda root: root.update(state=[]),
               "model_name": tensor("name", "\n"), "model_dimensions": tensor("shape", [1] * 17),
               "model_zeros": tensor("shape", [0, 1 << 40, 1 << 40]),
               "model_missing": lambda root: root["tensors"].pop(),
               "model_offset": lambda root: root["tensors"][0]["pieces"][0].update(offset=1),
               "model_integers": tensor("dtype", "u16")}
    sizes = {"layers": 0, "hidden": 7, "heads": 3, "kv_heads": 2, "feed_forward": -1, "vocabulary": 0,
             "vocabulary_multiple": 0, "context": 1 << 30, "encoder_layers": 1, "rope_theta": 0,
             "rotary_pct": 0.1, "norm_epsilon": 0, "relative_buckets": 5, "head_width": 1 << 50}
    for key, value in sizes.items():
        changes["model_" + key] = lambda root, k=key, v=value: root["model"].update({k: v})
    for key, value in {"kv_heads": 3, "rotary_pct": 2, "rope_scaling": {"factor": 0.5}}.items():
        changes["model_llama_" + key] = lambda root, k=key, v=value: root["model"].update(
            {"family": "llama", "rotary_pct": 1, k: v})
    for key, value in {"relative_buckets": 5, "relative_distance": 1, "encoder_layers": 0}.items():
        changes["model_t5_" + key] = lambda root, k=key, v=value: root["model"].update(
            {"family": "t5", "encoder_layers": 1, k: v})
    return {"checkpoint/" + name: model_index(change) for name, change in changes.items()}


def relays():
    """Output of mpirun, srun and ranks, after a byte with the size of each read."""
    lines = {
        "mpirun": ["[1,0]<stdout>:step 1", "[1,12]<stderr>:warning", "[1,", "[1,x]<std", "[1,2]<stdin>:x",
                   "mpirun noticed that process rank 1 with PID 0 on node n02 exited on signal 9 (Killed).",
                   "process rank 99999999999 exited on signal 9 (Killed)", "process rank 1 exited on signal",
                   "process rank 1 exited on signal 9 (Killed", "------", ""],
        "srun": ["  5: text", "12:", "srun: error: n02: task 1: Killed", "srun: error: n02: task x: Killed",
                 "srun: error: n02: task 1: ", "srun: error:  task", "srun: Job step aborted: waiting", "5 text"],
        "messages": ['{"kind":"hello","token":"t","host":"h","version":"0.1.0","rank":1,"ranks":2,"pid":3,'
                     '"memory_bytes":4,"clock_s":5.5}', '{"kind":"facts","text":"{}"}',
                     '{"kind":"beat","text":"step","step":7,"since_s":2,"waits":true,"resident_bytes":1}',
                     '{"kind":"fail","text":"x"}', '{"kind":"bye"}', '{"kind":"pulse"}', '{"kind":"heard"}',
                     '{"kind":"stop"}', '{"kind":"end"}', '{"kind":"other"}', '{"kind":1}', "{", "[]"],
        "long": ["x" * 3000, "y" * 1000, "z" * 999, "no end"],
    }
    return {"relay/" + name: b"\x03" + "\n".join(said).encode() for name, said in lines.items()}


def tasks():
    def seed(task, examples, written="so it is\n#### 1,234"):
        return (task + "\n===\n" + "\n".join(json.dumps(e) for e in examples) + "\n===\n" + written).encode()
    choice = 'kind: choice\ndata: x\nform: "{q}\\nAnswer: {response}"\nresponse: "{o}"\ngold: g\n'
    match = 'kind: exact_match\ndata: x\nform: "{q} {response}"\nresponse: "{a}"\nanswer: "{a}"\n'
    examples = [{"q": "one", "o": ["a", "b"], "g": 1}, {"q": "two", "o": ["c", "d"], "g": 0}]
    answers = [{"q": "one", "a": "1,234"}, {"q": "two", "a": 5}]
    seeds = {
        "choice": seed(choice + "shots: 1\n", examples), "unknown": seed(choice + "golds: 1\n", examples),
        "gold": seed(choice, [{**examples[0], "g": 2}]), "uneven": seed(
            choice.replace("{q}", "{q}{p}"), [{**examples[0], "p": ["x"]}]),
        "empty_list": seed(choice, [{**examples[0], "o": []}]), "no_key": seed(choice, [{"q": "x"}]),
        "empty_object": seed(choice, [{}]), "no_object": seed(choice, [3]), "none": seed(choice, []),
        "last_word": seed('kind: last_word\ndata: x\nform: "{t}{response}"\nresponse: "{w}"\n',
                          [{"t": "the quick", "w": "fox"}]),
        "match": seed(match + "extract: '#### (-?[0-9.,]+)'\nstop: [x]\nignore: [',']\n", answers),
        "whole_match": seed(match + "extract: '[0-9]+'\n", answers),
        "no_match": seed(match + "extract: '(b)?(a)'\n", answers, "a"),
        "nested": seed(match + "extract: '" + "(" * 300 + ")" * 300 + "'\n", answers),
        "open": seed(match + "extract: '(a'\n", answers), "ahead": seed(match + "extract: '(?=a)'\n", answers),
        "long": seed(match + "extract: '" + "a" * 5000 + "'\n", answers),
        "repeated": seed(match + "extract: '(a*)*b'\n", answers, "a" * 5000),
        "shots": seed(match + "shots: 1001\n", answers), "tokens": seed(match + "max_tokens: 0\n", answers),
        "answer_empty_list": seed(match.replace('response: "{a}"', 'response: "{q}"'), [{"q": "one", "a": []}]),
        "no_response": seed(match.replace("{response}", ""), answers), "lacks": seed("kind: choice\n", [])}
    shipped = HERE.parent.parent.parent / "configs/tasks"
    lines = {"arc_easy": {"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"},
             "hellaswag": {"activity_label": "A", "ctx_a": "a [x]", "ctx_b": "b", "endings": ["c", "d [y]"],
                           "label": "1"},
             "mmlu": {"question": "q", "subject": "a_b", "choices": ["w", "x", "y", "z"], "answer": 2},
             "winogrande": {"sentence": "a _ b", "option1": "x", "option2": "y", "answer": "2"},
             "gsm8k": {"question": "q", "answer": "2 + 3\n#### 5"}}
    seeds |= {f"published_{name}": seed((shipped / f"{name}.yaml").read_text(), [line])
              for name, line in lines.items()}
    return {"task/" + name: data for name, data in seeds.items()}


def hf_configs():
    configs = {
        "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 16,
                 "n_positions": 32, "activation_function": "gelu_new"},
        "neox": {"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2,
                 "intermediate_size": 32, "vocab_size": 16, "max_position_embeddings": 32, "rotary_pct": 0.25,
                 "rotary_emb_base": 10000, "hidden_act": "gelu", "use_parallel_residual": True},
        "llama": {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 16, "rope_theta": 10000,
                  "max_position_embeddings": 32, "rope_scaling": {
                      "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                      "original_max_position_embeddings": 16}},
        "qwen2": {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 16,
                  "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        "t5": {"model_type": "t5", "num_layers": 2, "d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 32,
               "vocab_size": 16, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "mt5": {"model_type": "mt5", "num_layers": 2, "d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 32,
                "vocab_size": 16, "feed_forward_proj": "gated-gelu"}}
    wrong = {"type": ("gpt2", {"model_type": "bert"}), "quantised": ("llama", {"quantization_config": {}}),
             "cross": ("gpt2", {"add_cross_attention": True}), "heads": ("llama", {"num_attention_heads": 3}),
             "groups": ("llama", {"num_key_value_heads": 3}), "gelu": ("gpt2", {"activation_function": "relu"}),
             "rope": ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2}}),
             "layers": ("neox", {"num_hidden_layers": 20000}), "context": ("neox", {
                 "max_position_embeddings": 1 << 50}), "share": ("neox", {"rotary_pct": 2}),
             "negative": ("qwen2", {"hidden_size": -16}), "kind": ("qwen2", {"hidden_size": "16"}),
             "null": ("qwen2", {"hidden_size": None}), "head_dim": ("gpt2", {"head_dim": 3})}
    seeds = dict(configs)
    for name, (base, change) in wrong.items():
        seeds["wrong_" + name] = {**configs[base], **change}
    return {"hf_config/" + name: json.dumps(c).encode() for name, c in seeds.items()}


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
    seeds |= tokenizers() | pieces_with_rules() | models() | relays() | tasks() | hf_configs()
    for name, (old, new) in lies.items():
        assert old in body, name
        seeds[f"checkpoint/lie_{name}"] = body.replace(old, new, 1)
    for name, data in seeds.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

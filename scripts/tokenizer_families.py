"""Tokenizers with the published components of model families, trained on local text.

Only the components are those of the families: pattern, normalizer, model switches, added tokens and
decoder, as their tokenizer.json has them. Vocabularies are trained here.
"""
import json

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}",
                  rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*",
                   r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
NOT_HAN = "&&[^\\p{Han}]]"
KIMI = "|".join([r"[\p{Han}]+",
                 rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}*{LOWER[:-1]}{NOT_HAN}+{CONTRACTIONS}",
                 rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}+{LOWER[:-1]}{NOT_HAN}*{CONTRACTIONS}",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])

MARKERS = ["<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>",
           "<unk>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|end|>", "<|start|>",
           "[INST]", "[/INST]", "<\uff5cUser\uff5c>", "<think>", "tool", "Stra\u00dfe"]


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def step(kind, **members):
    return {"type": kind, **members}


def sequence(key, *members):
    return {"type": "Sequence", key: list(members)}


def split(pattern, behavior="Isolated", invert=False):
    return step("Split", pattern=pattern if isinstance(pattern, dict) else {"Regex": pattern},
                behavior=behavior, invert=invert)


def byte_level(use_regex=False, prefix=False):
    return step("ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=use_regex)


def replace(pattern, content):
    return step("Replace", pattern=pattern, content=content)


SPACES = replace({"String": " "}, "\u2581")
LLAMA2_NORMALIZER = sequence("normalizers", step("Prepend", prepend="\u2581"), SPACES)
BACK = [replace({"String": "\u2581"}, " "), step("ByteFallback"), step("Fuse")]
LLAMA2_DECODER = sequence("decoders", *BACK, step("Strip", content=" ", start=1, stop=0))
FALLBACK = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
SENTENCEPIECE_TOKENS = [token("<unk>"), token("<s>"), token("</s>")]


def bytes_family(pre_tokenizer, tokens, normalizer=None, **model):
    return {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": byte_level(True, True),
            "tokens": tokens, "model": model}


def split_family(pattern, tokens, **more):
    return bytes_family(sequence("pretokenizers", split(pattern), byte_level()), tokens, **more)


def metaspace(scheme, splits=False):
    return step("Metaspace", replacement="\u2581", prepend_scheme=scheme, split=splits)


def characters_family(normalizer, pre_tokenizer, decoder, tokens, **model):
    return {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder,
            "tokens": tokens, "model": model}


FAMILIES = {
    "llama3": split_family(LLAMA3, [token("<|begin_of_text|>"), token("<|eot_id|>")], ignore_merges=True),
    "smollm3": split_family(LLAMA3, [token("<|im_start|>"), token("<|im_end|>"), token("<think>", special=False)],
                            ignore_merges=True),
    "smollm2": bytes_family(sequence("pretokenizers", step("Digits", individual_digits=True),
                                     byte_level(True)), [token("<|endoftext|>"), token("<|im_start|>")]),
    "qwen": split_family(QWEN2, [token("<|endoftext|>"), token("<|im_start|>"), token("<|im_end|>"),
                                 token("<think>", special=False)], normalizer=step("NFC")),
    "olmo2": split_family(LLAMA3, [token("<|endoftext|>", normalized=False), token("<|im_end|>")]),
    "cl100k": split_family(CL100K, [token("<|endoftext|>")]),
    "gpt-oss": split_family(O200K, [token("<|endoftext|>"), token("<|start|>"), token("<|end|>")]),
    "mistral-nemo": split_family(TEKKEN, [token("<unk>"), token("<s>"), token("</s>"), token("[INST]")],
                                 ignore_merges=True),
    "deepseek": bytes_family(sequence("pretokenizers", *map(split, DEEPSEEK), byte_level()),
                             [token("<\uff5cUser\uff5c>", normalized=True, special=False),
                              token("<think>", normalized=True, special=False)],
                             normalizer=sequence("normalizers")),
    "kimi": split_family(KIMI, [token("<|im_end|>")]),
    "llama2": characters_family(LLAMA2_NORMALIZER, None, LLAMA2_DECODER, SENTENCEPIECE_TOKENS, **FALLBACK),
    "mistral": characters_family(None, metaspace("first"), LLAMA2_DECODER,
                                 SENTENCEPIECE_TOKENS + [token("[INST]"), token("[/INST]")],
                                 ignore_merges=False, **FALLBACK),
    "phi3": characters_family(LLAMA2_NORMALIZER, None, LLAMA2_DECODER,
                              [token("<unk>"), token("<s>"), token("</s>", rstrip=True, special=False),
                               token("<|user|>", rstrip=True), token("<|end|>", rstrip=True)], **FALLBACK),
    "gemma": characters_family(SPACES, split({"String": " "}, "MergedWithPrevious"),
                               sequence("decoders", *BACK),
                               [token("<bos>"), token("<unk>"), token("<start_of_turn>"), token("<end_of_turn>"),
                                token("\n\n", special=False)], **FALLBACK),
    # Not those of a family: components that published files also have.
    "behaviors": bytes_family(sequence(
        "pretokenizers", split(r"\d+", "MergedWithPrevious"), split(r"[A-Z]", "MergedWithNext"),
        split(r"[\p{P}&&[^']]", "Contiguous"), split({"String": "e"}, "Removed"),
        split(r"[\s\S]{1,4}?x|\bthe\b", "Isolated", True), step("Punctuation", behavior="Isolated"),
        byte_level(True, True)), [token("tool", single_word=True, normalized=True, lstrip=True)]),
    "words": characters_family(
        sequence("normalizers", step("NFKC"), step("Lowercase"), step("Strip", strip_left=True, strip_right=True),
                 replace({"Regex": r"\s{2,}|^-|;$"}, " ")),
        sequence("pretokenizers", step("Whitespace"), step("Digits", individual_digits=False)),
        sequence("decoders", step("Fuse")), [token("<unk>"), token("tool", single_word=True)], unk_token="<unk>"),
    "accents": characters_family(
        sequence("normalizers", step("NFD"), step("StripAccents"), step("NFKD")),
        sequence("pretokenizers", step("WhitespaceSplit"), step("Punctuation")),
        sequence("decoders", step("Fuse")), [token("<unk>"), token("Stra\u00dfe", normalized=True, special=False)],
        unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="##"),
    "suffix": characters_family(
        None, metaspace("always", True), metaspace("always"), [token("<unk>"), token("<s>", rstrip=True, lstrip=True)],
        unk_token="<unk>", end_of_word_suffix="</w>"),
}


def _trained(family, paths, size):
    """A vocabulary for the components."""
    model = {k: v for k, v in family["model"].items() if k != "ignore_merges"}
    peer = Tokenizer(models.BPE(**model))
    shell = json.loads(peer.to_str())
    shell["normalizer"], shell["pre_tokenizer"] = family["normalizer"], family["pre_tokenizer"]
    # The trainer would learn whole lines: it splits before each space.
    characters = family["decoder"]["type"] != "ByteLevel"
    if characters and (family["pre_tokenizer"] or {}).get("split") is not True:
        splitter = split({"String": "\u2581"}, "MergedWithNext")
        shell["pre_tokenizer"] = sequence("pretokenizers", *[
            s for s in [family["pre_tokenizer"], splitter] if s and s.get("split") is not False])
    peer = Tokenizer.from_str(json.dumps(shell))
    specials = [t["content"] for t in family["tokens"] if t["special"]]
    fallback = [f"<0x{b:02X}>" for b in range(256)] if family["model"].get("byte_fallback") else []
    affixes = {"continuing_subword_prefix": model.get("continuing_subword_prefix"),
               "end_of_word_suffix": model.get("end_of_word_suffix")}
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials + fallback, show_progress=False,
        initial_alphabet=[] if characters else pre_tokenizers.ByteLevel.alphabet(),
        **{k: v for k, v in affixes.items() if v})
    peer.train(paths, trainer)
    return json.loads(peer.to_str())


def build(name, paths, size):
    """The content of a tokenizer.json."""
    family = FAMILIES[name]
    out = _trained(family, paths, size)
    out["model"] |= family["model"]
    vocabulary = out["model"]["vocab"]
    for key in ("normalizer", "pre_tokenizer", "decoder"):
        out[key] = family[key]
    out["post_processor"] = None
    added, last = [], max(vocabulary.values())
    for each in family["tokens"]:
        known = vocabulary.get(each["content"])
        last = last if known is not None else last + 1
        added.append({"id": last if known is None else known, **each})
    out["added_tokens"] = sorted(added, key=lambda t: t["id"])
    # The library reads its own files: what it writes is what we compare with.
    return json.loads(Tokenizer.from_str(json.dumps(out)).to_str())

#!/usr/bin/env python3
"""Random tiny GPT-NeoX, GPT-2, LLaMA, Qwen2 and Mixtral models, saved by transformers, through `tessera checkpoint import`
and `export`: every tensor must keep its bytes, and transformers must load the result and compute
the same logits.

usage: check_hf_roundtrip.py [build/tessera]      (needs torch, transformers, safetensors)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from transformers import (AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel,
                          GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM)
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
TESSERA = sys.argv[1] if len(sys.argv) > 1 else "build/tessera"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def neox(**given):
    sizes = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                 intermediate_size=80, max_position_embeddings=32, rotary_pct=0.25)
    return GPTNeoXForCausalLM(GPTNeoXConfig(**(sizes | given)))


def gpt2(**given):
    sizes = dict(vocab_size=101, n_embd=24, n_layer=2, n_head=3, n_positions=32)
    return GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0, **(sizes | given)))


def llama(**given):
    sizes = dict(vocab_size=103, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, intermediate_size=56, max_position_embeddings=32,
                 bos_token_id=0, eos_token_id=0)
    return LlamaForCausalLM(LlamaConfig(**(sizes | given)))


def qwen2(**given):
    sizes = dict(vocab_size=103, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, intermediate_size=56, max_position_embeddings=32)
    return Qwen2ForCausalLM(Qwen2Config(**(sizes | given)))


def mixtral(**given):
    sizes = dict(vocab_size=103, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, intermediate_size=56, num_local_experts=4,
                 max_position_embeddings=32, sliding_window=None)
    return MixtralForCausalLM(MixtralConfig(**(sizes | given)))


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}

CASES = {
    "neox": (neox, {}, "f32"),
    "neox erf, serial, other base": (neox, dict(use_parallel_residual=False, hidden_act="gelu",
                                                rotary_emb_base=5000), "f32"),
    "neox tanh, half of each head turned": (neox, dict(hidden_act="gelu_fast", rotary_pct=0.5),
                                            "f32"),
    "neox bf16": (neox, {}, "bf16"),
    "neox tied": (neox, dict(tie_word_embeddings=True), "f32"),
    "gpt2": (gpt2, {}, "f32"),
    "gpt2 untied, wide MLP, erf": (gpt2, dict(tie_word_embeddings=False, n_inner=56,
                                              activation_function="gelu"), "f32"),
    "gpt2 f16": (gpt2, {}, "f16"),
    "gpt2 in many files": (gpt2, {}, "f32"),
    "llama": (llama, {}, "f32"),
    "llama, as many keys as heads": (llama, dict(num_key_value_heads=4), "f32"),
    "llama bf16, one key, tied": (llama, dict(num_key_value_heads=1, tie_word_embeddings=True),
                                  "bf16"),
    "llama f16, scaled frequencies": (llama, dict(rope_theta=500000.0, rope_scaling=LLAMA3), "f16"),
    "llama in many files": (llama, {}, "f32"),
    "qwen2": (qwen2, {}, "f32"),
    "qwen2 bf16, tied": (qwen2, dict(tie_word_embeddings=True), "bf16"),
    "mixtral": (mixtral, {}, "f32"),
    "mixtral bf16, one expert per token": (mixtral, dict(num_experts_per_tok=1), "bf16"),
}


def run(*command):
    done = subprocess.run([TESSERA, *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def tensors(folder):
    found = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(file, framework="pt") as f:
            for name in f.keys():
                found[name] = f.get_tensor(name)
    return found


def logits(folder, vocabulary):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    torch.manual_seed(3)
    with torch.no_grad():
        return model(torch.randint(0, vocabulary, (2, 17))).logits


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def check(case, make, given, dtype, work):
    torch.manual_seed(7)
    model = make(**given)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3)
    model.to(TYPES[dtype])
    before, after, checkpoint = work / "before", work / "after", work / "checkpoint"
    model.save_pretrained(before, max_shard_size="20KB" if "files" in case else "5GB")
    told = json.loads(run("checkpoint", "import", "--from", before, "--out", checkpoint, "--json"))
    limit = 20000 if "files" in case else 5_000_000_000
    run("checkpoint", "export", checkpoint, "--to", after, "--dtype", dtype,
        "--max-file-bytes", limit)
    run("checkpoint", "verify", checkpoint)
    old, new = tensors(before), tensors(after)
    faults = [n for n in old.keys() | new.keys()
              if n not in old or n not in new or not same(old[n], new[n])]
    vocabulary = model.config.vocab_size
    if not torch.equal(logits(before, vocabulary), logits(after, vocabulary)):
        faults.append("logits")
    config = AutoConfig.from_pretrained(after)
    for key in ("vocab_size", "tie_word_embeddings"):
        if getattr(config, key) != getattr(model.config, key):
            faults.append(key)
    if told["parameters"] != sum(p.numel() for p in model.parameters()):
        faults.append("parameters")
    print(f"{case}: {len(old)} tensors, {'equal' if not faults else 'DIFFER: ' + ', '.join(faults)}")
    return not faults


def main():
    failed = 0
    for case, (make, given, dtype) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            failed += not check(case, make, given, dtype, pathlib.Path(work))
    print(f"{failed} of {len(CASES)} models differ after import and export")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

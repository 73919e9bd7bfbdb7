#!/usr/bin/env python3
"""Random tiny models of all families of decoders, saved by transformers, through `tessera checkpoint import`
and `export`: every tensor must keep its bytes, and transformers must load the result and compute
the same logits. Experts in MXFP4 must be imported as the numbers that transformers decodes.

usage: check_hf_roundtrip.py [build/tessera]      (needs torch, transformers, safetensors)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import (AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel,
                          GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM)
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
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


def decoder(kind):
    """A maker of small models of a family like LLaMA."""
    def make(**given):
        sizes = dict(vocab_size=103, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                     num_key_value_heads=2, intermediate_size=56, max_position_embeddings=32,
                     bos_token_id=0, eos_token_id=0, pad_token_id=None)
        model = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")
        return model(getattr(transformers, kind + "Config")(**(sizes | given)))
    return make


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 2.5],
            "long_factor": [2.0, 3.0, 4.0, 5.0]}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
DEEPSEEK = dict(num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=4,
                v_head_dim=6, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=3,
                n_shared_experts=1, moe_intermediate_size=24)
GEMMA3_ROPES = {"sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0}}
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
    "qwen2, windows in the last layers": (qwen2, dict(use_sliding_window=True, sliding_window=5,
                                                      max_window_layers=1), "f32"),
    "llama, yarn": (llama, dict(rope_scaling=YARN), "f32"),
    "llama, linear": (llama, dict(rope_scaling={"rope_type": "linear", "factor": 3.0}), "f32"),
    "llama, dynamic": (llama, dict(rope_scaling={"rope_type": "dynamic", "factor": 3.0}), "f32"),
    "mistral, a window": (decoder("Mistral"), dict(sliding_window=5), "f32"),
    "mistral bf16, wide heads, all seen": (decoder("Mistral"),
                                           dict(sliding_window=None, head_dim=12), "bf16"),
    "smollm3": (decoder("SmolLM3"), dict(no_rope_layers=[0, 1, 0]), "f32"),
    "smollm3 untied, windows": (decoder("SmolLM3"), dict(
        tie_word_embeddings=False, use_sliding_window=True, sliding_window=5,
        no_rope_layer_interval=2), "f32"),
    "phi3, groups of heads": (decoder("Phi3"), dict(sliding_window=5), "f32"),
    "phi3 bf16, half of each head": (decoder("Phi3"), dict(partial_rotary_factor=0.5), "bf16"),
    "phi3 in many files, longrope": (decoder("Phi3"), dict(
        rope_scaling=LONGROPE, original_max_position_embeddings=8), "f32"),
    "qwen3": (decoder("Qwen3"), dict(head_dim=16), "f32"),
    "qwen3 bf16, tied, windows by layer": (decoder("Qwen3"), dict(
        head_dim=8, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "bf16"),
    "qwen3_moe": (decoder("Qwen3Moe"), dict(
        head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24), "f32"),
    "qwen3_moe bf16, dense layers, weights divided by their sum": (decoder("Qwen3Moe"), dict(
        num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True,
        decoder_sparse_step=2, mlp_only_layers=[1]), "bf16"),
    "deepseek_v2": (decoder("DeepseekV2"), dict(DEEPSEEK, q_lora_rank=None), "f32"),
    "deepseek_v2 bf16, groups of experts, yarn": (decoder("DeepseekV2"), dict(
        DEEPSEEK, q_lora_rank=12, topk_method="group_limited_greedy", n_group=3, topk_group=2,
        routed_scaling_factor=4.0, n_shared_experts=2,
        rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=0.707)), "bf16"),
    "deepseek_v3": (decoder("DeepseekV3"), dict(
        DEEPSEEK, q_lora_rank=12, n_group=3, topk_group=2), "f32"),
    "deepseek_v3 in many files, yarn, weights not divided by their sum": (decoder("DeepseekV3"), dict(
        DEEPSEEK, q_lora_rank=None, n_group=1, topk_group=1, norm_topk_prob=False, qk_nope_head_dim=4,
        rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.5)), "f32"),
    "gpt_oss": (decoder("GptOss"), dict(
        head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=5), "f32"),
    "gpt_oss bf16 in many files, all seen, no yarn": (decoder("GptOss"), dict(
        head_dim=8, num_local_experts=3, num_experts_per_tok=3, layer_types=["full_attention"] * 3,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), "bf16"),
    "gpt_oss, a window in the second layer": (decoder("GptOss"), dict(
        head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
        layer_types=["full_attention", "sliding_attention", "full_attention"]), "f32"),
    "olmo2": (decoder("Olmo2"), {}, "f32"),
    "olmo2 in many files": (decoder("Olmo2"), dict(num_key_value_heads=4), "f32"),
    "gemma2": (decoder("Gemma2"), dict(head_dim=12, sliding_window=5, query_pre_attn_scalar=9),
               "f32"),
    "gemma2 bf16, no caps": (decoder("Gemma2"), dict(
        head_dim=12, attn_logit_softcapping=None, final_logit_softcapping=None,
        tie_word_embeddings=False, hidden_activation="gelu"), "bf16"),
    "gemma3": (decoder("Gemma3Text"), dict(head_dim=12, sliding_window=5), "f32"),
    "gemma3, two rotaries": (decoder("Gemma3Text"), dict(
        head_dim=12, sliding_window=5, rope_parameters=GEMMA3_ROPES, final_logit_softcapping=2.0,
        layer_types=["sliding_attention", "full_attention", "full_attention"]), "f32"),
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
    # The biases of DeepSeek-V3's routers are buffers there.
    biases = [b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")]
    if told["parameters"] != sum(p.numel() for p in [*model.parameters(), *biases]):
        faults.append("parameters")
    print(f"{case}: {len(old)} tensors, {'equal' if not faults else 'DIFFER: ' + ', '.join(faults)}")
    return not faults


def check_mxfp4(work):
    """The experts of a small gpt-oss as published files have them, with all scales near 1."""
    torch.manual_seed(7)
    model = decoder("GptOss")(hidden_size=64, intermediate_size=32, head_dim=8, num_local_experts=3,
                              num_experts_per_tok=2).bfloat16()
    before, after, checkpoint = work / "before", work / "after", work / "checkpoint"
    model.save_pretrained(before)
    kept, decoded = {}, {}
    for name, t in tensors(before).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            kept[name] = t
            continue
        experts, inputs, outputs = t.shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        scales = torch.randint(115, 130, (experts, outputs, inputs // 32), dtype=torch.uint8)
        kept |= {name + "_blocks": blocks, name + "_scales": scales}
        decoded[name] = convert_moe_packed_tensors(blocks, scales)
    save_file(kept, before / "model.safetensors", {"format": "pt"})
    config = json.loads((before / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (before / "config.json").write_text(json.dumps(config))
    run("checkpoint", "import", "--from", before, "--out", checkpoint)
    run("checkpoint", "export", checkpoint, "--to", after, "--dtype", "bf16")
    new = tensors(after)
    faults = [n for n, t in decoded.items() if not same(t.contiguous(), new[n])]
    faults += [n for n, t in kept.items() if t.dtype != torch.uint8 and not same(t, new[n])]
    print(f"gpt_oss in MXFP4: {len(new)} tensors, "
          f"{'equal' if not faults else 'DIFFER: ' + ', '.join(faults)}")
    return not faults


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        failed += not check_mxfp4(pathlib.Path(work))
    for case, (make, given, dtype) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            failed += not check(case, make, given, dtype, pathlib.Path(work))
    print(f"{failed} of {len(CASES) + 1} models differ after import and export")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

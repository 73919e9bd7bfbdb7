#!/usr/bin/env python3
"""Compares adapters of PEFT and of Tessera on random tiny models of transformers, for LoRA, rsLoRA and DoRA.
Adapters of experts, and of dense and shared MLPs in models with experts, use target_parameters, for which PEFT does
not support DoRA.

  import    a folder that PEFT saved gives the logits that PEFT computes
  adapter   `eval BASE --adapter FOLDER` gives the logits of the imported checkpoint, to the last bit, and with
            --adapter none those of transformers
  export    the same adapters, written by `checkpoint export --adapter`, have the bytes that PEFT saved, and
            PEFT loads them and computes the same logits
  merge     the merged model, exported, gives these logits in transformers
  train     steps of AdamW from a PEFT folder (`lora.from`): losses, norms of the gradients, and the exported
            adapters. Its epsilon is 1e-4, since an update of a gradient that is nearly zero has the sign of its
            rounding

Each distance is relative to the largest value. It is at most 1e-5, or for the steps that of PEFT in f32 from
PEFT in f64 where that is more: rounding grows with each step.

usage: check_peft.py [build/tessera] [--family NAME] [--kind KIND] [--steps N]
(needs torch, transformers, peft, safetensors; ends with exit code 77 without peft)
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import peft
except ImportError:
    print("peft is not installed: pip install peft")
    sys.exit(77)
import torch
import transformers
from safetensors.torch import load_file
from transformers.utils import logging

from small_runs import byte_alphabet

logging.set_verbosity_error()
logging.disable_progress_bar()

BOUNDS = {"logits": 1e-5, "losses": 1e-5, "norms": 1e-5, "adapters": 1e-5}
VOCABULARY, TOKENS = 256, 32
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=56, max_position_embeddings=TOKENS,
             bos_token_id=0, eos_token_id=0, pad_token_id=None)
LLAMA = (["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                "down_proj"])


ATTENTION = (LLAMA[0], LLAMA[1][:4])
EXPERTS = ATTENTION + (["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
                       ["q_proj", "mlp.experts.down_proj"], ["mlp.experts.gate_up_proj"])
DENSE = ["mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"]
SHARED = [name.replace("mlp", "shared_experts") for name in DENSE]
MIXED = (DENSE, ["q_proj", "mlp.experts.gate_up_proj", "mlp.experts.down_proj", *DENSE])
LATENT = (["q_b_proj", "kv_a_proj_with_mqa"], ["q_a_proj", "q_b_proj", "kv_b_proj", "o_proj"])


def like_llama(name, targets=LLAMA, **more):
    model = getattr(transformers, name.removesuffix("Text") + "ForCausalLM")
    config = getattr(transformers, name + "Config")
    return lambda: model(config(**(SIZES | more))), targets


FAMILIES = {
    "llama": like_llama("Llama"),
    "mistral": like_llama("Mistral", sliding_window=None),
    "qwen2": like_llama("Qwen2"),
    "qwen3": like_llama("Qwen3", head_dim=16),
    "gemma2": like_llama("Gemma2", head_dim=12, query_pre_attn_scalar=9),
    "gemma3": like_llama("Gemma3Text", head_dim=12, sliding_window=8),
    "olmo2": like_llama("Olmo2"),
    "smollm3": like_llama("SmolLM3"),
    "phi3": like_llama("Phi3", (["qkv_proj"], ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "mixtral": like_llama("Mixtral", EXPERTS, num_local_experts=4, num_experts_per_tok=2,
                          sliding_window=None, experts_implementation="eager"),
    "qwen3_moe": like_llama("Qwen3Moe", EXPERTS + MIXED, mlp_only_layers=[0], head_dim=16, num_experts=4, num_experts_per_tok=2,
                            moe_intermediate_size=24, experts_implementation="eager"),
    "deepseek_v3": like_llama("DeepseekV3", LATENT + EXPERTS[2:3] + (SHARED, DENSE + SHARED[2:]), num_key_value_heads=4, q_lora_rank=12,
                              kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
                              n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
                              moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1,
                              experts_implementation="eager"),
    "gpt_oss": like_llama("GptOss", EXPERTS, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                          sliding_window=8, experts_implementation="eager"),
    "gpt2": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=TOKENS, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
        (["c_attn"], ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"])),
    "neox": (lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=56, max_position_embeddings=TOKENS, rotary_pct=0.5, bos_token_id=0,
        eos_token_id=0)),
        (["query_key_value"], ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"])),
}
KINDS = {"lora": {}, "rslora": dict(use_rslora=True), "dora": dict(use_dora=True)}


def run(options, *command):
    done = subprocess.run([options.tessera, *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def distance(a, b):
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


def tokens_of(seed, rows=4):
    torch.manual_seed(seed)
    return torch.randint(1, VOCABULARY, (rows, TOKENS))


def logits_of(model, tokens):
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits


def our_logits(options, checkpoint, tokens, work, *more):
    (work / "ids.json").write_text(json.dumps(tokens.tolist()))
    run(options, "eval", checkpoint, "--logits", work / "logits.safetensors", "--force", "--tokens",
        work / "ids.json", "--threads", 1, *more)
    return load_file(work / "logits.safetensors")["logits"]


def is_parameter(target):
    return ".experts." in target or target.endswith(".weight")


def adapters(model, targets, kind, spread):
    """PEFT's model with adapters that change it."""
    parameters = [target for target in targets if is_parameter(target)]
    config = peft.LoraConfig(r=3, lora_alpha=7, task_type="CAUSAL_LM",
                             target_modules=[target for target in targets if not is_parameter(target)],
                             target_parameters=parameters or None,
                             fan_in_fan_out=isinstance(model, transformers.GPT2LMHeadModel),
                             **KINDS[kind])
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_A" in name or "lora_B" in name:
                p.normal_(0, spread)
            elif "lora_magnitude" in name:
                p.mul_(1 + 0.2 * torch.randn_like(p))
    return model.eval()


def dataset(options, work, rows):
    """A dataset whose samples are these rows of TOKENS + 1 ids, one document each, and its order."""
    pieces = {character: byte for byte, character in enumerate(byte_alphabet())}
    (work / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": pieces, "merges": []}}))
    text = work / "text.jsonl"
    with text.open("w") as f:
        for row in rows:
            f.write(json.dumps({"text": bytes(row.tolist()).decode()}) + "\n")
    run(options, "data", "build", "--no-end-of-text", "--tokenizer", work / "tokenizer.json", "--out",
        work / "train", "--force", text)


def train(options, work, steps, report, lora="", base="base"):
    """Some steps from PEFT's adapters: those of PEFT and those of Tessera. `lora` has more keys of that
    section, and `base` is the folder of PEFT's model."""
    rows = torch.randint(32, 127, (400, TOKENS + 1))
    dataset(options, work, rows)
    file = work / "run.yaml"
    file.write_text(f"""\
run: {{ name: tuned, directory: {work / 'tuned'}, threads: 1 }}
data: {{ tokenizer: {work / 'tokenizer.json'}, train: [{work / 'train'}], sequence_length: {TOKENS} }}
batch: {{ global: 4, micro: 2 }}
optimizer: {{ learning_rate: 1.0e-2, weight_decay: 0, clip_norm: 0, epsilon: 1.0e-4 }}
lora: {{ from: {work / 'peft'}{lora} }}
schedule: {{ kind: constant, steps: {steps}, warmup_steps: 0 }}
precision: fp32
checkpoint: {{ every_steps: 0, from: {work / 'base'}, load: weights }}
metrics: {{ tensorboard: false }}
""")
    batches = []
    for step in range(1, steps + 1):
        answer = json.loads(run(options, "data", "explain", file, "--step", step, "--json"))
        batches.append(torch.tensor([s["tokens"] for s in answer["samples"]]))
    run(options, "train", file)
    lines = [json.loads(l) for l in (work / "tuned" / "metrics.jsonl").read_text().splitlines()]
    ours = [l["loss"] for l in lines if "loss" in l]
    our_norms = [l["grad_norm"] for l in lines if "loss" in l]
    run(options, "checkpoint", "export", work / "tuned", "--adapter", "--to", work / "tuned-peft")
    theirs, norms, trained = peft_steps(work, base, batches, torch.float32)
    exact, exact_norms, exactly_trained = peft_steps(work, base, batches, torch.float64)
    tuned = load_file(work / "tuned-peft" / "adapter_model.safetensors")
    report("losses", losses_apart(ours, theirs), losses_apart(theirs, exact))
    report("norms", losses_apart(our_norms, norms), losses_apart(norms, exact_norms))
    report("adapters", adapters_apart(tuned, trained), adapters_apart(trained, exactly_trained))


def peft_steps(work, base, batches, dtype):
    """The losses, norms of gradients and adapters of PEFT's steps from the folder `peft` with that base."""
    # Grouped GEMMs of experts have no f64.
    frozen = transformers.AutoModelForCausalLM.from_pretrained(work / base, experts_implementation="eager")
    model = peft.PeftModel.from_pretrained(frozen, work / "peft", is_trainable=True).to(dtype).train()
    update = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2,
                               betas=(0.9, 0.95), eps=1e-4, weight_decay=0.0)
    losses, norms = [], []
    for batch in batches:
        update.zero_grad()
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        norms.append(math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in model.parameters()
                                   if p.grad is not None)))
        update.step()
        losses.append(float(loss))
    return losses, norms, peft.get_peft_model_state_dict(model)


def losses_apart(a, b):
    return max(abs(x - y) / y for x, y in zip(a, b, strict=True))


def adapters_apart(a, b):
    return max(distance(a[n], b[n].detach()) for n in b) if a.keys() == b.keys() else math.inf


def check(options, family, kind, which, work):
    make, targets = FAMILIES[family]
    torch.manual_seed(7)
    base = make().eval()
    with torch.no_grad():
        for p in base.parameters():
            p.normal_(0, 0.2)
    base.save_pretrained(work / "base")
    model = adapters(base, targets[which], kind, 0.1)
    model.save_pretrained(work / "peft")
    tokens, faults, told = tokens_of(3), [], []

    def report(what, value, rounding=0.0):
        told.append(f"{what} {value:.1e}")
        if not value <= max(BOUNDS[what.split(" ")[0]], rounding):
            faults.append(what)

    theirs = logits_of(model, tokens)
    checkpoint = work / "checkpoint"
    run(options, "checkpoint", "import", "--from", work / "base", "--adapter", work / "peft", "--out",
        checkpoint)
    ours = our_logits(options, checkpoint, tokens, work)
    report("logits", distance(ours, theirs))
    if not torch.equal(our_logits(options, work / "base", tokens, work, "--adapter", work / "peft"), ours):
        faults.append("--adapter")
    with model.disable_adapter():
        plain = our_logits(options, work / "base", tokens, work, "--adapter", "none")
        report("logits of the base", distance(plain, logits_of(model, tokens)))
    run(options, "checkpoint", "export", checkpoint, "--adapter", "--to", work / "back")
    old, new = (load_file(work / f / "adapter_model.safetensors") for f in ("peft", "back"))
    if old.keys() != new.keys() or any(not torch.equal(old[n], new[n]) for n in old):
        faults.append("tensors")
    fresh = transformers.AutoModelForCausalLM.from_pretrained(work / "base")
    report("logits in PEFT",
           distance(logits_of(peft.PeftModel.from_pretrained(fresh, work / "back").eval(), tokens), ours))
    run(options, "checkpoint", "merge", checkpoint, "--out", work / "merged")
    run(options, "checkpoint", "export", work / "merged", "--to", work / "merged-hf")
    merged = transformers.AutoModelForCausalLM.from_pretrained(work / "merged-hf").eval()
    report("logits merged", distance(logits_of(merged, tokens), theirs))
    if which > 0:
        train(options, work, options.steps, report)
    print(f"{family} {kind} {','.join(targets[which])}: {', '.join(told)}"
          f"{'' if not faults else '  DIFFER: ' + ', '.join(faults)}", flush=True)
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera", nargs="?", default="build/tessera")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    failed = cases = 0
    for family in options.family or FAMILIES:
        for kind in options.kind or KINDS:
            for which, targets in enumerate(FAMILIES[family][1]):
                if kind == "dora" and any(map(is_parameter, targets)):
                    continue
                with tempfile.TemporaryDirectory() as work:
                    failed += not check(options, family, kind, which, pathlib.Path(work))
                cases += 1
    print(f"{failed} of {cases} adapters differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

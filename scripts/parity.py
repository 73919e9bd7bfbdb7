#!/usr/bin/env python3
"""Compares with PyTorch while both run: the same weights and the same batches through both.

    scripts/parity.sh [--family NAME] [--text FILE] [--keep FOLDER] [--skip-bf16] [--only-bf16]
                      [--adafactor] [--threads N]

For a Pythia-type, a GPT-2-type, three LLaMA-type models, a Qwen2-type, a Mixtral-type, fifteen of the
families Mistral, SmolLM3, Phi-3, Qwen3, Qwen3-MoE, DeepSeek-V2 and V3, gpt-oss, OLMo 2, Gemma 2 and Gemma 3, and four T5- and mT5-type ones
of 4 layers x 128 (learning rate 3e-4, fp32) compares the logits, every tensor's gradient, the losses
and gradient norms of 50 steps; in bf16 200 steps with PyTorch's autocast and with our own fp32
(where PyTorch has no bf16 GEMMs, they are summed in fp32, after one row that shows how
many results differ by it); then
the way back: a model exported after training gives the same logits and greedy text in transformers,
AutoTokenizer the same ids, and import, a checkpoint that 2 x 2 ranks write, export keeps every byte.
`--adafactor` trains 200 steps with it in fp32 on both sides, and compares nothing else. Exit status 1
where a bound is broken.

The start is the first of some seeds from which PyTorch's own norms stay within 3e-6 of its fp64's,
or the steadiest of them. Where a gradient of about 1e-8, AdamW's epsilon, happens to be among the first, its
rounding is a share of a whole step and no two programs agree, PyTorch's fp32 and fp64 neither.
`--peer-only` prints PyTorch's own fp32-to-fp64 distances and runs nothing of
ours.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import parity_reference as reference

LAYERS, HIDDEN, HEADS, VOCABULARY, TOKENS = 4, 128, 8, 4096, 128
GLOBAL_BATCH, MICRO_BATCH = 4, 2
T5 = f"family: t5, encoder_layers: {LAYERS}, head_width: 16, feed_forward: {3 * HIDDEN}"


def deepseek_yarn(mscale, mscale_all_dim):
    return (f"{{ rope_type: yarn, factor: 8, original_max_position_embeddings: {TOKENS // 8}, "
            f"mscale: {mscale}, mscale_all_dim: {mscale_all_dim} }}")


# The keys of a run file for reference.DECODERS.
LIKE_LLAMA, WINDOW = "feed_forward: 336, norm_epsilon: 1.0e-5", TOKENS // 4
DECODERS = {
    "mistral": f"family: mistral, {LIKE_LLAMA}, kv_heads: 4, head_width: 24, window: {WINDOW}",
    "mistral-yarn": f"family: mistral, {LIKE_LLAMA}, rope_scaling: {{ rope_type: yarn, factor: 4, "
                    f"original_max_position_embeddings: {TOKENS // 4} }}",
    "smollm3": f"family: smollm3, {LIKE_LLAMA}, kv_heads: 4, no_rope_layers: [3]",
    "smollm3-window": f"family: smollm3, {LIKE_LLAMA}, kv_heads: 1, no_rope_layers: [1, 2], "
                      f"window: {WINDOW}, window_layers: [1, 2], "
                      "rope_scaling: { rope_type: linear, factor: 4 }",
    "phi3": f"family: phi3, {LIKE_LLAMA}, kv_heads: 4, rotary_pct: 0.5, window: {WINDOW}",
    "phi3-longrope": f"family: phi3, {LIKE_LLAMA}, rope_scaling: {{ rope_type: longrope, factor: 2, "
                     f"original_max_position_embeddings: {TOKENS // 2}, short_factor: {[1.0] * 8}, "
                     f"long_factor: {[1.0 + 0.5 * i for i in range(8)]} }}",
    "qwen3": f"family: qwen3, {LIKE_LLAMA}, kv_heads: 4, head_width: 32, rope_theta: 10000, "
             f"window: {WINDOW}, window_layers: [2, 3]",
    "qwen3-moe": f"family: qwen3_moe, {LIKE_LLAMA}, kv_heads: 4, head_width: 32, rope_theta: 10000, "
                 "experts: 4, experts_per_token: 2, expert_feed_forward: 96, dense_layers: [0], "
                 "router: { renormalize: false }",
    "deepseek-v2": f"family: deepseek_v2, {LIKE_LLAMA}, latent: {{ key_value_rank: 32, nope_width: 16, "
                   "rope_width: 8, value_width: 16 }, experts: 4, experts_per_token: 2, "
                   "expert_feed_forward: 96, shared_feed_forward: 192, dense_layers: [0]",
    "deepseek-v2-groups": f"family: deepseek_v2, {LIKE_LLAMA}, latent: {{ query_rank: 48, "
                          "key_value_rank: 32, nope_width: 8, rope_width: 16, value_width: 24 }, "
                          "experts: 6, experts_per_token: 3, expert_feed_forward: 96, "
                          "shared_feed_forward: 96, dense_layers: [0], router: { groups: 3, "
                          f"groups_chosen: 2, scale: 4 }}, rope_scaling: {deepseek_yarn(0.707, 0.707)}",
    "deepseek-v3": f"family: deepseek_v3, {LIKE_LLAMA}, latent: {{ query_rank: 48, key_value_rank: 32, "
                   "nope_width: 24, rope_width: 8, value_width: 16 }, experts: 8, experts_per_token: 3, "
                   "expert_feed_forward: 96, shared_feed_forward: 96, dense_layers: [0], "
                   "router: { groups: 4, groups_chosen: 2, scale: 2.5, bias_rate: 0 }, "
                   f"rope_scaling: {deepseek_yarn(1, 0.5)}",
    "gpt-oss": f"family: gpt_oss, {LIKE_LLAMA}, kv_heads: 4, head_width: 24, rope_theta: 10000, "
               f"experts: 6, experts_per_token: 2, window: {WINDOW}, window_layers: [0, 2], "
               "rope_scaling: { rope_type: yarn, factor: 4, truncate: false, "
               f"original_max_position_embeddings: {TOKENS // 4} }}",
    "olmo2": f"family: olmo2, {LIKE_LLAMA}, kv_heads: 4, rope_theta: 10000",
    "gemma2": f"family: gemma2, {LIKE_LLAMA}, kv_heads: 4, head_width: 24, attention_scalar: 20, "
              f"window: {WINDOW}, window_layers: [0, 2], attention_soft_cap: 0.5, logit_soft_cap: 2",
    "gemma3": f"family: gemma3, {LIKE_LLAMA}, kv_heads: 4, head_width: 24, attention_scalar: 20, "
              f"window: {WINDOW}, window_layers: [0, 2], rope_theta: 20000, "
              "rope_scaling: { rope_type: linear, factor: 4 }, window_rope_theta: 500",
}
STEPS, LONG_STEPS, SMOOTHED = 50, 200, 10
LEARNING_RATE = 3e-4
FAMILIES = ("neox", "gpt2", *reference.LLAMAS, "qwen2", "mixtral", *reference.DECODERS, *reference.T5S)
ADAMW = ("kind: adamw, beta1: 0.9, beta2: 0.95, epsilon: 1.0e-8, weight_decay: 0.1, clip_norm: 1.0, "
         f"learning_rate: {LEARNING_RATE}")
ADAFACTOR_RATE = 0.01
ADAFACTOR = f"kind: adafactor, clip_norm: 0, learning_rate: {ADAFACTOR_RATE}"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "4"]
SENTINELS = 100
PROMPTS, NEW_TOKENS = 4, 24
TEXTS = 300  # lines of which AutoTokenizer gives the ids
# Largest distances allowed from PyTorch's fp32, and the most they may be of its own fp32-to-fp64
# distance.
BOUNDS = {"logits": 1e-5, "gradients": 1e-5, "losses": 5e-6, "norms": 2e-5}
MOST_OF_OWN = 20
BF16_BOUND = 0.005
ADAFACTOR_BOUND = 1e-3  # where transformers has the same matrices
STARTS = range(1, 6)  # seeds
STEADY = 3e-6
WIDENED_BOUND = 1e-3  # share of results that differ, and norm-wise
# Tensors whose true gradient is zero, which rounding makes relative nonsense: whole tensors only.
ZERO_GRADIENT = ()


class Report:
    def __init__(self):
        self.failures = []

    def line(self, what, value, bound, own=None, note=""):
        """One comparison. The bound that counts is the smaller of the issue's and 20 times PyTorch's
        own distance."""
        limit = bound if own is None else min(bound, MOST_OF_OWN * own)
        good = value <= limit
        beside = "" if own is None else f"  PyTorch fp32 to fp64 {own:.1e}"
        print(f"  {'ok ' if good else 'BAD'} {what:<34} {value:.2e}  bound {limit:.1e}{beside}  {note}",
              flush=True)
        if not good:
            self.failures.append(what)

    def same(self, what, good, note=""):
        print(f"  {'ok ' if good else 'BAD'} {what:<34} {note}", flush=True)
        if not good:
            self.failures.append(what)


def encodes(family):
    return family in reference.T5S


def run_tessera(options, *arguments, ranks=()):
    command = [*ranks, options.tessera, *map(str, arguments)]
    environment = dict(os.environ, OMP_NUM_THREADS="1") if ranks else None
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n  exit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def tokenizer_name(family):
    if encodes(family):
        return "spiece.model"
    return "qwen2.json" if family.startswith(("qwen2", "qwen3")) else "tokenizer.json"


def train_name(family):
    return "train-" + tokenizer_name(family).partition(".")[0]


def corpus(options, work):
    """A tokenizer and a dataset, made by us from the text: both sides read token ids only."""
    for family in options.family or FAMILIES:
        tokenizer, train = work / tokenizer_name(family), work / train_name(family)
        if train.with_suffix(".idx").exists():
            continue  # kept from a run before
        more = ["--kind", "unigram", "--sentinels", SENTINELS] if encodes(family) else []
        more += ["--words", "qwen2"] if tokenizer_name(family) == "qwen2.json" else []
        run_tessera(options, "tokenizer", "train", "--force", "--vocabulary", VOCABULARY, *more,
                    "--out", tokenizer, options.text)
        run_tessera(options, "data", "build", "--tokenizer", tokenizer, "--split", "paragraphs",
                    "--out", train, options.text)


def peer_batches(options):
    """Batches of PyTorch alone, in place of ours."""
    from tokenizers import ByteLevelBPETokenizer
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([options.text], vocab_size=VOCABULARY, show_progress=False)
    text = pathlib.Path(options.text).read_text(encoding="utf-8", errors="replace")
    ids = torch.tensor(tokenizer.encode(text).ids)
    samples = ids[:len(ids) // (TOKENS + 1) * (TOKENS + 1)].reshape(-1, TOKENS + 1)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(5))
    return list(samples[order[:STEPS * GLOBAL_BATCH]].split(GLOBAL_BATCH))


def run_file(options, work, family, name, precision, steps, optimizer=ADAMW):
    model = {
        "neox": "family: neox, rotary_pct: 0.25, parallel_residual: true, tied_embeddings: false, gelu: erf",
        "gpt2": "family: gpt2, tied_embeddings: true, gelu: tanh",
        "llama": "family: llama, feed_forward: 336",
        "llama-grouped": "family: llama, feed_forward: 336, kv_heads: 4, rope_theta: 500000, "
                         f"rope_scaling: {{ factor: 8, original_max_position_embeddings: {TOKENS // 2} }}",
        "llama-tied": "family: llama, feed_forward: 336, kv_heads: 1, tied_embeddings: true",
        "qwen2": "family: qwen2, feed_forward: 336, kv_heads: 4, rope_theta: 10000, norm_epsilon: 1.0e-5",
        "mixtral": "family: mixtral, feed_forward: 336, kv_heads: 4, experts: 4",
        **DECODERS, "t5": T5, "t5-tied": f"{T5}, tied_embeddings: true", "mt5": T5,
        "mt5-tied": f"{T5}, tied_embeddings: true, scaled_head: false",
    }[family]
    t5 = encodes(family)
    tokenizer, train = tokenizer_name(family), train_name(family)
    objective = ", objective: span_corruption" if t5 else ""
    path = work / f"{family}.{name}.yaml"
    path.write_text(f"""\
run: {{ name: {name}, directory: {work / family / name}, seed: 7, threads: {options.threads} }}
model: {{ {model}, layers: {LAYERS + t5}, hidden: {HIDDEN}, heads: {HEADS},
         vocabulary: {VOCABULARY}, vocabulary_multiple: 1, context: {TOKENS} }}
data: {{ tokenizer: {work / tokenizer}, train: [{work / train}], sequence_length: {TOKENS}{objective} }}
batch: {{ global: {GLOBAL_BATCH}, micro: {MICRO_BATCH} }}
optimizer: {{ {optimizer} }}
schedule: {{ kind: constant, steps: {steps}, warmup_steps: 0 }}
precision: {precision}
checkpoint: {{ every_steps: 0, from: {work / family / 'imported'}, load: weights }}
metrics: {{ tensorboard: false }}
""")
    return path


def our_batches(options, run, steps):
    """The token ids of the global batch of steps 1 … `steps`: [steps][B, T+1]."""
    batches = []
    for step in range(1, steps + 1):
        # The model that the run starts from is made later.
        answer = json.loads(run_tessera(options, "data", "explain", run, "checkpoint.from=", "--step",
                                        step, "--json"))
        column = {key: torch.tensor([s[key] for s in answer["samples"]])
                  for key in ("tokens", "encoder", "labels") if key in answer["samples"][0]}
        pairs = "encoder" in column
        batches.append(reference.Pairs(column["encoder"], column["labels"]) if pairs
                       else column["tokens"])
    return batches


def our_curve(folder):
    lines = [json.loads(l) for l in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [l for l in lines if "loss" in l]
    if [l["step"] for l in steps] != list(range(1, len(steps) + 1)):
        raise SystemExit(f"{folder}/metrics.jsonl does not have each step once")
    return [l["loss"] for l in steps], [l["grad_norm"] for l in steps]


def our_logits(options, checkpoint, tokens, work):
    """Logits of rows of ids; for pairs, those of the decoder, which reads the labels shifted by one."""
    ids, out = work / "ids.json", work / "logits.safetensors"
    pairs = isinstance(tokens, reference.Pairs)
    read = torch.nn.functional.pad(tokens.labels, (1, -1)) if pairs else tokens
    ids.write_text(json.dumps(read.tolist()))
    more = []
    if pairs:
        more = ["--source", work / "source.json"]
        (work / "source.json").write_text(json.dumps(tokens.source.tolist()))
    run_tessera(options, "eval", checkpoint, "--logits", out, "--force", "--tokens", ids,
                "--threads", options.threads, *more)
    return load_file(out)["logits"]


def largest_distance(a, b):
    """Returns the largest difference of logits over the largest value."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


def curve_distance(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))


def smooth(values):
    return [sum(values[i:i + SMOOTHED]) / SMOOTHED for i in range(len(values) - SMOOTHED + 1)]


class Peer:
    """Results of PyTorch in fp32 and in fp64 for one family, from the same weights."""

    def __init__(self, family, batches, seed=STARTS[0]):
        self.model = reference.make_model(family, LAYERS, HIDDEN, HEADS, VOCABULARY, TOKENS, seed)
        self.exact = reference.double_copy(self.model)
        self.start = {n: p.detach().clone() for n, p in reference.named_parameters(self.model).items()}
        self.batches = batches

    def restore(self):
        with torch.no_grad():
            for model in (self.model, self.exact):
                for n, p in reference.named_parameters(model).items():
                    p.copy_(self.start[n])

    def measure(self):
        first = self.batches[0]
        with torch.no_grad():
            self.logits = reference.logits_of(self.model, reference.inputs_of(first))
            exact_logits = reference.logits_of(self.exact, reference.inputs_of(first))
        self.gradients = reference.gradients_of(self.model, first)
        exact = reference.gradients_of(self.exact, first)
        self.losses, self.norms = reference.train(self.model, self.batches, LEARNING_RATE)
        exact_losses, exact_norms = reference.train(self.exact, self.batches, LEARNING_RATE)
        self.restore()
        own = [(n, reference.relative(self.gradients[n], g)) for n, g in exact.items()
               if n not in ZERO_GRADIENT]
        self.own = {"logits": largest_distance(self.logits, exact_logits),
                    "gradients": reference.worst(own)[0],
                    "losses": curve_distance(self.losses, exact_losses),
                    "norms": curve_distance(self.norms, exact_norms)}
        self.exact_values = {"logits": exact_logits, "gradients": exact, "losses": exact_losses,
                             "norms": exact_norms}

    def print_own(self):
        print("  PyTorch fp32 to fp64: " + ", ".join(f"{n} {v:.1e}" for n, v in self.own.items()),
              flush=True)


def compare_fp32(options, work, family, peer, run, report):
    folder = work / family
    imported = folder / "imported"
    logits = our_logits(options, imported, reference.inputs_of(peer.batches[0]), folder)
    report.line("logits / largest", largest_distance(logits, peer.logits), BOUNDS["logits"],
                peer.own["logits"],
                f"to fp64 {largest_distance(logits, peer.exact_values['logits']):.1e}")
    dumped = folder / "gradients.safetensors"
    run_tessera(options, "train", run, f"run.dump_gradients={dumped}", "run.stop_after_steps=1",
                f"run.directory={folder / 'gradients'}")
    gradients = load_file(dumped)
    missing = sorted(set(peer.gradients) - set(gradients))
    report.same("a gradient for every tensor", not missing, f"missing {missing}" if missing else
                f"{len(peer.gradients)} tensors")
    both = [n for n in peer.gradients if n in gradients and n not in ZERO_GRADIENT]
    value, name = reference.worst(
        (n, reference.relative(gradients[n], peer.gradients[n])) for n in both)
    exact, _ = reference.worst(
        (n, reference.relative(gradients[n], peer.exact_values["gradients"][n])) for n in both)
    report.line("gradients, worst tensor", value, BOUNDS["gradients"], peer.own["gradients"],
                f"{name}; to fp64 {exact:.1e}")
    run_tessera(options, "train", run)
    losses, norms = our_curve(folder / "fp32")
    report.line(f"losses of {STEPS} steps", curve_distance(losses[:STEPS], peer.losses),
                BOUNDS["losses"], peer.own["losses"],
                f"to fp64 {curve_distance(losses[:STEPS], peer.exact_values['losses']):.1e}")
    report.line(f"norms of {STEPS} steps", curve_distance(norms[:STEPS], peer.norms),
                BOUNDS["norms"], peer.own["norms"],
                f"to fp64 {curve_distance(norms[:STEPS], peer.exact_values['norms']):.1e}")


def compare_bf16(options, work, family, peer, report):
    """200 steps: our bf16, our fp32 and PyTorch's autocast over fp32 weights."""
    curves = {}
    for precision in ("fp32", "bf16"):
        run = run_file(options, work, family, f"long-{precision}", precision, LONG_STEPS)
        run_tessera(options, "train", run)
        curves[precision] = our_curve(work / family / f"long-{precision}")[0]
    batches = our_batches(options, run, LONG_STEPS)
    peer.restore()
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        with reference.ComparedProducts() as products:
            reference.gradients_of(peer.model, batches[0].split(1)[0], autocast=True)
        report.line("autocast's GEMMs, in fp32",
                    max(products.differ / products.results, products.worst), WIDENED_BOUND,
                    note=f"{products.differ} of {products.results} differ, norm-wise {products.worst:.1e}")
    theirs, _ = reference.train(peer.model, batches, LEARNING_RATE, autocast=True)
    peer.restore()
    ours = smooth(curves["bf16"])
    report.line(f"bf16, {LONG_STEPS} steps, to autocast", curve_distance(ours, smooth(theirs)), BF16_BOUND)
    report.line(f"bf16, {LONG_STEPS} steps, to our fp32", curve_distance(ours, smooth(curves["fp32"])),
                BF16_BOUND)


def tensors_of(folder):
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as f:
            out |= {n: f.get_tensor(n) for n in f.keys()}
    return out


def compare_way_back(options, work, family, peer, report):
    folder = work / family
    exported = folder / "exported"
    run_tessera(options, "checkpoint", "export", folder / "fp32", "--to", exported)
    loader = AutoModelForSeq2SeqLM if encodes(family) else AutoModelForCausalLM
    theirs = loader.from_pretrained(exported, dtype=torch.float32)
    tokens = reference.inputs_of(peer.batches[0])
    with torch.no_grad():
        logits = reference.logits_of(theirs, tokens)
    ours = our_logits(options, folder / "fp32", tokens, folder)
    report.line("logits of the exported model", largest_distance(ours, logits), BOUNDS["logits"])
    untouched = run_file(options, work, family, "untouched", "fp32", 0)
    run_tessera(options, "train", untouched, "layout.data=2", "layout.tensor=2", "layout.zero=1",
                "run.threads=1", ranks=MPIRUN)
    run_tessera(options, "checkpoint", "export", folder / "untouched", "--to", folder / "again")
    before, after = tensors_of(folder / "hf"), tensors_of(folder / "again")
    wrong = sorted(n for n in before.keys() | after.keys()
                   if n not in before or n not in after
                   or before[n].dtype != after[n].dtype or before[n].shape != after[n].shape
                   or before[n].numpy().tobytes() != after[n].numpy().tobytes())
    report.same("bytes over a save of 2 x 2 ranks", not wrong, f"differ: {wrong}" if wrong else
                f"{len(before)} tensors, data 2 x tensor 2")


def prompts_of(options):
    lines = [l.strip()[:60] for l in pathlib.Path(options.text).read_text(
        encoding="utf-8", errors="replace").splitlines() if len(l.strip()) >= 60]
    return [lines[i * len(lines) // PROMPTS] for i in range(PROMPTS)]


def compare_ids(options, work, family, report):
    """Compares the ids of AutoTokenizer for an exported folder with ours."""
    folder, name = work / family, tokenizer_name(family)
    lines = [l.strip() for l in pathlib.Path(options.text).read_text(
        encoding="utf-8", errors="replace").splitlines() if l.strip() and "<unk>" not in l]  # that token's name, to them
    lines = [lines[i * len(lines) // TEXTS] for i in range(TEXTS)]
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": l}) + "\n" for l in lines))
    ours = run_tessera(options, "tokenizer", "encode", "--tokenizer", work / name,
                       folder / "lines.jsonl").splitlines()
    theirs = AutoTokenizer.from_pretrained(folder / "exported")
    wrong = [l for l, ids in zip(lines, ours, strict=True)
             if theirs(l, add_special_tokens=False).input_ids != [int(i) for i in ids.split()]]
    report.same("AutoTokenizer, ids of lines", not wrong,
                f"{len(wrong)} of {TEXTS} differ" + (f", such as {wrong[0][:60]!r}" if wrong else ""))
    if encodes(family):
        named = theirs.convert_tokens_to_ids([f"\u2581<extra_id_{i}>" for i in (0, SENTINELS - 1)])
        last = VOCABULARY - 1
        report.same("AutoTokenizer, sentinels", named == [last, last - SENTINELS + 1], str(named))


def compare_text(options, work, family, report):
    """Compares greedy text of the exported model in transformers with ours."""
    folder, t5 = work / family, encodes(family)
    loader = AutoModelForSeq2SeqLM if t5 else AutoModelForCausalLM
    model = loader.from_pretrained(folder / "exported", dtype=torch.float32).eval()
    end = model.config.eos_token_id
    differ = []
    for prompt in prompts_of(options):
        (folder / "prompt.txt").write_text(prompt)
        ids = [int(i) for i in run_tessera(options, "tokenizer", "encode", "--tokenizer",
                                           work / tokenizer_name(family),
                                           folder / "prompt.txt").split()]
        given = torch.tensor([[*ids, end] if t5 else ids])
        with torch.no_grad():
            out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False,
                                 max_new_tokens=NEW_TOKENS, pad_token_id=0,
                                 use_cache=False)[0].tolist()  # its cache needs equal numbers of layers in both stacks
        theirs = out[1 if t5 else len(ids):]
        theirs = theirs[:theirs.index(end)] if end in theirs else theirs
        ours = json.loads(run_tessera(
            options, "generate", folder / "fp32", "--prompt", prompt, "--max-tokens", NEW_TOKENS,
            "--temperature", 0, "--threads", options.threads, "--json"))["tokens"]
        if ours != theirs:
            differ.append(f"{ours} for {theirs}")
    report.same(f"greedy text, {PROMPTS} x {NEW_TOKENS} tokens", not differ, "; ".join(differ))


def compare_adafactor(options, work, family, peer, report):
    """Ours treats fused weights as one matrix each. GPT-2 and NeoX have them fused on both sides."""
    run = run_file(options, work, family, "adafactor", "fp32", LONG_STEPS, ADAFACTOR)
    run_tessera(options, "train", run)
    ours = our_curve(work / family / "adafactor")[0]
    batches = our_batches(options, run, LONG_STEPS)
    theirs, _ = reference.train(peer.model, batches, ADAFACTOR_RATE, clip_norm=0,
                                optimizer=reference.adafactor)
    last = 2 * SMOOTHED
    a, b = (sum(curve[-last:]) / last for curve in (ours, theirs))
    distance = curve_distance(smooth(ours), smooth(theirs))
    note = f"loss of the last {last}: {a:.4f}, transformers {b:.4f} ({(a - b) / b:+.2%})"
    if family in ("neox", "gpt2"):
        return report.line(f"adafactor, {LONG_STEPS} steps", distance, ADAFACTOR_BOUND, note=note)
    print(f"  ..  adafactor, {LONG_STEPS} steps: {distance:.2e} at most; {note}", flush=True)


def start(options, family, batches):
    """PyTorch's side, and what it computes where fp32 is compared."""
    if options.adafactor or options.only_bf16:
        return Peer(family, batches)
    tried = []
    for seed in STARTS:
        tried.append(Peer(family, batches, seed))
        tried[-1].measure()
        print(f"  start {seed}: ", end="")
        tried[-1].print_own()
        if tried[-1].own["norms"] <= STEADY:
            break
    return min(tried, key=lambda peer: peer.own["norms"])


def check_family(options, work, family, report):
    print(f"{family}: {LAYERS} layers x {HIDDEN}, {STEPS} steps of {GLOBAL_BATCH} x {TOKENS} tokens, "
          f"learning rate {LEARNING_RATE}", flush=True)
    if options.peer_only:
        peer = Peer(family, peer_batches(options))
        peer.measure()
        peer.print_own()
        return
    folder = work / family
    shutil.rmtree(folder, ignore_errors=True)  # kept from a run before
    folder.mkdir(parents=True)
    run = run_file(options, work, family, "fp32", "fp32", STEPS)
    peer = start(options, family, our_batches(options, run, STEPS))
    peer.model.save_pretrained(folder / "hf")
    tokenizer = tokenizer_name(family)
    (folder / "hf" / (tokenizer if encodes(family) else "tokenizer.json")).write_bytes(
        (work / tokenizer).read_bytes())
    run_tessera(options, "checkpoint", "import", "--from", folder / "hf", "--out", folder / "imported")
    if options.adafactor:
        return compare_adafactor(options, work, family, peer, report)
    if not options.only_bf16:
        compare_fp32(options, work, family, peer, run, report)
        compare_way_back(options, work, family, peer, report)
        compare_text(options, work, family, report)
        compare_ids(options, work, family, report)
    if not options.skip_bf16:
        compare_bf16(options, work, family, peer, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera", help="our program")
    parser.add_argument("--text", required=True, help="a text file of a megabyte or so")
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--keep", help="a folder for all files, kept: the next run reuses tokenizers and data")
    parser.add_argument("--skip-bf16", action="store_true")
    parser.add_argument("--only-bf16", action="store_true")
    parser.add_argument("--adafactor", action="store_true", help="only that optimizer")
    parser.add_argument("--peer-only", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="threads of both programs; default: all cores")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report = Report()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(options.keep or temporary).resolve()
        work.mkdir(parents=True, exist_ok=True)
        if not options.peer_only:
            corpus(options, work)
        for family in options.family or FAMILIES:
            check_family(options, work, family, report)
    if report.failures:
        print(f"parity: {len(report.failures)} bounds broken: {', '.join(report.failures)}")
        return 1
    print("parity: all bounds hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())

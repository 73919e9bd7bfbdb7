#!/usr/bin/env python3
"""Every layout trains like one rank: layouts sampled from a seed, each compared with one rank.

    scripts/check_layouts.py --count 200 --seed 1     layouts against one rank
    scripts/check_layouts.py --cover 300              every pair of features and 300 triples
    scripts/check_layouts.py --bits 4                 what must agree to the last bit
    scripts/check_layouts.py --any-to-any 40          saved in one layout, resumed in another
    scripts/check_layouts.py --evaluate 40            evaluated in layouts and on one rank
    scripts/check_layouts.py --context                layouts with layout.context above 1 only
    scripts/check_layouts.py --context --method heads the same with that layout.context_method only:
                                                      gather, balanced (gather, context_balance), heads
    scripts/check_layouts.py --seed 1 --only 17       case 17 again, with its files kept

A case is a tiny model, its data, 5 steps, and a layout of 2 to 8 ranks under mpirun. Case I of seed
S is the same on every machine. More than a third are uneven: a vocabulary or layers that do not
divide, fewer micro-batches than stages, dropout, clipping.

Count: relative differences to one rank of the same precision, the worst over the run:
    loss        |a - b| / |a| of each step                          fp32 1e-5   bf16 2e-3
    validation  the same of seven sequences after the last step     fp32 1e-5   bf16 2e-3
    norm        the same of the gradient norm                       fp32 1e-4   bf16 2e-2
    gradients   |a - b| / |a| of each global parameter at step 1    fp32 1e-4   bf16 5e-2
    parameters  the same of each weight and moment after step 5     fp32 1e-4   bf16 5e-2
    codes       the same of each moment that is stored in 8 bits    fp32 1.5e-2 bf16 1e-1
A rounding may give a moment the neighboring code, which is 1.4 % of its block's scale away: one in a
vector of 32 moments is a hundredth of its norm. Small second moments have neighboring codes that differ by
a factor of 2.4, which changes the steps of one weight by half: 5e-4 each of a matrix whose norm is 0.5 to 1.
So parameters have a bound of 1e-3 in fp32, in a row of their own; losses and gradients have the usual ones.
The bounds of bf16 (and bf16_sr) are a few of its roundings (2^-8 each), fewer where a sum averages
them; those of fp16 (2^-11 each) a quarter or a fifth. Where gradients are summed in 16 bits, too
(compiler.grad_accum_dtype: weight), each term is rounded once more: twice the bounds, in rows of their own.
Likewise where the loss is that of pairs of answers: it and its gradient are differences of two answers,
which cancel in part, and their roundings do not: four times the bounds. Beyond its bounds, a case in 16
bits may differ by twice what one rank in 16 bits differs from one rank in fp32: two layouts round at
different places, each as far.
AdamW's epsilon is well above a gradient's roundings (1e-6 in fp32 where its norm is 10): gradients
that are zero but for these, as of GPT-2's key biases, would else become steps of any size.
Optimizers are sampled, too, and now and then adapters, a frozen embedding or a batch-size warm-up.

Cover: the fewest cases that a greedy search finds for all pairs of features that any of 20,000 cases
has, and for N of their triples, sampled with the seed. Then the same comparison with one rank.

Bits: on one mesh, losses, norms, gradients and the last checkpoint are the same bytes
    of ZeRO 0 and 1 at any accumulation, of 0 to 3 with one micro-batch, of 2 and 3 at any;
    of 1 to 3 with one micro-batch and a zero_group;
    of gpipe, 1f1b and zero_bubble on the same cut; of overlap 0, 1 and 3; with and without offload;
    with tensor parallelism, of tp_comm_overlap off and on, in 1, 2 and 4 chunks;
    with expert parallelism, of ep_comm_overlap off and on.

Any to any: 5 steps in one layout, 5 more in another: losses within 3e-5 of ten on one rank. And the
first layout, stopped and resumed unchanged, gives the same bits as without the stop.

Evaluate: one checkpoint, on one rank and on the ranks of a layout, in fp32: the loss of a dataset within
1e-5 (relative), each log-likelihood of a task within 1e-4, and the same metrics.

Ends with 1 if anything differs, with 77 (skipped) where there is no mpirun.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from small_runs import (SKIPPED, RandomTexts, metrics, mpirun, optimizer_kinds, run_tessera,
                        unigram_tokenizer)

EVALUATED_LOSS, LIKELIHOOD = 1e-5, 1e-4
TASKS = {"choice": """\
kind: choice
data: asked.jsonl
form: "{prompt} {response}"
response: "{answers}"
gold: right
""", "word": """\
kind: last_word
data: asked.jsonl
form: "{prompt} {response}"
response: "{response_text}"
""", "written": """\
kind: exact_match
data: asked.jsonl
form: "{prompt} {response}"
response: "{response_text}"
answer: "{response_text}"
max_tokens: 4
"""}
RUN = """\
run: {{ name: layouts, directory: {folder}, seed: 7, threads: 1 }}
data: {{ tokenizer: {work}/tokenizer.json, train: [{work}/train], validation: [{work}/train] }}
optimizer: {{ learning_rate: 1.0e-3, weight_decay: 0.1 }}
schedule: {{ kind: constant, steps: {steps} }}
checkpoint: {{ every_steps: 0, resume: auto }}
metrics: {{ validate_every_steps: 0, validate_sequences: 7, tensorboard: false }}
divergence: {{ ratio: 0 }}
"""
BOUNDS = {"fp32": dict(loss=1e-5, validation=1e-5, norm=1e-4, gradients=1e-4, parameters=1e-4, codes=1.5e-2),
          "bf16": dict(loss=2e-3, validation=2e-3, norm=2e-2, gradients=5e-2, parameters=5e-2, codes=1e-1),
          "bf16_sr": dict(loss=2e-3, validation=2e-3, norm=2e-2, gradients=5e-2, parameters=5e-2, codes=1e-1),
          "fp16": dict(loss=5e-4, validation=5e-4, norm=5e-3, gradients=1e-2, parameters=1e-2, codes=5e-2)}
BOUNDS["fp32, codes"] = {**BOUNDS["fp32"], "parameters": 1e-3}
for kind in ["bf16", "bf16_sr", "fp16"]:
    for words, factor in ((", sums too", 2), (", pairs", 4), (", sums too, pairs", 8)):
        BOUNDS[kind + words] = {k: factor * v for k, v in BOUNDS[kind].items()}
EPSILON = {"fp32": 1e-4, "bf16": 1e-3, "bf16_sr": 1e-3, "fp16": 1e-3}
CONTINUED_LOSS = 3e-5
# Optimizers that make small steps from gradients that are rounding noise, if epsilon is large.
# The others may use the sign of the noise.
EXACT_SIZES = ("adamw", "adafactor", "sgd", "muon", "schedule_free")
FAMILIES = ["gpt2", "neox", "llama", "qwen2", "t5", "mixtral", "mistral", "smollm3", "phi3", "qwen3",
            "qwen3_moe", "gpt_oss", "olmo2", "gemma2", "gemma3", "deepseek_v2", "deepseek_v3"]
LATENT = ("deepseek_v2", "deepseek_v3")
# Families whose queries and keys are computed by GEMMs with weights alone, so optimizer.qk_clip can limit their scores.
CLIPPED = ("llama", "mixtral", "mistral", "smollm3", "phi3", "gemma2", *LATENT)
# Their norms after a sublayer divide by the size of its output, so gradients grow as that shrinks.
POST_NORMS = ("olmo2", "gemma2", "gemma3")
COVERED_CASES = 20000  # cases of which --cover chooses
RUN_SECONDS = 300  # longer counts as a hang: a run needs 2 s on free cores, up to 100 s on busy ones


# ---- Cases. A case is a dict of keys of the run file; those of `layout` are the layout.

def draw_mesh(rng):
    """data, tensor, pipeline of 2, 3, 4, 6 or 8 ranks."""
    ranks = rng.choice([2, 3, 4, 4, 6, 6, 8])
    meshes = [(d, t, ranks // d // t) for d in range(1, ranks + 1) for t in range(1, ranks + 1)
              if ranks % (d * t) == 0]
    return rng.choice(meshes)


def draw_model(rng, tensor, chunks, family=None):
    family = family or rng.choice(FAMILIES)
    heads = 12 if tensor % 3 == 0 else 8
    kv_heads = rng.choice([n for n in (heads, heads // 2, tensor) if n % tensor == 0])
    model = {"family": family, "heads": heads, "hidden": heads * rng.choice([4, 8]),
             "layers": rng.randint(max(2, chunks - 1), 6 if chunks < 6 else 8),
             "feed_forward": 24 * rng.randint(3, 6), "context": rng.choice([16, 17, 18, 21, 22, 24, 32]),
             "vocabulary": 257, "vocabulary_multiple": rng.choice([1, 1, 16]),
             "tied_embeddings": rng.random() < 0.5,
             "dropout": rng.choice([0.0, 0.0, 0.1]),
             "attention_dropout": rng.choice([0.0, 0.0, 0.1])}
    if family not in ("gpt2", "neox", "t5", *LATENT):
        # So that each is on several ranks, which a norm over all heads does not work with.
        few = [n for n in (1, 2) if n < tensor and family != "olmo2"]
        model["kv_heads"] = rng.choice(few) if few and rng.random() < 0.4 else kv_heads
    if family == "t5":
        encoder = rng.randint(1, model["layers"] - 1)
        model.update(encoder_layers=encoder, layers=model["layers"] - encoder, head_width=8,
                     vocabulary=311)
    if family == "neox":
        model.update(rotary_pct=0.5, parallel_residual=rng.random() < 0.5)
    if family in ("mixtral", "qwen3_moe", "gpt_oss", *LATENT):
        model.update(draw_experts(rng, model))
    if family in LATENT:
        model.update(draw_latent(rng))
    model.update(FEATURES.get(family, {}))
    if family in POST_NORMS:
        # This is as large as in a model of the published widths: 0.02 at 2500.
        model["init_std"] = round(model["hidden"] ** -0.5, 3)
    model.update(draw_kinds(rng, model))
    return {f"model.{key}": value for key, value in model.items()}


def draw_experts(rng, model):
    """Samples experts with one of several routers, in some cases with a dense layer. At least two are
    chosen: the renormalized weight of a single one is 1, so its router's gradient is rounding noise."""
    chosen = rng.randint(2, 3)
    router = rng.choice([{}, {"score": "sigmoid", "scale": 1.5}, {"renormalize": "false"},
                         {"score": "sigmoid", "groups": 2}, {"bias": "true", "bias_rate": 0.01}])
    router = {**router, "balance_loss": rng.choice([0, 0.05]), "z_loss": rng.choice([0, 0.01])}
    if "groups" in router:
        chosen = 2  # one of two groups of 4 experts has no more
    return {"experts": rng.choice([4, 6, 8]), "experts_per_token": chosen,
            "expert_feed_forward": 24 * rng.randint(1, 3),
            "dense_layers": [0] if rng.random() < 0.3 else [],
            **{f"router.{key}": value for key, value in router.items()}}


def draw_latent(rng):
    """Widths of latent attention, with a shared MLP next to the experts."""
    nope, rope = rng.choice([0, 4, 8]), rng.choice([2, 4, 8])
    return {"latent.query_rank": rng.choice([0, 12]), "latent.key_value_rank": 16,
            "latent.nope_width": nope, "latent.rope_width": rope,
            "latent.value_width": rng.randint(1, nope + rope),
            "shared_feed_forward": 24 * rng.randint(0, 2), "router.group_score":
            rng.choice(["top_two", "maximum"])}


# Features of the families that are off by default, with sizes that change the results.
FEATURES = {"mistral": {"window": 5}, "phi3": {"rotary_pct": 0.5},
            "gpt_oss": {"window": 7, "window_layers": [0]},
            "gemma2": {"attention_soft_cap": 0.5, "logit_soft_cap": 2, "attention_scalar": 3},
            "gemma3": {"window": 7, "window_layers": [0], "window_rope_theta": 100,
                       "rope_scaling.rope_type": "linear", "rope_scaling.factor": 4}}


def draw_kinds(rng, model):
    """Layers of several kinds, now and then: some without rotary embedding, with a window, or of
    another width."""
    some = [layer for layer in range(model["layers"]) if rng.random() < 0.4]
    if not some or model["family"] == "t5" or rng.random() < 0.6:
        return {}
    if model["family"] not in ("gpt2", *LATENT) and rng.random() < 0.5:
        return {"no_rope_layers": some}
    if rng.random() < 0.5:
        # With a window of 1 a softmax has one key, and the gradients of queries and keys are rounding noise.
        return {"window": rng.randint(2, 20), "window_layers": some}
    return {"wide_layers": some, "wide_feed_forward": 24 * rng.randint(1, 8)}


def rounding_of(case):
    """The row of BOUNDS."""
    if case["precision"] == "fp32":
        return "fp32" + (", codes" if "optimizer.moment_dtype" in case else "")
    halves, pairs = case["compiler.grad_accum_dtype"] == "weight", "objective.kind" in case
    return case["precision"] + (", sums too" if halves else "") + (", pairs" if pairs else "")


def draw_texts(rng, family):
    """`texts`: one long text; another blend from the third step on; short ones with attention within
    each; answers of 1 to 12 tokens, which make very unequal numbers of loss tokens per rank and
    micro-batch. With an encoder: masked spans of a text; pairs of texts, padded."""
    encodes = family == "t5"
    return rng.choice(["spans", "pairs"] if encodes else ["one", "one", "stages", "apart", "instructions"])


def layers_of(case):
    return case["model.layers"] + case.get("model.encoder_layers", 0)


def draw_schedule(rng, stages):
    """Uses several chunks per stage if there are at most eight in all, since the models are small."""
    schedule = rng.choice(["gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"])
    interleaves = [n for n in (2, 3) if n * stages <= 8] or [1]
    return schedule, rng.choice(interleaves) if schedule == "interleaved_1f1b" else 1


def cut(rng, layers, chunks):
    """Layers of each chunk by hand, at random; some may have none."""
    marks = sorted(rng.randint(0, layers) for _ in range(chunks - 1))
    return [b - a for a, b in zip([0, *marks], [*marks, layers])]


def draw_layout(rng, mesh, schedule, interleave, model):
    data, tensor, stages = mesh
    experts = math.gcd(data, model.get("model.experts", 1))
    expert = rng.choice([n for n in range(1, experts + 1) if experts % n == 0])
    groups = [n for n in range(1, data // expert + 1) if data // expert % n == 0]
    layout = {"data": data, "tensor": tensor, "pipeline": stages, "context": 1, "expert": expert,
              "sequence_parallel": rng.random() < 0.5,
              "pipeline_schedule": schedule, "interleave": interleave, "zero": rng.randint(0, 3),
              "zero_group": rng.choice([0, rng.choice(groups)]),
              "zero_reduce": rng.choice(["last", "each"]), "overlap": rng.choice([0, 1, 1, 3]),
              "recompute": rng.choice(["none", "none", "selective", "full", "full:1"])}
    if stages > 1 and rng.random() < 0.3:
        layout["stages"] = cut(rng, layers_of(model), stages * interleave)
    return {f"layout.{key}": value for key, value in layout.items()}


def draw_context(rng, case):
    """The case with its sequences divided, too, if that makes 8 ranks at most and its tokens can be
    divided; a layout that is sampled for a given model divides only those that divide."""
    ranks, tensor = ranks_of(case), case["layout.tensor"] if case["layout.sequence_parallel"] else 1
    degrees = [n for n in (2, 4) if ranks * n <= 8 and case["model.context"] % (n * tensor) == 0]
    if case["model.family"] == "t5" or case["compiler.attention"] == "unfused" or not degrees:
        return case
    degree = rng.choice(degrees)
    methods = [name for name in METHODS if method_fits(case, name, degree)]
    return {**case, "layout.context": degree, **METHODS[rng.choice(methods)]}


# How attention sees the tokens of other ranks.
METHODS = {"gather": {"layout.context_method": "gather", "layout.context_balance": False},
           "balanced": {"layout.context_method": "gather", "layout.context_balance": True},
           "ring": {"layout.context_method": "ring", "layout.context_balance": True},
           "plain ring": {"layout.context_method": "ring", "layout.context_balance": False},
           "heads": {"layout.context_method": "heads", "layout.context_balance": False}}


def method_fits(case, method, context):
    """Whether the tokens can be divided into two chunks per rank; or the heads among the ranks, and
    also the key/value heads where several ranks cannot hold the same ones."""
    chunks = 2 * context if method in ("balanced", "ring") else context
    if case["model.context"] % chunks != 0:
        return False
    if method in ("ring", "plain ring"):
        masked = case.get("model.attention_dropout", 0) > 0
        return not case.get("compiler.tp_comm_overlap") and not (
            masked and case["model.context"] // chunks % 4 != 0)
    if method == "balanced":
        return True
    ranks = case["layout.tensor"] * context
    whole = (case["optimizer.kind"] in ("adafactor", "muon") or "lora.rank" in case
             or "optimizer.groups" in case or case["model.family"] == "olmo2")
    return method == "gather" or (case["model.heads"] % ranks == 0
                                  and not (whole and copies_heads(case, ranks)))


def method_of(case):
    """The name in METHODS; nothing for a case whose sequences are not divided."""
    return next((name for name, keys in METHODS.items() if keys.items() <= case.items()), None)


def draw(rng, precision=None, family=None, context=False, method=None):
    """With `context`, a case whose sequences are divided; with `method`, by that one of METHODS."""
    while True:
        case = draw_without_context(rng, precision, family)
        own = random.Random(f"context {json.dumps(case)}")
        if context or own.random() < 0.25:
            case = draw_context(own, case)
        if not context or (case["layout.context"] > 1 and method in (None, method_of(case))):
            return with_expert_overlap(case)


def draw_without_context(rng, precision, family):
    mesh = data, tensor, stages = draw_mesh(rng)
    schedule, interleave = draw_schedule(rng, stages)
    model = draw_model(rng, tensor, stages * interleave, family)
    model["texts"] = draw_texts(rng, model["model.family"])
    attention = rng.choice(["fused", "unfused"])
    micro, accumulation = rng.randint(1, 2), rng.choice([1, 2, 3, 4, 5])
    precision = precision or rng.choice(["fp32"] * 6 + ["bf16", "bf16_sr", "fp16"])
    if "model.experts" in model:  # rounding to 16 bits may change the chosen experts
        precision = "fp32"
    optimizer = draw_optimizer(rng, model["model.family"], precision)
    tuning = draw_tuning(rng, optimizer)
    if "lora.rank" in tuning:  # at most the smaller side of each matrix, such as k_rope's rows
        tuning["lora.rank"] = min(tuning["lora.rank"], model.get("model.latent.rope_width", 4))
    if precision == "fp16" and model["model.family"] in POST_NORMS:
        model["loss_scale.initial"] = 16  # so that the first step, which is compared, does not overflow
    if copies_heads(model, tensor):  # LoRA, Adafactor and Muon do not support it
        tuning = {} if "lora.rank" in tuning else tuning
        if optimizer["optimizer.kind"] == "adafactor":
            optimizer = optimizer_of("adamw", precision)
    return with_expert_adapters(with_capacity(with_objective(with_mup(with_ahead(with_terms(with_8bit_moments(with_groups(with_matrices(without_overlap({
            **model, **optimizer, **tuning, "precision": precision,
            "batch.global": data * micro * accumulation, "batch.micro": micro,
            "optimizer.clip_norm": rng.choice([0.0, 1.0]),
            "compiler.attention": attention if model["texts"] in ("one", "stages") else "fused",
            "compiler.cross_entropy": rng.choice(["fused", "unfused"]),
            "compiler.fuse_residual_norm": rng.random() < 0.8,
            **draw_layout(rng, mesh, schedule, interleave, model), **draw_sums(rng, precision),
            **draw_ramp(rng, data * micro),
            "layout.offload": rng.choice(["none", "none", "activations", "activations:1"]),
            "compiler.tp_comm_overlap": tensor > 1 and rng.random() < 0.5,
            "compiler.tp_comm_chunks": rng.choice([1, 2, 4])}))))))))))


def without_overlap(case):
    """The case without what overlapped collectives of tensor ranks do not support."""
    if case["model.family"] == "t5" or case["layout.recompute"].startswith("full"):
        case["compiler.tp_comm_overlap"] = False
    return case


def with_matrices(case):
    """A quarter of the cases with AdamW have Muon for the matrices of layers, sampled with the case as
    seed."""
    rng = random.Random("muon" + json.dumps(case))
    if (case["optimizer.kind"] != "adamw" or rng.random() < 3 / 4 or "lora.rank" in case
            or copies_heads(case, case["layout.tensor"])):
        return case
    case = {**case, "optimizer.kind": "muon", "optimizer.nesterov": rng.random() < 0.5,
            "optimizer.update_scale": rng.choice(["spectral", "shape"]),
            "optimizer.newton_schulz_coefficients": rng.choice(["simple", "quintic", "polar_express"])}
    # A limit that the scores of small models pass.
    if case["model.family"] in CLIPPED and rng.random() < 0.7:
        case["optimizer.qk_clip"] = rng.choice([0.003, 0.03])
    return case


def with_8bit_moments(case):
    """Moments in 8 bits in a third of the cases without tensor-parallel ranks whose optimizer supports them,
    sampled with the case as seed. These models are too narrow for whole blocks on several such ranks."""
    rng = random.Random("moments" + json.dumps(case))
    if (rng.random() < 2 / 3 or case["optimizer.kind"] not in ("adamw", "lion", "sgd")
            or case["layout.tensor"] > 1 or "optimizer.groups" in case
            or (case["layout.expert"] > 1 and ("lora.rank" in case or case["model.family"] == "gpt_oss"))):
        return case
    return {**case, "optimizer.moment_dtype": "8bit"}


def with_terms(case):
    """Terms of the loss in a third of the cases, and means of the weights in a third, sampled with the
    case as seed."""
    rng = random.Random("terms" + json.dumps(case))
    if rng.random() < 1 / 3:
        case = {**case, "loss.z_loss": rng.choice([0, 0.01]), "loss.label_smoothing": rng.choice([0, 0.2])}
    if rng.random() < 1 / 3 and case["optimizer.kind"] != "schedule_free":
        case = {**case, "optimizer.ema": 0.75}
    return case


def with_expert_adapters(case):
    """Adapters of the experts in two thirds of the cases with LoRA that have experts, sampled with the case as
    seed."""
    rng = random.Random("adapters" + json.dumps(case))
    if not case.get("model.experts") or "lora.rank" not in case or "lora.kind" in case:
        return case
    up, down = "experts.gate_up_proj", "experts.down_proj"
    targets = rng.choice([None, [up, down], [rng.choice([up, down]), "all-linear"]])
    return {**case, "lora.targets": f"[{', '.join(targets)}]"} if targets else case


def adapts_experts(case):
    return "experts" in case.get("lora.targets", "")


def with_ahead(case):
    """Multi-token prediction in a quarter of the cases, sampled with the case as seed."""
    rng = random.Random("ahead" + json.dumps(case))
    if case["model.family"] in ("gpt2", "neox", "t5", "gpt_oss") or rng.random() < 3 / 4:
        return case
    kinds = json.dumps([case["optimizer.kind"], case.get("optimizer.groups", "")])
    if "adafactor" in kinds:
        return case  # not supported
    return {**case, "model.mtp_depth": rng.choice([1, 1, 2]), "loss.mtp_weight": rng.choice([0.1, 0.5])}


def with_mup(case):
    """Maximal update parametrization in a quarter of the cases, sampled with the case as seed."""
    rng = random.Random("mup" + json.dumps(case))
    kinds = json.dumps([case["optimizer.kind"], case.get("optimizer.groups", "")])
    if (case["model.family"] == "t5" or "sgd" in kinds or "adafactor" in kinds or rng.random() < 3 / 4):
        return case
    return {**case, "model.mup.base": case["model.hidden"] // rng.choice([1, 2, 4]),
            "model.mup.base_head_width": rng.choice([0, 4])}


def with_objective(case):
    """A sixth of the cases of decoders learn from pairs of answers, sampled with the case as seed."""
    rng = random.Random("objective" + json.dumps(case))
    terms = ("loss.z_loss", "loss.label_smoothing", "model.router.balance_loss", "model.router.z_loss",
             "model.mtp_depth")
    if case["texts"] in ("spans", "pairs") or rng.random() < 5 / 6 or any(case.get(key) for key in terms):
        return case
    divides = case["model.context"] % case["layout.tensor"] == 0  # padding is not supported
    return {**case, "texts": "preferred", "compiler.attention": "fused",
            "layout.sequence_parallel": case["layout.sequence_parallel"] and divides,
            "objective.kind": rng.choice(["dpo", "ipo", "orpo", "kto", "simpo", "reward"])}


def with_capacity(case):
    """Two thirds of the cases with experts limit their capacity, sampled with the case as seed."""
    rng = random.Random("capacity" + json.dumps(case))
    if not case.get("model.experts") or case.get("objective.kind"):
        return case  # not supported with pairs of answers
    return {**case, "model.router.capacity_factor": rng.choice([0, 0.75, 1.25])}


def with_expert_overlap(case):
    """Half of the cases whose experts are divided overlap the exchange of tokens, sampled with the case as
    seed."""
    rng = random.Random("expert overlap" + json.dumps(case))
    return {**case, "compiler.ep_comm_overlap": case["layout.expert"] > 1 and rng.random() < 0.5}


def with_groups(case):
    """A third of the cases with other optimizers for some weights, sampled with the case as seed."""
    rng = random.Random(json.dumps(case))
    if rng.random() < 2 / 3:
        return case
    factored = "sgd" if copies_heads(case, case["layout.tensor"]) else "adafactor"
    square = EPSILON[case["precision"]] ** 2
    groups = rng.sample([
        "{match: ['*norm*'], kind: sgd, beta1: 0.9}",
        f"{{match: [embed.*], kind: {factored}, epsilon: {square:.1e}}}",
        "{match: ['*.mlp.*'], learning_rate_multiplier: 0.5, weight_decay: 0.2, weight_decay_applies_to: all}",
        "{match: [embed.*, '*.attn.*'], kind: sgd, beta1: 0}"], rng.randint(1, 3))
    case = {**case, "optimizer.groups": f"[{', '.join(groups)}]"}
    if "*.attn.*" in case["optimizer.groups"]:  # then Muon does not train queries and keys
        case.pop("optimizer.qk_clip", None)
    return case


def draw_ramp(rng, together):
    """Now and then, two steps of one micro-batch per rank before the others."""
    return rng.choice([{}] * 3 + [{"batch.warmup_sizes": f"[{together}]", "batch.warmup_steps_per_size": 2}])


def draw_sums(rng, precision):
    """How gradients are summed and sent; with fp32 all of these are the same. Sums over tokens
    overflow f16 at a loss scale that their terms bear, and then a step is skipped."""
    wide = precision == "fp16"
    return {"compiler.grad_accum_dtype": rng.choice(["f32", "f32" if wide else "weight"]),
            "compiler.grad_reduce_dtype": rng.choice(["accum", "accum" if wide else "weight"]),
            "compiler.fuse_grad_accumulation": rng.choice([True, False]),
            "compiler.bucket_bytes": rng.choice([0, 0, 1000, 20000]),
            "compiler.dropout_masks": rng.choice(["regenerate", "store"])}


def optimizer_of(kind, precision):
    """Keys of an optimizer, such that what is but a rounding of a gradient moves no weight."""
    keys = {"optimizer.kind": kind}
    if kind in ("adamw", "adafactor", "muon", "schedule_free"):  # one adds it to a square, the others to a root
        epsilon = EPSILON[precision]
        keys["optimizer.epsilon"] = epsilon ** 2 if kind == "adafactor" else epsilon
    if kind not in EXACT_SIZES:
        keys["optimizer.learning_rate"] = 1e-4
    return keys


def draw_optimizer(rng, family, precision):
    """Chooses one that uses signs only if no gradient is rounding noise around zero, as those of the
    key biases of GPT-2 and NeoX are."""
    others = sorted(set(optimizer_kinds()) - {"adamw", "adafactor", "muon"}, reverse=True)
    kind = rng.choice(["adamw"] * 4 + ["adafactor"] * 2 + others)
    signs = kind not in EXACT_SIZES
    return optimizer_of("adamw" if signs and family != "llama" else kind, precision)


def draw_tuning(rng, optimizer):
    """Adapters or a frozen embedding, now and then. An adapter's second matrix starts at zero, so
    where updates are signs it is a sum of them, and one that a rounding turns is far above any bound."""
    adapters = [{"lora.rank": 4}, {"lora.rank": 4, "lora.kind": "dora"}]
    tuning = rng.choice([{}] * 6 + adapters + [{"optimizer.freeze": "[embed.*]"}])
    signs = optimizer["optimizer.kind"] not in EXACT_SIZES
    return {} if signs and "lora.rank" in tuning else tuning


def copies_heads(case, tensor):
    """Whether several tensor ranks hold the same key/value heads."""
    return case.get("model.kv_heads", case["model.heads"]) % tensor != 0


def ranks_of(case):
    return (case["layout.data"] * case["layout.context"] * case["layout.tensor"]
            * case["layout.pipeline"])


def micro_batches(case):
    return case["batch.global"] // case["layout.data"] // case["batch.micro"]


def uneven(case):
    """Returns names of the sizes of this case that do not divide evenly, or differ between ranks."""
    padded = -(-case["model.vocabulary"] // case["model.vocabulary_multiple"])
    padded *= case["model.vocabulary_multiple"]
    stages = case["layout.pipeline"]
    found = {"vocabulary": padded % case["layout.tensor"],
             "layers": layers_of(case) % (stages * case["layout.interleave"]),
             "few micro-batches": micro_batches(case) < stages,
             "dropout": case["model.dropout"] + case["model.attention_dropout"] > 0,
             "clipping": case["optimizer.clip_norm"] > 0}
    return [word for word, is_so in found.items() if is_so]


def features_of(case):
    """Names of what this case has of parallelism, models of 2026 and training: see --cover."""
    found = {"tensor": case["layout.tensor"] > 1,
             "sequence parallel": case["layout.tensor"] > 1 and case["layout.sequence_parallel"],
             f"pipeline {case['layout.pipeline_schedule']}": case["layout.pipeline"] > 1,
             f"zero {case['layout.zero']}": case["layout.data"] * case["layout.context"] > 1,
             f"context {method_of(case)}": case["layout.context"] > 1,
             "expert parallel": case["layout.expert"] > 1,
             "expert overlap": case["compiler.ep_comm_overlap"],
             f"router {router_of(case)}": "model.experts" in case,
             "capacity": case.get("model.router.capacity_factor", 0) > 0,
             "multi-token": "model.mtp_depth" in case,
             "muon": case["optimizer.kind"] == "muon",
             "moments in 8 bits": "optimizer.moment_dtype" in case,
             "optimizer groups": "optimizer.groups" in case,
             case.get("lora.kind", "lora"): "lora.rank" in case,
             "adapters of experts": adapts_experts(case),
             f"recompute {case['layout.recompute'].partition(':')[0]}": case["layout.recompute"] != "none",
             "offload": case["layout.offload"] != "none",
             case["precision"]: case["precision"] != "fp32"}
    return [name for name, is_so in found.items() if is_so]


def router_of(case):
    kinds = {"groups": "model.router.groups" in case, "bias": "model.router.bias" in case,
             "loss": case.get("model.router.balance_loss", 0) > 0}
    kind = "sigmoid" if case.get("model.router.score") == "sigmoid" else "softmax"
    return " ".join([kind, *(name for name, is_so in kinds.items() if is_so)])


def covering(cases, triples, rng):
    """Returns the numbers of cases that have all pairs of features of the others and as many triples
    as given; then the pairs and triples, and the pairs of features that no case has."""
    sets = [{k: set(itertools.combinations(sorted(features_of(case)), k)) for k in (1, 2, 3)}
            for case in cases]
    seen = {k: set().union(*(s[k] for s in sets)) for k in (1, 2, 3)}
    drawn = set(rng.sample(sorted(seen[3]), min(triples, len(seen[3]))))
    missing, chosen = seen[2] | drawn, []
    while missing:
        gains = [len(missing & s[2]) + len(missing & s[3]) for s in sets]
        chosen.append(gains.index(max(gains)))
        missing -= sets[chosen[-1]][2] | sets[chosen[-1]][3]
    names = sorted(name for name, in seen[1])
    never = [pair for pair in itertools.combinations(names, 2) if pair not in seen[2]
             and pair[0].split()[0] != pair[1].split()[0]]
    return chosen, seen[2], set().union(*(sets[i][3] for i in chosen)), never


def one_rank(case):
    """The same training without a layout; a sequence at a time, which is the plainest program."""
    plain = {key: value for key, value in case.items()
             if not key.startswith(("layout.", "compiler."))}
    return {**plain, "batch.micro": 1, "layout.data": 1, "layout.context": 1,
            "layout.tensor": 1, "layout.pipeline": 1}


def keys(case):
    text = {True: "true", False: "false"}
    return [f"{key}={text.get(value, value) if isinstance(value, bool) else value}"
            for key, value in case.items() if key != "texts"]


def data_keys(case, work):
    asked = ["data.train=[]", f"data.instructions=[{work}/asked.jsonl]",
             "data.template={prompt}{response}", "data.long_examples=truncate"]
    pieces = [f"data.tokenizer={work}/spiece.model"]
    return {"one": [],
            "spans": [*pieces, f"data.train=[{work}/pieces]", f"data.validation=[{work}/pieces]",
                      "data.objective=span_corruption"],
            "pairs": [*asked, *pieces, "data.validation=[]",
                      f"data.target_length={case['model.context']}"],
            "stages": [f"data.stages=[{{from_tokens: {2 * case['batch.global'] * case['model.context']}"
                       f", train: [{work}/lines, {work}/train]}}]"],
            "apart": [f"data.train=[{work}/lines]", f"data.validation=[{work}/lines]",
                      "data.intra_document_masking=true"],
            "preferred": ["data.train=[]", f"data.instructions=[{work}/preferred.jsonl]",
                          "data.long_examples=truncate", f"data.validation=[{work}/preferred.jsonl]"],
            "instructions": [*asked, f"data.validation=[{work}/asked.jsonl]",
                             "data.intra_document_masking=true"]}[case["texts"]]


def layout_words(case):
    return " ".join(key.removeprefix("layout.") for key in keys(case) if key.startswith("layout."))


def fits(case, mesh, chunks):
    data, tensor, _ = mesh
    whole = case["optimizer.kind"] in ("adafactor", "muon") or "lora.rank" in case
    return (case["model.heads"] % tensor == 0 and not (whole and copies_heads(case, tensor))
            and case["batch.global"] % (data * case["batch.micro"]) == 0
            and int(case.get("batch.warmup_sizes", "[0]")[1:-1]) % (data * case["batch.micro"]) == 0
            and chunks <= layers_of(case) + 1)


def follow(rng, case):
    """The case in another layout."""
    while True:
        mesh = draw_mesh(rng)
        schedule, interleave = draw_schedule(rng, mesh[2])
        if fits(case, mesh, mesh[2] * interleave):
            break
    plain = {key: value for key, value in case.items() if not key.startswith("layout.")}
    return draw_context(rng, {**plain, **draw_layout(rng, mesh, schedule, interleave, case)})


def draw_where(rng, wanted):
    """A case with that property, for the equality of bits."""
    precision = rng.choice(["fp32", "bf16_sr"])
    while not wanted(case := draw(rng, precision)):
        pass
    return case


def variants(case, key, values):
    return [{**case, key: value} for value in values]


def zero_cases(rng):
    """ZeRO 0 has neither zero_group nor zero_reduce, which change the order of sums in the other stages."""
    hybrid = draw_where(rng, lambda c: c["layout.data"] > 1)
    hybrid["compiler.grad_reduce_dtype"] = "accum"  # an all_reduce in 16 bits rounds once more
    case = {**hybrid, "layout.zero_group": 0, "layout.zero_reduce": "last"}
    single = {"batch.global": case["layout.data"] * case["batch.micro"]}
    return [variants(case, "layout.zero", [0, 1]), variants(hybrid, "layout.zero", [2, 3]),
            variants({**case, **single}, "layout.zero", [0, 1, 2, 3]),
            variants({**hybrid, **single}, "layout.zero", [1, 2, 3])]


def schedule_cases(rng):
    case = draw_where(rng, lambda c: c["layout.pipeline"] > 1 and c["layout.interleave"] == 1)
    case["layout.stages"] = cut(rng, layers_of(case), case["layout.pipeline"])
    return [variants(case, "layout.pipeline_schedule", ["gpipe", "1f1b", "zero_bubble"])]


def overlap_cases(rng):
    return [variants(draw(rng, "fp32"), "layout.overlap", [0, 1, 3])]


def tensor_overlap_cases(rng):
    """Micro-batches of four sequences on two tensor ranks. With unfused accumulation, each rank has
    four key/value heads, too, so the first dimension of its QKV weight is as long; zero_bubble
    would compute the gradient of that weight in another segment, which is not cut into chunks."""
    case = draw_where(rng, lambda c: c["layout.tensor"] == 2 and c["model.family"] != "t5"
                      and not c["layout.recompute"].startswith("full"))
    case["batch.global"] = case["batch.global"] // case["batch.micro"] * 4
    case["batch.micro"] = 4
    case = {key: value for key, value in case.items() if not key.startswith("batch.warmup")}
    fused, unfused = ({**case, "compiler.fuse_grad_accumulation": kind} for kind in (True, False))
    if "model.kv_heads" in unfused:
        unfused["model.kv_heads"] = unfused["model.heads"]
    if unfused["layout.pipeline_schedule"] == "zero_bubble":
        unfused["layout.pipeline_schedule"] = "1f1b"
    return [[{**c, "compiler.tp_comm_overlap": chunks > 0,
              "compiler.tp_comm_chunks": max(chunks, 1)} for chunks in (0, 1, 2, 4)]
            for c in (fused, unfused)]


def expert_overlap_cases(rng):
    case = draw_where(rng, lambda c: c["layout.expert"] > 1)
    return [variants(case, "compiler.ep_comm_overlap", [False, True])]


def offload_cases(rng):
    """Activations may go to the host, with each precision."""
    copies = ["none", "activations", "activations:1"]
    precision = rng.choice(["fp32", "fp32", "bf16", "bf16_sr"])
    return [variants(draw(rng, precision), "layout.offload", copies)]


# ---- Runs.

class Broken(Exception):
    """A run that failed, with the end of its output."""


def last_words(said):
    """Returns the errors of the ranks or, without any, the end of the output."""
    errors = [line for line in said.splitlines() if line.startswith("tessera: ")]
    return "\n    ".join(errors[:4]) or said[-1500:]


class Place:
    """A folder with tokenizer and data, and the program."""

    def __init__(self, tessera, work):
        self.tessera, self.work = tessera, work
        texts, text, tokenizer = RandomTexts(work), work / "text.txt", work / "tokenizer.json"
        self.say("tokenizer", "train", "--vocabulary", 257, "--out", tokenizer, text)
        self.say("data", "build", "--tokenizer", tokenizer, "--out", work / "train", text)
        pieces = unigram_tokenizer(tessera, work)
        self.say("data", "build", "--tokenizer", pieces, "--out", work / "pieces", text)
        self.say("data", "build", "--tokenizer", tokenizer, "--split", "lines", "--out",
                 work / "lines", work / "lines.txt")
        asked = texts.examples()
        (work / "asked.jsonl").write_text("\n".join(asked))
        (work / "preferred.jsonl").write_text("\n".join(texts.pairs()))
        (work / "tasks").mkdir(exist_ok=True)
        lines = [json.loads(line) for line in asked[:7]]
        (work / "tasks" / "asked.jsonl").write_text("".join(
            json.dumps({"prompt": line["prompt"], "answers": ["ae", "ou aeou", "o"], "right": k % 3,
                        "response_text": line["response"]}) + "\n" for k, line in enumerate(lines)))
        for name, text in TASKS.items():
            (work / "tasks" / f"{name}.yaml").write_text(text)

    def say(self, *words):
        run_tessera(self.tessera, *words)

    def train(self, folder, case, *more, steps=5):
        """Trains in `folder`; what it wrote there, and the gradients of its first step."""
        folder.mkdir(exist_ok=True)
        (folder / "run.yaml").write_text(RUN.format(folder=folder, work=self.work, steps=steps))
        ranks = ranks_of(case)
        start = [] if ranks == 1 else [*mpirun(RUN_SECONDS), "-n", str(ranks)]
        command = [*start, str(self.tessera), "train", str(folder / "run.yaml"), *keys(case),
                   *data_keys(case, self.work),
                   f"run.dump_gradients={folder / 'gradients'}", *more]
        with (folder / "said.txt").open("a") as said:
            said.write(" ".join(command) + "\n")
            said.flush()
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                  env=dict(os.environ, OMP_NUM_THREADS="1")).returncode
        if code:
            raise Broken(f"ended with {code}: {last_words((folder / 'said.txt').read_text())}")
        return Trained(self, folder, steps, case)


    def evaluate(self, checkpoint, data, layout="copies", ranks=1):
        """The loss of `data`, the metrics of the tasks, and all log-likelihoods and texts."""
        rows = self.work / "rows.jsonl"
        start = [] if ranks == 1 else [*mpirun(RUN_SECONDS), "-n", str(ranks)]
        command = [*start, str(self.tessera), "eval", str(checkpoint), str(data), "--allow-foreign-tokenizer",
                   "--layout", layout, "--examples", str(rows), "--force", "--threads", "1", "--samples", "9", "--json"]
        for name in TASKS:
            command += ["--task", str(self.work / "tasks" / f"{name}.yaml")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=dict(os.environ, OMP_NUM_THREADS="1"))
        if done.returncode:
            raise Broken(f"eval --layout {layout} ended with {done.returncode}: {last_words(done.stderr)}")
        loss, *tasks = json.loads(done.stdout)["results"]
        lines = [json.loads(line) for line in rows.read_text().splitlines()]
        return (loss["loss"], [t["metrics"] for t in tasks],
                [x for line in lines for x in line.get("log_likelihood", [])],
                [line["written"] for line in lines if "written" in line])


class Trained:
    """The results of a run: metrics of its steps, its first gradients, its last checkpoint."""

    def __init__(self, place, folder, steps, case):
        self.place = place
        # A reward model learns only from differences of scores, in which a bias cancels: the gradient of the
        # bias contains only rounding errors. So its weights and moments are compared only where bits must be equal.
        self.unlearned = "head.norm.bias" if case.get("objective.kind") == "reward" else None
        lines = metrics(folder)
        # The losses of routers and the z-loss are added to the training loss.
        self.steps = [(line["step"], line["loss"] + line.get("router_loss", 0) + line.get("z_loss", 0),
                       line["grad_norm"])
                      for line in lines if "loss" in line]
        # The loss of a pair of answers is computed from rewards, which may be larger than it.
        self.rewards = [abs(line.get("rewards_chosen") or 0) + abs(line.get("rewards_rejected") or 0)
                        for line in lines if "loss" in line]
        validated = [line for line in lines if line["step"] == steps and "validation_loss" in line]
        self.validation = [line["validation_loss"] for line in validated]
        self.validation_rewards = [sum(abs(line.get(f"validation_rewards_{which}") or 0)
                                       for which in ("chosen", "rejected")) for line in validated]
        self.gradients, self.checkpoint = folder / "gradients", folder / "checkpoints" / str(steps)

    def worst(self, other):
        """{measure: difference} to another run of the same length."""
        if [s[0] for s in self.steps] != [s[0] for s in other.steps]:
            raise Broken(f"{len(other.steps)} steps recorded, expected {len(self.steps)}")
        return {"loss": relative(((a[1], b[1]) for a, b in zip(self.steps, other.steps)), self.rewards),
                # A step whose gradients overflow in fp16 is skipped; its norm is not finite in either run.
                "norm": relative((a[2], b[2]) for a, b in zip(self.steps, other.steps) if (a[2], b[2]) != (None, None)),
                "validation": relative(zip(self.validation, other.validation), self.validation_rewards)
                if self.validation or other.validation else 0.0}

    def tensors(self, other, what, equal_bits=False, any_type=False, among=lambda name: True):
        """(largest difference of a tensor of the checkpoint `what`, its name); 0 if equal bits.
        `any_type`: a tensor may be stored in 16 bits by one run and in f32 by the other."""
        done = subprocess.run([self.place.tessera, "checkpoint", "diff", "--json",
                               getattr(self, what), getattr(other, what)],
                              capture_output=True, text=True)
        if not done.stdout:
            raise Broken(done.stderr[-1000:])
        said = json.loads(done.stdout)
        if not said["compared"]:
            raise Broken(f"{getattr(self, what)} is empty")
        return max(((tensor_gap(t, any_type), t["name"]) for t in said["tensors"]
                    if among(t["name"]) and (equal_bits or t["name"].split("|")[0] != self.unlearned)),
                   default=(0.0, ""))


def relative(pairs, scales=()):
    """The largest difference of a pair, as a share of its first number, or of its scale if that is larger."""
    gaps = [math.nan if None in (a, b) else abs(a - b) / max(abs(a), scale)
            for (a, b), scale in itertools.zip_longest(pairs, scales, fillvalue=0.0)]
    return math.inf if any(math.isnan(gap) for gap in gaps) else max(gaps, default=math.inf)


def tensor_gap(found, any_type):
    """Returns the relative difference of a tensor; infinity if it is missing, has another shape or type or a NaN,
    or if the first one is zero and the other is not."""
    gap = found["relative"]
    if found["what"] or (found["types"] and not any_type) or gap is None or not math.isfinite(gap) or (gap == 0 and found["largest"]):
        return math.inf
    return max(gap, sys.float_info.min)


def bits_differ(a, b, folders=("gradients", "checkpoint")):
    """Describes the first difference of two runs; empty if there is none."""
    for first, second in zip(a.steps, b.steps):
        if first != second:
            return f"    (step, loss, norm) is {first} and {second}"
    if a.validation != b.validation:
        return f"    the validation loss is {a.validation} and {b.validation}"
    for folder in folders:
        gap, name = a.tensors(b, folder, equal_bits=True)
        if gap:
            return f"    {folder} differ by {gap:.2e} in {name}"
    return "" if len(a.steps) == len(b.steps) else "    another number of steps"


# ---- Comparisons.

def distances(a, b, case, any_type=False):
    """The largest difference of two runs of a case in each measure of BOUNDS, and where it is."""
    def coded(name):
        return "optimizer.moment_dtype" in case and "|moment" in name

    found = {**{k: (v, "") for k, v in a.worst(b).items()},
             "gradients": a.tensors(b, "gradients", any_type=any_type),
             "parameters": a.tensors(b, "checkpoint", any_type=any_type, among=lambda name: not coded(name))}
    if "optimizer.moment_dtype" in case:
        found["codes"] = a.tensors(b, "checkpoint", any_type=any_type, among=coded)
    return found


class Check:
    def __init__(self, place, options):
        self.place, self.options = place, options
        self.failures = self.cases = 0
        self.worst = {}

    def folder(self, name):
        path = self.place.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def indices(self, count):
        return range(count) if self.options.only is None else [self.options.only]

    def rng(self, mode, index):
        return random.Random(f"{mode} {self.options.seed} {index}")

    def report(self, index, case, problem, figures=""):
        self.cases += 1
        self.failures += bool(problem)
        if problem or self.options.verbose:
            print(f"{'BAD ' if problem else 'ok  '}{index} n={ranks_of(case)} {layout_words(case)}"
                  f" {figures}\n{problem}".rstrip(), flush=True)
        if problem:
            rest = [key for key in keys(case) if not key.startswith("layout.")] + [case["texts"]]
            print("    " + " ".join(rest), flush=True)

    def drawn(self, index):
        return draw(self.rng("layouts", index), self.options.precision, self.options.family,
                    self.options.context, self.options.method)

    def layout(self, index):
        """One layout against one rank."""
        case = self.drawn(index)
        bounds = BOUNDS[rounding_of(case)]
        try:
            a = self.place.train(self.folder("one"), one_rank(case))
            worst = distances(a, self.place.train(self.folder("many"), case), case)
            if case["precision"] != "fp32" and any(v > bounds[k] for k, (v, _) in worst.items()):
                exact = self.place.train(self.folder("exact"), {**one_rank(case), "precision": "fp32"})
                bounds = {k: max(bounds[k], 2 * v) if math.isfinite(v) else bounds[k]
                          for k, (v, _) in distances(exact, a, case, any_type=True).items()}
        except Broken as broken:
            return self.report(index, case, f"    {broken}")
        figures = " ".join(f"{k} {v:.1e}" for k, (v, _) in worst.items())
        far = [f"    {k} differs by {v:.2e}, bound {bounds[k]:g} {name}"
               for k, (v, name) in worst.items() if not v <= bounds[k]]
        for k, (v, _) in worst.items():
            key = (rounding_of(case), k)
            self.worst[key] = max(self.worst.get(key, 0.0), v)
        return self.report(index, case, "\n".join(far), figures)

    def layouts(self, count):
        self.compare(self.indices(count))

    def cover(self, triples):
        cases = [self.drawn(i) for i in range(COVERED_CASES)]
        chosen, pairs, covered, never = covering(cases, triples, self.rng("cover", triples))
        print(f"{len(chosen)} cases have all {len(pairs)} pairs of features and {len(covered)} triples")
        print("never together: " + "; ".join(f"{a} + {b}" for a, b in never), flush=True)
        self.compare(chosen)

    def compare(self, indices):
        odd = sum(bool(set(uneven(self.drawn(i))) - {"clipping"}) for i in indices)
        for index in indices:
            self.layout(index)
        for (rounding, measure), value in sorted(self.worst.items()):
            bound = BOUNDS[rounding][measure]
            print(f"{rounding:17} {measure:10} worst {value:.2e} of {bound:g}")
        print(f"layouts: {self.failures} of {self.cases} differ; {odd} uneven")

    def same_bits(self, index, first, others):
        """All `others` leave the bytes that `first` leaves."""
        try:
            a = self.place.train(self.folder("first"), first)
        except Broken as broken:
            return self.report(index, first, f"    {broken}")
        for case in others:
            try:
                b = self.place.train(self.folder("other"), case)
                problem = bits_differ(a, b)
            except Broken as broken:
                problem = f"    {broken}"
            self.report(index, case, problem and f"{problem}\n    to {layout_words(first)}")

    def bits(self, count):
        for index in self.indices(count):
            for name, draw_cases in (("zero", zero_cases), ("schedules", schedule_cases),
                                     ("overlap", overlap_cases), ("offload", offload_cases),
                                     ("tensor overlap", tensor_overlap_cases),
                                     ("expert overlap", expert_overlap_cases)):
                for first, *others in draw_cases(self.rng(name, index)):
                    self.same_bits(f"{name} {index}", first, others)
        print(f"bits: {self.failures} of {self.cases} differ")

    def continued(self, index):
        """Compares a run that is saved in one layout and resumed in another with ten steps on one rank."""
        rng = self.rng("any", index)
        case = draw(rng, "fp32", self.options.family, self.options.context,
                    self.options.method)
        other = follow(rng, case)
        try:
            unbroken = self.place.train(self.folder("one"), one_rank(case), steps=10)
            folder = self.folder("any")
            self.place.train(folder, case, "run.stop_after_steps=5", steps=10)
            gap = unbroken.worst(self.place.train(folder, other, steps=10))["loss"]
            problem = "" if gap <= CONTINUED_LOSS else f"    loss differs by {gap:.2e}"
            self.worst["loss"] = max(self.worst.get("loss", 0.0), gap)
            problem = problem or self.broken_and_whole(case)
        except Broken as broken:
            problem = f"    {broken}"
        self.report(index, case, problem, f"\n    then n={ranks_of(other)} {layout_words(other)}")

    def broken_and_whole(self, case):
        """Compares a run that is stopped and resumed in the same layout with an uninterrupted one."""
        whole = self.place.train(self.folder("whole"), case, steps=10)
        folder = self.folder("broken")
        self.place.train(folder, case, "run.stop_after_steps=5", steps=10)
        return bits_differ(whole, self.place.train(folder, case, steps=10), ["checkpoint"])

    def evaluated(self, index):
        case = draw(self.rng("evaluate", index), "fp32", self.options.family, self.options.context)
        zero = case["layout.zero"] if case["layout.data"] * case["layout.context"] > 1 else 0
        degrees = [f"{axis}={case[f'layout.{axis}']}" for axis in
                   ("data", "tensor", "pipeline", "context", "expert") if f"layout.{axis}" in case]
        layout = ",".join([*degrees, f"zero={zero}"])
        try:
            folder = self.folder("evaluated")
            self.place.train(folder, one_rank(case), steps=2)
            data = self.place.work / ("pieces" if case["texts"] in ("spans", "pairs") else "train")
            loss, metrics_, logs, written = self.place.evaluate(folder, data)
            loss2, metrics2, logs2, written2 = self.place.evaluate(folder, data, layout, ranks_of(case))
            gap = relative([(loss, loss2)])
            log_gap = max((abs(x - y) for x, y in zip(logs, logs2, strict=True)), default=math.inf)
            self.worst["loss"] = max(self.worst.get("loss", 0.0), gap)
            self.worst["logs"] = max(self.worst.get("logs", 0.0), log_gap)
            problem = "".join([f"    loss differs by {gap:.2e}\n" if not gap <= EVALUATED_LOSS else "",
                               f"    log-likelihoods by {log_gap:.2e}\n" if not log_gap <= LIKELIHOOD else "",
                               f"    texts {written} and {written2}\n" if written != written2 else "",
                               f"    metrics {metrics_} and {metrics2}\n" if len(metrics_) != len(metrics2) or any(
                                   relative([(x["value"] or 1, y["value"] or 1)]) > 1e-4
                                   for m, n in zip(metrics_, metrics2) for x, y in zip(m.values(), n.values()))
                               else ""])
        except Broken as broken:
            gap = log_gap = math.nan
            problem = f"    {broken}"
        self.report(index, case, problem, f"loss {gap:.1e} log-likelihoods {log_gap:.1e}")

    def evaluate(self, count):
        for index in self.indices(count):
            self.evaluated(index)
        print(f"evaluate: {self.failures} of {self.cases} differ, loss by {self.worst.get('loss', math.inf):.2e} "
              f"and log-likelihoods by {self.worst.get('logs', math.inf):.2e} at most")

    def any_to_any(self, count):
        for index in self.indices(count):
            self.continued(index)
        print(f"any to any: {self.failures} of {self.cases} pairs differ, "
              f"loss by {self.worst.get('loss', math.inf):.2e} at most, bound {CONTINUED_LOSS:g}")


def options_given():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tessera", type=pathlib.Path, default=root / "build/tessera")
    parser.add_argument("--count", type=int, default=0, help="layouts against one rank")
    parser.add_argument("--cover", type=int, default=0, metavar="N",
                        help="every pair of features and N triples against one rank")
    parser.add_argument("--bits", type=int, default=0, help="rounds of what must be the same bytes")
    parser.add_argument("--any-to-any", type=int, default=0, help="pairs of layouts")
    parser.add_argument("--evaluate", type=int, default=0, help="layouts of evaluation")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the clock")
    parser.add_argument("--only", type=int, help="this case alone; its files stay")
    parser.add_argument("--precision", choices=list(EPSILON), help="default: random")
    parser.add_argument("--family", choices=FAMILIES, help="default: random")
    parser.add_argument("--context", action="store_true",
                        help="layouts with layout.context above 1 only")
    parser.add_argument("--method", choices=list(METHODS), help="the method of --context (default: random)")
    parser.add_argument("--verbose", action="store_true", help="a line for what agrees, too")
    options = parser.parse_args()
    if not options.tessera.exists():
        raise SystemExit(f"{options.tessera} is missing; build first, or give --tessera")
    if not (options.count or options.cover or options.bits or options.any_to_any or options.evaluate):
        parser.error("expected --count, --cover, --bits, --any-to-any or --evaluate")
    return options


def main():
    options = options_given()
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun here")
        return SKIPPED
    work = pathlib.Path(tempfile.mkdtemp(prefix="layouts-"))
    print(f"seed {options.seed}", flush=True)
    failures = 0
    for mode, count in (("layouts", options.count), ("cover", options.cover), ("bits", options.bits),
                        ("any_to_any", options.any_to_any), ("evaluate", options.evaluate)):
        if count:
            check = Check(Place(options.tessera, work), options)
            getattr(check, mode)(count)
            failures += check.failures
    if options.only is not None:
        print(f"the files are in {work}")
    else:
        shutil.rmtree(work)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Every command with every pair of features: no crash, and equal results where two ways must agree.

    scripts/check_combinations.py                     all pairs of features, with a seed of the clock
    scripts/check_combinations.py --seed 1 --most 20  the first 20 configurations of a seed
    scripts/check_combinations.py --case "model=t5 data=spans layout=tensor"
                                                      one configuration, as a failure prints it; its
                                                      files stay

A configuration has one choice of each factor in FACTORS. The configurations are a covering array:
each pair of choices of two factors is in at least one of them. They are made by a greedy search from
the seed, so another seed gives other combinations of three and more. Each command in VERBS is run on
each configuration:

    train        losses are finite
    compile      the step is verified; its memory equals that of train, to the byte
    plan         exit code 0; its memory equals that of train, to the byte
    plan search  the best layout is not slower than the run's own; `plan` of its keys agrees with it
    best layout  train with layout.search: the first loss is train's
    verify       the layout agrees with one rank, value by value
    resume       in another layout from train's checkpoint: the losses are train's
    eval         the loss on the validation set, and the margin of pairs of answers, are those that train
                 logged; on the layout of the run, this loss and the log-likelihoods of a task are those
                 of one rank
    generate     exit code 0, and the same text twice; on the layout of the run the same text, and the same
                 samples of prompts of unequal lengths with their log-probabilities
    export       to Hugging Face and back: the same text (adapters are merged before); rejected for
                 layers of several kinds, mup, and in most families multi-token prediction

A command may reject a configuration, with exit code 1 and an error that names a key. The smallest
set of choices that is rejected is then found, listed and left out of later configurations. Anything
else fails: a signal, an internal error, a rejection without a key, results that differ.

A new factor or choice is a line in FACTORS; a new command is a function in VERBS.
Ends with 1 if anything failed, with 77 (skipped) where there is no mpirun.
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing

from small_runs import (SKIPPED, RandomTexts, metrics, mpirun, optimizer_kinds, run_tessera,
                        unigram_tokenizer)

STEPS = 4
CONTEXT = 32
LAG = 4  # a rejection has an effect on the configuration that many places later; more workers would wait
RUN = """\
run: {{ name: combination, directory: run, seed: 7, threads: 1 }}
model: {{ layers: 2, hidden: 32, heads: 4, feed_forward: 64, vocabulary: 0,
         vocabulary_multiple: 1, context: {context} }}
data: {{ tokenizer: ../spiece.model, train: [../train], validation: [../few], sequence_length: {context} }}
batch: {{ global: 4, micro: 1 }}
optimizer: {{ learning_rate: 1.0e-3, weight_decay: 0.1 }}
schedule: {{ kind: constant, steps: {steps} }}
checkpoint: {{ every_steps: 2, keep: 0 }}
metrics: {{ validate_every_steps: 0, tensorboard: false }}
"""
TASK = """\
kind: choice
data: task.jsonl
form: "{asked} {response}"
response: "{answers}"
gold: right
"""
MACHINE = """\
name: two-cores
device: { name: core, kind: cpu, memory_bytes: 1.0e10, memory_bytes_per_s: 1.0e10,
          memory_efficiency: 0.8, bf16_flops_per_s: 1.0e11, fp32_flops_per_s: 1.0e11,
          matrix_efficiency: 0.8, host_bytes_per_s: 1.0e10 }
node: { devices: 64, bytes_per_s: 1.0e9, efficiency: 0.8, latency_s: 1.0e-6, by_processor: true }
network: { bytes_per_s: 1.0e9, efficiency: 0.8, latency_s: 1.0e-5 }
"""
# Relative differences of losses. The scale of a tensor in eight bits is a rank's own.
BOUNDS = {"fp32": 3e-5, "bf16": 4e-3, "bf16_sr": 4e-3, "fp16": 1e-3}
FP8_BOUND = 3e-2
GROUPS = ("[{match: ['*norm*'], kind: sgd, beta1: 0.9, learning_rate_multiplier: 0.5}, "
          "{match: [embed.*], beta1: 0.5, weight_decay: 0}]")
EPSILON = {"fp32": 1e-4, "bf16": 1e-3, "bf16_sr": 1e-3, "fp16": 1e-3}


# The factors. The first choice of each is the default. A choice is a dict of run-file keys, or a
# function from the whole configuration to one.

def model(family, **keys):
    return {"model.family": family, **{f"model.{key}": value for key, value in keys.items()}}


def layout(**keys):
    return {f"layout.{key}": value for key, value in keys.items()}


def epsilon(chosen, power):
    """Well above a gradient's roundings, which would else become steps of any size."""
    return {"optimizer.epsilon": EPSILON[chosen["precision"]] ** power}


def optimizer(kind):
    """AdamW, which Muon has for vectors, adds its epsilon to a root, Adafactor to a square. Of the
    others, all but SGD may use the sign of a gradient, so their steps are small."""
    key = {"optimizer.kind": kind}
    if kind in ("adamw", "adafactor", "muon", "schedule_free"):
        return lambda chosen: {**key, **epsilon(chosen, 2 if kind == "adafactor" else 1)}
    return key if kind == "sgd" else {**key, "optimizer.learning_rate": 1e-4}


def with_ema(chosen):
    """A schedule-free optimizer averages the weights itself."""
    return {"optimizer.ema": 0 if chosen["optimizer"] == "schedule_free" else 0.9}


def asked(chosen):
    target = {"data.target_length": CONTEXT} if chosen["model"] == "t5" else {}
    return {"data.train": "[]", "data.instructions": "[../asked.jsonl]", "data.long_examples": "truncate",
            "data.template": "{prompt}{response}", "data.validation": "[../few.jsonl]", **target}


def preferences(kind, **keys):
    """Pairs of answers, without terms of the loss over tokens."""
    data = {"data.train": "[]", "data.instructions": "[../preferred.jsonl]",
            "data.long_examples": "truncate", "data.validation": "[../few-preferred.jsonl]"}
    return {"objective.kind": kind, **data, **{f"objective.{key}": value for key, value in keys.items()}}


def in_blocks(chosen):
    """Sizes for which two tensor ranks have whole blocks of 64 of most weights."""
    keys = {"model.hidden": 128, "model.feed_forward": 256}
    if "model.head_width" in FACTORS["model"][chosen["model"]]:
        keys["model.head_width"] = 32
    if chosen["layers"] == "wide":
        keys["model.wide_feed_forward"] = 384
    return keys


def quantized(chosen):
    """Weights in 4 bits. The inputs of linear layers are whole blocks of 64 on two tensor ranks, too."""
    return {"lora.rank": 4, "lora.quantize": "nf4", **in_blocks(chosen)}


def with_8bit_moments(chosen):
    return {**optimizer("adamw")(chosen), "optimizer.moment_dtype": "8bit", **in_blocks(chosen)}


def with_adapters_of_experts(chosen):
    experts = {"lora.targets": "[all-linear, experts.gate_up_proj, experts.down_proj]"}
    return {"lora.rank": 4, **(experts if chosen["model"] in WITH_EXPERTS else {})}


def frozen_but_head(chosen):
    layers = "encoder.*, bridge.*, decoder.*" if chosen["model"] == "t5" else "layer.*"
    return {"optimizer.freeze": f"[embed.*, {layers}]".replace(" ", "")}


LATENT = {"latent.query_rank": 12, "latent.key_value_rank": 16, "latent.nope_width": 8,
          "latent.rope_width": 4, "latent.value_width": 6}

FACTORS = {
    "model": {
        "neox": model("neox"),
        "gpt2": model("gpt2"),
        "llama": model("llama"),
        "qwen2": model("qwen2"),
        "t5": model("t5", encoder_layers=2, head_width=8),
        "mixtral": model("mixtral", experts=4),
        "mistral": model("mistral", window=9),
        "smollm3": model("smollm3"),
        "phi3": model("phi3", rotary_pct=0.5),
        "qwen3": model("qwen3", head_width=8),
        "qwen3_moe": model("qwen3_moe", experts=4, experts_per_token=2, head_width=8,
                           expert_feed_forward=24),
        "deepseek_v3": model("deepseek_v3", **LATENT, experts=4, experts_per_token=2,
                             expert_feed_forward=24, shared_feed_forward=16),
        "gpt_oss": model("gpt_oss", experts=4, experts_per_token=2, head_width=8, window=9,
                         window_layers="[0]"),
        "olmo2": model("olmo2"),
        "gemma2": model("gemma2", attention_soft_cap=2, logit_soft_cap=3),
        "gemma3": model("gemma3", window=9, window_layers="[0]", window_rope_theta=100),
    },
    "layers": {
        "alike": {},
        "no rope": {"model.no_rope_layers": "[1]"},
        "wide": {"model.wide_layers": "[0]", "model.wide_feed_forward": 96},
        "window": {"model.window": 7, "model.window_layers": "[1]"},
    },
    "heads": {"each": {}, "grouped": {"model.kv_heads": 1}},
    "embeddings": {
        "untied": {"model.tied_embeddings": False},
        "tied": {"model.tied_embeddings": True},
    },
    "trained": {
        "all": {},
        "lora": {"lora.rank": 4},
        "rslora": {"lora.rank": 4, "lora.scaling": "rslora"},
        "dora": {"lora.rank": 4, "lora.kind": "dora"},
        "experts": with_adapters_of_experts,
        "nf4": quantized,
        "experts nf4": lambda chosen: {**quantized(chosen), **with_adapters_of_experts(chosen)},
        "freeze": {"optimizer.freeze": "[embed.*]"},
        "head": frozen_but_head,
    },
    "batch": {"fixed": {}, "warmup_sizes": {"batch.warmup_sizes": "[2]", "batch.warmup_steps_per_size": 1}},
    "precision": {name: {"precision": name} for name in EPSILON},
    "gemm_dtype": {"compute": {}, "fp8": {"compiler.gemm_dtype": "fp8"}},
    "offload": {
        "none": {},
        "activations": layout(offload="activations"),
        "optimizer": layout(offload="optimizer"),
    },
    "tensor overlap": {"off": {}, "on": {"compiler.tp_comm_overlap": True, "batch.micro": 2}},
    "expert overlap": {"off": {}, "on": {"compiler.ep_comm_overlap": True}},
    "recompute": {
        "none": {},
        "selective": layout(recompute="selective"),
        "full": layout(recompute="full"),
        "full:1": layout(recompute="full:1"),
    },
    "optimizer": {
        **{kind: optimizer(kind) for kind in optimizer_kinds()},
        "muon clip": lambda chosen: {**optimizer("muon")(chosen), "optimizer.qk_clip": 0.03},
        "adamw 8bit": with_8bit_moments,
        "groups": lambda chosen: {"optimizer.groups": GROUPS, **epsilon(chosen, 1)},
    },
    "predictions": {"next": {}, "ahead": {"model.mtp_depth": 2, "loss.mtp_weight": 0.3}},
    "parametrization": {"standard": {}, "mup": {"model.mup.base": 16, "model.mup.base_head_width": 4}},
    "noise scale": {"none": {}, "measured": {"metrics.noise_scale_every_steps": 2}},
    "capacity": {"none": {}, "dropping": lambda chosen: (
        {"model.router.capacity_factor": 0.75} if chosen["model"] in WITH_EXPERTS else {})},
    "loss": {"plain": {}, "terms": {"loss.z_loss": 0.01, "loss.label_smoothing": 0.1}},
    "objective": {
        "sft": {},
        **{kind: preferences(kind) for kind in ("dpo", "ipo", "orpo", "kto", "simpo", "reward")},
        "adapters off": preferences("dpo", reference="adapters_off"),
    },
    "ema": {"none": {}, "kept": with_ema},
    "data": {
        "text": {},
        "spans": {"data.objective": "span_corruption"},
        "instructions": asked,
        "packed": {"data.intra_document_masking": True, "data.train": "[../lines]"},
        "stages": {"data.stages": f"[{{from_tokens: {8 * CONTEXT}, train: [../lines, ../train]}}]"},
    },
    "dropout": {"none": {}, "dropped": {"model.dropout": 0.1, "model.attention_dropout": 0.1}},
    "layout": {
        "one": {},
        "data": layout(data=2),
        "zero 3": layout(data=2, zero=3),
        "tensor": layout(tensor=2),
        "pipeline": layout(pipeline=2),
        "zero bubble": layout(pipeline=2, pipeline_schedule="zero_bubble"),
        "tensor x data": layout(tensor=2, data=2, zero=2),
        "expert": layout(data=2, expert=2),
        "expert x tensor": layout(data=2, expert=2, tensor=2),
        "context": layout(context=2),
        "context x tensor": layout(context=2, tensor=2),
        "context x data": layout(context=2, data=2, zero=3),
        "balanced context": layout(context=2, context_balance=True, pipeline=2),
        "ring": layout(context=2, context_method="ring", context_balance=True),
        "ring x tensor": layout(context=2, context_method="ring", tensor=2, zero=2),
        "heads": layout(context=2, context_method="heads"),
        "heads x tensor": layout(context=2, context_method="heads", tensor=2, zero=3),
    },
}


def keys_of(chosen, without=()):
    keys = {}
    for factor, choice in chosen.items():
        if factor not in without:
            made = FACTORS[factor][choice]
            keys.update(made(chosen) if callable(made) else made)
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in keys.items()]


def ranks_of(chosen):
    at = FACTORS["layout"][chosen["layout"]]
    return math.prod(at.get(f"layout.{axis}", 1) for axis in ("data", "context", "tensor", "pipeline"))


def words_of(choices):
    return " ".join(f"{factor}={choice}" for factor, choice in choices)


# The covering array.

class Cover:
    """Configurations until each pair of choices is in one, except for rejected pairs."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.defaults = {factor: next(iter(choices)) for factor, choices in FACTORS.items()}
        self.place = {factor: k for k, factor in enumerate(FACTORS)}
        self.refused_with = {}  # choice → rejected sets of choices with it
        self.open = set()
        self.runs = collections.Counter()  # pair → configurations with it
        for first, second in itertools.combinations(FACTORS, 2):
            for a, b in itertools.product(FACTORS[first], FACTORS[second]):
                self.open.add(((first, a), (second, b)))
        self.pairs = len(self.open)
        self.impossible = set()

    def allowed(self, chosen, choice):
        """Whether a choice may join those, which are allowed together."""
        choices = {*chosen.items(), choice}
        return not any(refused <= choices for refused in self.refused_with.get(choice, ()))

    def complete(self, chosen, factors):
        """Chooses the other factors in that order, each so that most open pairs are covered. A factor
        with one choice left is next, and one with none ends the search in this branch: without that,
        rejections make the search exponential."""
        if not factors:
            return chosen
        possible = {factor: [choice for choice in FACTORS[factor] if self.allowed(chosen, (factor, choice))]
                    for factor in factors}
        factor = next((f for f in factors if len(possible[f]) <= 1), factors[0])
        rest = [f for f in factors if f != factor]

        def covered(choice):
            return sum(self.pair((factor, choice), other) in self.open for other in chosen.items())

        choices = possible[factor]
        self.rng.shuffle(choices)
        for choice in sorted(choices, key=covered, reverse=True):
            if whole := self.complete({**chosen, factor: choice}, rest):
                return whole
        return None

    def pair(self, a, b):
        """Two choices in the order of their factors."""
        return (a, b) if self.place[a[0]] < self.place[b[0]] else (b, a)

    def next(self):
        """The next configuration, or nothing where no pair is open."""
        while self.open:
            pair = self.rng.choice(sorted(self.open))
            factors = [factor for factor in FACTORS if factor not in dict(pair)]
            self.rng.shuffle(factors)
            first, second = pair
            chosen = dict([first])
            possible = self.allowed({}, first) and self.allowed(chosen, second)
            whole = self.complete(dict(pair), factors) if possible else None
            if whole:
                return {factor: whole[factor] for factor in FACTORS}
            self.open.discard(pair)
            self.impossible.add(pair)
        return None

    def pairs_of(self, chosen):
        return set(itertools.combinations(chosen.items(), 2))

    def ran(self, chosen):
        self.open -= self.pairs_of(chosen)
        self.runs.update(self.pairs_of(chosen))

    def refuse(self, chosen, choices):
        """Removes a configuration that is rejected for these choices in it."""
        for choice in choices:
            self.refused_with.setdefault(choice, []).append(frozenset(choices))
        self.runs.subtract(self.pairs_of(chosen))
        self.open |= {pair for pair in self.pairs_of(chosen) if not self.runs[pair]}


# How commands are run.

class Broken(Exception):
    """A failure: what was wrong."""


class Refused(Exception):
    """A clean error that names a key."""


def check_ended(command, done):
    if done.returncode == 0:
        return
    said = done.stderr[-3000:]
    errors = [line for line in said.splitlines() if line.startswith("tessera: ")]
    named = errors and re.search(r"\b[a-z_]+\.[a-z_]+\b|--[a-z]|tessera [a-z]+ ", errors[0][9:])
    if done.returncode == 1 and named and "internal error" not in said:
        raise Refused(errors[0][9:])
    raise Broken(f"{command[0]} ended with {done.returncode}: "
                 f"{errors[0] if errors else done.stdout[-600:] + said[-600:]}")


class Loss(typing.NamedTuple):
    """A loss, and the size to which its rounding error is relative: the loss itself, or the rewards or
    margins of pairs of answers if these are larger. Those of several pairs cancel in their means. If
    the loss is a mean of softplus(-margin), up to a positive shift of the margin, the mean of |margin|
    is at most the mean margin plus twice the loss, since softplus(-m) >= max(-m, 0)."""

    value: float
    size: float

    @staticmethod
    def of(line, objective, before=""):
        loss = line[f"{before}loss"]
        rewards = [abs(line.get(f"{before}rewards_{which}") or 0) for which in ("chosen", "rejected")]
        sizes = [abs(loss or 0), sum(rewards)]
        if objective in ("dpo", "adapters off", "simpo", "reward"):
            sizes.append((line.get(f"{before}rewards_margins") or 0) + 2 * (loss or 0))
        return Loss(loss, max(sizes))


class Case:
    """A configuration and its folder, in which the commands run one after another."""

    def __init__(self, place, folder, chosen, cover):
        self.place, self.folder, self.chosen, self.cover = place, folder, chosen, cover
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "run.yaml").write_text(RUN.format(context=CONTEXT, steps=STEPS))
        self.keys = keys_of(chosen)
        self.ranks = ranks_of(chosen)
        self.rng = random.Random(words_of(chosen.items()))

    def say(self, *words, ranks=1):
        start = [*mpirun(120), "-n", str(ranks)] if ranks > 1 else []
        command = [*start, str(self.place.tessera), *map(str, words)]
        with (self.folder / "commands.txt").open("a") as file:
            file.write(" ".join(f"'{word}'" if " " in word else word for word in command) + "\n")
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=150,
                              env=dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive"))
        check_ended(words, done)
        return done

    def say_json(self, *words, ranks=1):
        return json.loads(self.say(*words, "--json", ranks=ranks).stdout)

    def train(self, directory, *more, keys=None, ranks=None):
        """{step: loss}, the last validation's line."""
        self.say("train", "run.yaml", *(self.keys if keys is None else keys),
                 f"run.directory={directory}", *more, ranks=ranks or self.ranks)
        return self.metrics(directory)

    def metrics(self, directory):
        lines = metrics(self.folder / directory)
        losses = {line["step"]: Loss.of(line, self.chosen["objective"]) for line in lines if "loss" in line}
        validation = [line for line in lines if "validation_loss" in line]
        return losses, validation[-1] if validation else None

    def bound(self):
        low = FP8_BOUND if self.chosen["gemm_dtype"] == "fp8" else 0
        return max(BOUNDS[self.chosen["precision"]], low)

    def check_near(self, what, found, expected, bound, size=None):
        """Losses that differ by at most `bound`, relative to `size`: by default the expected loss."""
        if found is None or expected is None:
            raise Broken(f"{what} is {found}, expected {expected}")
        largest = bound * (abs(expected) if size is None else size)
        if not abs(found - expected) <= largest:
            raise Broken(f"{what} is {found}, expected {expected} within {largest:g}")

    def check_step(self, what, losses, step, bound):
        """The loss of a step is that of train."""
        expected = self.losses[step]
        self.check_near(what, losses[step].value, expected.value, bound, expected.size)


# ---- The commands, in the order in which they run on a case.

def train(case):
    case.losses, case.validation = case.train("run")
    numbers = [loss.value for loss in case.losses.values()]
    if len(numbers) != STEPS or not all(n is not None and math.isfinite(n) for n in numbers):
        raise Broken(f"losses are {numbers}")
    logged = (case.folder / "run" / "log.txt").read_text()
    case.arena = int(re.search(r"arena, ([\d,]+) bytes", logged).group(1).replace(",", ""))


def compile_checks(case):
    case.say("compile", "run.yaml", *case.keys, "--check")
    found = case.say_json("compile", "run.yaml", *case.keys)["arena_bytes"]
    if found != case.arena:
        raise Broken(f"compile reports {found} bytes, train used {case.arena}")


def plan(case):
    case.plan = case.say_json("plan", "run.yaml", *case.keys, "--cluster", "../machine.yaml")
    found = case.plan["stages"][0]["memory"]["arena_bytes"]
    if found != case.arena:
        raise Broken(f"plan reports {found} bytes, train used {case.arena}")
    case.say("plan", "run.yaml", *case.keys, "--cluster", "../machine.yaml", "--svg", "plan.svg")


def plan_search(case):
    best = case.say_json("plan", "run.yaml", *case.keys, "--cluster", "../machine.yaml", "--search",
                         "--devices", case.ranks)["best"][0]
    # The search tries neither some recomputed layers nor layout.expert above 1.
    searched = case.chosen["recompute"] != "full:1" and not case.chosen["layout"].startswith("expert")
    if searched and best["step_s"] > case.plan["step_s"]:
        raise Broken(f"the best layout has a step of {best['step_s']} s, the run's own {case.plan['step_s']} s")
    again = case.say_json("plan", "run.yaml", *case.keys, *best["keys"].split(), "layout.stages=[]",
                          "--cluster", "../machine.yaml")
    for key in ("step_s", "memory"):
        if again[key] != best[key]:
            raise Broken(f"the search reports {key} {best[key]}, plan of its keys {again[key]}")


def best_layout(case):
    losses, _ = case.train("best", "layout.search=true", "layout.cluster=../machine.yaml",
                           "run.stop_after_steps=1", "checkpoint.every_steps=0")
    case.check_step("the first loss", losses, 1, case.bound())


# `verify` prints this if the first difference is in the experts: rounding may have chosen between two experts
# with nearly equal scores. A wrong layout differs with each seed.
NEAR_TIE, OTHER_SEEDS = "Verify again with another run.seed", (101, 102, 103)


def verify(case):
    # Rounding a score to 16 bits may choose another expert, so values of experts are compared in fp32.
    routed = case.chosen["model"] in WITH_EXPERTS
    precision = ["precision=fp32"] if routed else []

    def agrees(*more):
        said = case.say("verify", "run.yaml", *case.keys, *precision, "--steps", 2, "run.directory=verified", *more)
        if "all values agree" not in said.stdout:
            raise Broken(f"verify prints {said.stdout[-300:]}")

    try:
        agrees()
    except Broken as broken:
        if not routed or NEAR_TIE not in str(broken):
            raise
        for seed in OTHER_SEEDS:
            agrees(f"run.seed={seed}")
        print(f"near tie of two experts, not with seeds {OTHER_SEEDS}: {words_of(case.chosen.items())}", flush=True)


def other_layout(case):
    """Any other layout in which the run is valid."""
    others = [name for name in FACTORS["layout"] if name != case.chosen["layout"]]
    case.rng.shuffle(others)
    for name in others:
        other = {**case.chosen, "layout": name}
        try:
            case.say("compile", "run.yaml", *keys_of(other))
            return name, other
        except Refused:
            continue
    raise Refused("the run is valid in no other layout.*")


def resume(case):
    """From the checkpoint in the middle."""
    name, other = other_layout(case)
    middle = case.folder / "resumed" / "checkpoints" / str(STEPS // 2)
    shutil.copytree(case.folder / "run" / "checkpoints" / str(STEPS // 2), middle)
    for references in (case.folder / "run").glob("references-*.bin"):
        shutil.copy(references, case.folder / "resumed")
    losses, _ = case.train("resumed", "checkpoint.resume=required", keys=keys_of(other),
                           ranks=ranks_of(other))
    if min(losses) != STEPS // 2 + 1 or max(losses) != STEPS:
        raise Broken(f"resumed in layout {name}: steps are {list(losses)}")
    for step in losses:
        case.check_step(f"resumed in layout {name}: loss of step {step}", losses, step, case.bound())


def loss_of(case, checkpoint, *data):
    return case.say_json("eval", checkpoint, *(data or ("../few",)), "--sequence-length",
                         CONTEXT)["results"][0]["loss"]


def task_on(case, layout, ranks):
    """The loss, and the log-likelihoods of a task."""
    rows = case.folder / f"examples-{layout}.jsonl"
    found = case.say_json("eval", "run", "../few", "--sequence-length", CONTEXT, "--task", "../task.yaml",
                          "--examples", rows.name, "--force", "--layout", layout, ranks=ranks)
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    return found["results"][0]["loss"], [x for line in lines for x in line["log_likelihood"]]


BETA = 0.1  # objective.beta


def evaluate_pairs(case):
    """The figures that train logged. A reward is a difference of log-probabilities that round each, and the
    loss one of two answers: they cancel in part, and their roundings in 16 bits do not."""
    line = case.validation
    logged = Loss.of(line, case.chosen["objective"], "validation_")
    log_probs = [abs(line.get(f"validation_logps_{which}", 0)) for which in ("chosen", "rejected")]
    size = max(logged.size, BETA * sum(log_probs))
    bound = case.bound() * (1 if case.chosen["precision"] == "fp32" else 4)

    def found(*layout, ranks=1):
        return case.say_json("eval", "run", "--preferences", "../few-preferred.jsonl", "--long-examples",
                             "truncate", *layout, ranks=ranks)["results"][0]

    alone = found()
    case.check_near("eval's loss of pairs", alone["loss"], logged.value, bound, size)
    case.check_near("eval's margin", alone["rewards_margins"], line["validation_rewards_margins"],
                    bound, size)
    for layout in ("run", "copies") if case.ranks > 1 else ():
        divided = found("--layout", layout, ranks=case.ranks)
        case.check_near(f"eval's loss of pairs with --layout {layout}", divided["loss"], alone["loss"],
                        BOUNDS["fp32"], size)


def evaluate(case):
    if case.chosen["objective"] != "sft":
        evaluate_pairs(case)
    if case.chosen["objective"] == "reward":
        return
    examples = ("--instructions", "../few.jsonl", "--long-examples", "truncate")
    found = loss_of(case, "run", *(examples if case.chosen["data"] == "instructions" else ()))
    if case.chosen["objective"] == "sft":
        case.check_near("eval's loss", found, (case.validation or {}).get("validation_loss"), case.bound())
    if case.ranks == 1:
        return
    loss, alone = task_on(case, "copies", 1)
    for layout in ("run", "copies"):
        divided, together = task_on(case, layout, case.ranks)
        case.check_near(f"eval's loss with --layout {layout}", divided, loss, BOUNDS["fp32"])
        for k, (x, y) in enumerate(zip(together, alone, strict=True)):
            if not abs(x - y) <= 1e-3:
                raise Broken(f"log-likelihood {k} with --layout {layout} is {x}, on one rank {y}")


def text_of(case, checkpoint, *more, ranks=1):
    return case.say_json("generate", checkpoint, "--prompt", "ae ou", "--temperature", 0,
                         "--max-tokens", 6, "--ignore-end", *more, ranks=ranks)


# Shorter and longer than the pieces in which prompts are read. None fills the context with the new tokens.
PROMPTS = ["a", "aeiounrstlmmltsrnuoiea", "ae ou in"]


def samples_of(case, *more, ranks=1):
    """The JSON lines of two samples of each prompt, of more texts than there are slots."""
    done = case.say("generate", "run", "--prompts", "../prompts.jsonl", "--samples", 2, "--batch", 4, "--temperature",
                    0.8, "--seed", 5, "--max-tokens", 7, "--stop", "ou", "--log-probabilities", 0, *more, ranks=ranks)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_samples(case):
    expected = samples_of(case)
    found = samples_of(case, "--layout", "run", ranks=case.ranks)
    if len(found) != len(expected) or len(found) != 2 * len(PROMPTS):
        raise Broken(f"generate writes {len(found)} texts on the layout of the run, {len(expected)} on one rank")
    for of_ranks, alone in zip(found, expected):
        tokens = of_ranks.pop("log_probabilities"), alone.pop("log_probabilities")
        if of_ranks != alone:
            raise Broken(f"generate gives {of_ranks} on the layout of the run, {alone} on one rank")
        for a, b in zip(*tokens):
            case.check_near("a log-probability of generate", a["log_probability"], b["log_probability"], 1e-4, size=1)


def generate(case):
    case.text = text_of(case, "run")
    if text_of(case, "run") != case.text:
        raise Broken("generate gives another text the second time")
    if case.ranks == 1 or case.chosen["model"] == "t5":
        return
    divided = text_of(case, "run", "--layout", "run", ranks=case.ranks)
    if divided != case.text:
        raise Broken(f"generate gives {divided} on the layout of the run, {case.text} on one rank")
    check_samples(case)


WITH_EXPERTS = ("mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss")

# Families whose class of transformers can express layers of several kinds.
EXPRESSIBLE = {"no rope": {"smollm3"},
               "window": {"qwen2", "qwen3", "smollm3", "gpt_oss", "gemma2", "gemma3"}}


def check_export_rejected(case, source):
    try:
        case.say("checkpoint", "export", source, "--to", "exported")
    except Refused:
        return
    raise Broken("export writes a model that the family's class of transformers cannot express")


def export(case):
    source = "run"
    if case.chosen["trained"] in ("lora", "rslora", "dora", "experts", "nf4", "experts nf4"):
        case.say("checkpoint", "merge", "run", "--out", "merged")
        source = "merged"
    layers = case.chosen["layers"]
    if layers != "alike" and case.chosen["model"] not in EXPRESSIBLE.get(layers, ()):
        return check_export_rejected(case, source)
    ahead = case.chosen["predictions"] == "ahead" and case.chosen["model"] != "deepseek_v3"
    if ahead or case.chosen["parametrization"] == "mup":
        return check_export_rejected(case, source)
    case.say("checkpoint", "export", source, "--to", "exported")
    case.say("checkpoint", "import", "--from", "exported", "--out", "imported")
    # The spans that eval removes from a text depend on the run's seed, which an export does not have. Nor
    # does it have a capacity of experts.
    dropping = case.chosen["capacity"] == "dropping" and case.chosen["model"] in WITH_EXPERTS
    if case.chosen["model"] != "t5" and not dropping:
        case.check_near("eval's loss of the imported checkpoint", loss_of(case, "imported"),
                        loss_of(case, "run"), 1e-5)
    # Merged adapters are rounded, which may turn a token where two are as likely.
    found = text_of(case, "imported")
    if found != case.text and source == "run":
        raise Broken(f"generate gives {found} of the imported checkpoint, {case.text} of the run")


VERBS = {"train": train, "compile": compile_checks, "plan": plan, "plan search": plan_search,
         "best layout": best_layout, "verify": verify, "resume": resume, "eval": evaluate,
         "generate": generate, "export": export}


# The counts.

class Check:
    def __init__(self, place, options):
        self.place, self.options = place, options
        self.cover = Cover(options.seed)
        self.lock = threading.Condition()  # guards what follows
        self.choosing = threading.Lock()  # guards the cover, cases, generated, applied and factors_of
        self.tried = {verb: set() for verb in VERBS}
        self.passed = {verb: set() for verb in VERBS}
        self.seconds = dict.fromkeys(VERBS, 0.0)
        self.messages = {}  # (verb, message) → choices
        self.factors_of = {}  # an error without numbers and model → the factors that cause it
        self.failures = []
        self.trained = {}  # index → None, or the case and the error with which train rejects it
        self.cases = self.generated = self.applied = 0

    def take(self):
        """The next configuration. A rejection has effect LAG configurations later, so that the configurations
        of a seed do not depend on which worker is faster."""
        with self.choosing:
            most = self.options.most
            if self.options.case is not None:
                self.generated += 1
                chosen = {**self.cover.defaults, **self.options.case}
                self.cases = 1
                return self.generated, chosen if self.generated == 1 else None
            self.apply(self.generated - LAG)
            chosen = None
            while chosen is None:
                if not most or self.cases < most:
                    chosen = self.cover.next()
                if chosen is None:
                    if self.applied == self.generated:
                        return None, None
                    self.apply(self.applied + 1)
            self.cover.ran(chosen)  # undone if it is rejected
            self.cases += 1
            self.generated += 1
            return self.generated, chosen

    def apply(self, last):
        """Applies the rejections of the configurations up to this index, in their order."""
        while self.applied < last:
            index = self.applied + 1
            with self.lock:
                self.lock.wait_for(lambda: index in self.trained)
            if rejected := self.trained.pop(index):
                self.refuse(*rejected)
            self.applied = index

    def work(self):
        while True:
            index, chosen = self.take()
            if not chosen:
                return
            self.run(index, chosen)

    def run(self, index, chosen):
        case = Case(self.place, self.place.work / f"case{index}", chosen, self.cover)
        pairs = self.cover.pairs_of(chosen)
        for verb, function in VERBS.items():
            began = time.monotonic()
            refused = None
            try:
                function(case)
                with self.lock:
                    self.passed[verb] |= pairs
            except Refused as error:
                refused = str(error)
            except (Broken, KeyError, AttributeError, subprocess.TimeoutExpired) as broken:
                self.fail(index, case, verb, f"{type(broken).__name__}: {broken}")
            with self.lock:
                self.tried[verb] |= pairs
                self.seconds[verb] += time.monotonic() - began
            if verb == "train" and self.options.case is None:
                self.ended_training(index, refused and (case, refused))
            elif refused:
                self.note_refused(case, verb, refused)
            if verb == "train" and (refused or (index, verb) in self.failures):
                return
        if self.options.case is None and not any(f[0] == index for f in self.failures):
            shutil.rmtree(case.folder)

    def fail(self, index, case, verb, text):
        with self.lock:
            self.failures.append((index, verb))
        print(f"BAD {index} {verb}: {text}\n    {words_of(case.chosen.items())}\n    "
              f"{' '.join(case.keys)}", flush=True)

    def ended_training(self, index, rejected):
        with self.lock:
            self.trained[index] = rejected
            self.lock.notify_all()

    def note_refused(self, case, verb, message, needed=()):
        with self.lock:
            known = self.messages.setdefault((verb, re.sub(r"[\d.]+", "N", message)), (message, []))
            known[1].append(words_of(needed))

    def refuse(self, case, message):
        """Reduces a configuration that train rejects to the choices that cause the error."""
        began = time.monotonic()
        needed = self.smallest(case, message)
        self.note_refused(case, "train", message, needed)
        self.cover.refuse(case.chosen, needed)
        self.cases -= 1  # another configuration is generated instead
        with self.lock:
            self.seconds["train"] += time.monotonic() - began
        shutil.rmtree(case.folder, ignore_errors=True)

    def smallest(self, case, message):
        """Returns the choices that cause the error: changing any of them to its default removes it.
        The factors of an earlier error of the same form are tried first."""
        same = re.sub(r"[\d.]+", "N", message)
        form = re.sub(rf"\b({'|'.join(FACTORS['model'])})\b", "MODEL", same)
        trains = self.refusal(case.chosen, trains=False) != same  # the error occurs only in training itself
        if factors := self.factors_of.get(form):
            needed = {factor: case.chosen[factor] for factor in factors}
            if self.refusal({**self.cover.defaults, **needed}, trains) == same:
                return list(needed.items())
        needed = self.search_smallest(case.chosen, same, trains)
        self.factors_of[form] = [factor for factor, _ in needed]
        return needed

    def search_smallest(self, rejected, same, trains):
        chosen, before = dict(rejected), None
        while chosen != before:  # a default may be rejected for another reason until other choices are gone
            before = chosen
            for factor, default in self.cover.defaults.items():
                fewer = {**chosen, factor: default}
                if fewer != chosen and self.refusal(fewer, trains) == same:
                    chosen = fewer
        needed = []
        for factor, default in self.cover.defaults.items():
            others = [other for other in FACTORS[factor] if other != default]
            if chosen[factor] != default or any(
                    self.refusal({**chosen, factor: other}, trains) is None for other in others):
                needed.append((factor, rejected[factor]))
        return needed

    def refusal(self, chosen, trains):
        """The error of a configuration without its numbers; None if there is no error."""
        probe = Case(self.place, self.place.work / f"probe{threading.get_ident()}", chosen,
                     self.cover)
        try:
            probe.say("compile", "run.yaml", *probe.keys)
            if trains:
                probe.train("run", "run.stop_after_steps=1")
        except Refused as refused:
            return re.sub(r"[\d.]+", "N", str(refused))
        except Broken as broken:
            return str(broken)
        finally:
            shutil.rmtree(probe.folder, ignore_errors=True)
        return None

    def print_table(self, seconds):
        print(f"{self.cases} configurations, {len(FACTORS)} factors, "
              f"{self.cover.pairs} pairs of choices, {len(self.cover.impossible)} of them rejected")
        print(f"{'command':12} {'pairs tried':>11} {'passed':>7} {'share':>6} {'seconds':>8}")
        possible = self.cover.pairs - len(self.cover.impossible)
        for verb in VERBS:
            tried, passed = len(self.tried[verb]), len(self.passed[verb])
            print(f"{verb:12} {tried:11} {passed:7} {passed / possible:6.0%} "
                  f"{self.seconds[verb]:8.1f}")
        for (verb, _), (message, choices) in sorted(self.messages.items()):
            what = "; ".join(sorted(set(choices) - {""}))
            print(f"refused by {verb} ({len(choices)}){': ' + what if what else ''}\n    {message}")
        failed = len({f[0] for f in self.failures})
        print(f"combinations: {failed} of {self.cases} configurations failed, {seconds:.0f} s")


class Place:
    """A folder with tokenizer, datasets, examples and a machine."""

    def __init__(self, tessera, work):
        self.tessera, self.work = tessera, work
        texts, pieces = RandomTexts(work), unigram_tokenizer(tessera, work)
        (work / "few.txt").write_text(texts.text(60))
        for name, source, how in (("train", "text", "none"), ("lines", "lines", "lines"),
                                  ("few", "few", "none")):
            run_tessera(tessera, "data", "build", "--tokenizer", pieces, "--split", how, "--out",
                        work / name, work / f"{source}.txt")
        (work / "prompts.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS))
        asked = texts.examples()
        (work / "asked.jsonl").write_text("\n".join(asked))
        (work / "task.yaml").write_text(TASK)
        (work / "task.jsonl").write_text("".join(
            json.dumps({"asked": json.loads(line)["prompt"], "answers": ["ae", "ou aeou", "o"], "right": k % 3}) + "\n"
            for k, line in enumerate(asked[:5])))
        (work / "few.jsonl").write_text("\n".join(asked[:8]))
        preferred = texts.pairs()
        (work / "preferred.jsonl").write_text("\n".join(preferred))
        (work / "few-preferred.jsonl").write_text("\n".join(preferred[:7]))
        (work / "machine.yaml").write_text(MACHINE)


def choices_of(text):
    """"layout=zero 3 model=t5" as a dict."""
    words = re.split(rf"\s*\b({'|'.join(FACTORS)})=", text.strip())[1:]
    chosen = dict(zip(words[::2], words[1::2]))
    for factor, choice in chosen.items():
        if choice not in FACTORS[factor]:
            raise argparse.ArgumentTypeError(
                f"{factor} has no choice '{choice}'. There are: {', '.join(FACTORS[factor])}.")
    return chosen


def options_given():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tessera", type=pathlib.Path, default=root / "build/tessera")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the clock")
    parser.add_argument("--most", type=int, default=0, help="configurations at most; 0: all pairs")
    parser.add_argument("--case", type=choices_of, help="FACTOR=CHOICE …: one configuration; the "
                        "rest of its choices are defaults")
    parser.add_argument("--workers", type=int, default=2, help="configurations at once (default 2)")
    options = parser.parse_args()
    if not options.tessera.exists():
        raise SystemExit(f"{options.tessera} is missing; build first, or give --tessera")
    options.tessera = options.tessera.resolve()
    return options


def main():
    options = options_given()
    if not shutil.which("mpirun"):
        print("skipped: mpirun is not installed")
        return SKIPPED
    work = pathlib.Path(tempfile.mkdtemp(prefix="combinations-"))
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    check = Check(Place(options.tessera, work), options)
    with concurrent.futures.ThreadPoolExecutor(options.workers) as workers:
        for done in [workers.submit(check.work) for _ in range(options.workers)]:
            done.result()
    check.print_table(time.monotonic() - began)
    if options.case is not None or check.failures:
        print(f"the files are in {work}")
    else:
        shutil.rmtree(work)
    return bool(check.failures)


if __name__ == "__main__":
    sys.exit(main())

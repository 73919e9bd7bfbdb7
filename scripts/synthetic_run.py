#!/usr/bin/env python3
"""Writes a run directory as `tessera train` would leave it, without training: metrics, log, trace and
configuration of 8 ranks with two restarts. For measuring and testing `tessera report`.

usage: scripts/synthetic_run.py DIRECTORY [--steps 100000] [--seed 1] [--learning-rate 1e-3] [--experts] [--preferences]
"""
import argparse
import datetime
import json
import math
import pathlib
import random

RANKS, LAYERS, MICROBATCHES, TOKENS = 8, 24, 8, 524288
CONFIG = """# The whole configuration as it ran, tessera 0.1.0.
run:
  name: {name}
  directory: {directory}
  seed: {seed}
model:
  family: neox
  layers: 24
  hidden: 1024
data:
  train:
    - prefix: data/wiki
      weight: 0.7
    - prefix: data/code
      weight: 0.3
  validation:
    - prefix: data/wiki_validation
    - prefix: data/code_validation
batch:
  global: 256
  micro: 4
optimizer:
  learning_rate: {rate}
schedule:
  kind: cosine
  steps: {steps}
  warmup_steps: {warmup}
objective:
  kind: {objective}
layout:
  data: 4
  pipeline: 2
checkpoint:
  every_steps: {every}
metrics:
  trace_step: 100
"""


def learning_rate(step, steps, peak):
    warmup = max(1, steps // 50)
    if step <= warmup:
        return peak * (step - 1) / warmup
    share = (step - 1 - warmup) / max(1, steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


def step_line(rng, step, steps, peak):
    ideal = 2.2 + 8.6 * (1 + step / 300) ** -0.62
    seconds = max(0.2, rng.gauss(0.42, 0.006)) * (3 if rng.random() < 2e-4 else 1)
    exposed = max(0.002, rng.gauss(0.021, 0.004))
    return {
        "step": step, "tokens": step * TOKENS, "loss": ideal + rng.gauss(0, 0.03) + (2.5 if step == steps // 3 else 0),
        "grad_norm": 0.3 + 2 * (1 + step / 500) ** -0.5 + abs(rng.gauss(0, 0.05)) + (40 if step == steps // 3 else 0),
        "learning_rate": learning_rate(step, steps, peak), "step_s": seconds, "data_s": abs(rng.gauss(0, 2e-4)),
        "tokens_per_s": TOKENS / seconds, "model_flops_per_s": 1.1e14 / seconds, "model_flops_share": 0.25 / seconds,
        "resident_bytes": 21_400_000_000 + step * 900,
        "communication_hidden_s": max(0, rng.gauss(0.09, 0.01)), "communication_exposed_s": exposed,
        "bubble_share": rng.gauss(0.06, 0.003),
        "bytes_sent": {"data": 5_637_144_576, "tensor": 0, "pipeline": 1_073_741_824, "several": 128},
        "slowest_rank": rng.randrange(RANKS), "slowest_over_mean": 1 + abs(rng.gauss(0, 0.01))}


def preference_figures(rng, step):
    """The figures of pairs of answers, whose margin grows."""
    margin = 2 * (1 - 1 / (1 + step / 200)) + rng.gauss(0, 0.05)
    chosen = 0.3 * margin + rng.gauss(0, 0.02)
    return {"rewards_chosen": chosen, "rewards_rejected": chosen - margin, "rewards_margins": margin,
            "rewards_accuracies": min(1, max(0, 0.5 + 0.2 * margin + rng.gauss(0, 0.03))),
            "logps_chosen": -90 + 10 * chosen, "logps_rejected": -95 + 10 * (chosen - margin)}


def start_lines(name, resumed, directory):
    lines = [f"tessera 0.1.0 · run {name} · neox 405.3 M parameters · bf16 · {TOKENS:,} tokens/step",
             "layout    8 ranks = data 4 × pipeline 2 · 8 threads each · ZeRO 1 · 1f1b · recompute none",
             "memory    peak 18.60 GiB (arena, 19,971,597,926 bytes) + at most 1.42 GiB outside it, limit 31.20 GiB "
             "for this process",
             "          weights 0.38 GiB, optimizer 1.13 GiB, gradients 0.75 GiB, activations 16.20 GiB, other 0.14 GiB "
             "· live set 18.51 GiB",
             "check     8 ranks, 214 calls each: collectives match, data flow verified, no deadlock"]
    if resumed:
        lines.append(f"resume    step {resumed:,} from {directory}/checkpoints/{resumed} in 0.41 s")
    return lines + ["data      19,400,000,000 tokens · this run reads 2.70 epochs"]


def write_course(options, rng):
    """Writes metrics.jsonl and log.txt of a run that was killed after 31 % and 72 % of its steps."""
    directory, steps, peak = options.directory, options.steps, options.learning_rate
    every = max(1, steps // 100)
    kills = {steps * 31 // 100 + every // 2, steps * 72 // 100 + every // 2}
    now = datetime.datetime(2026, 11, 2, 8, 0, 0)
    metrics, log = {}, []

    def say(text):
        log.append(f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} {text}")

    def start(resumed):
        nonlocal now
        for line in start_lines(directory.name, resumed, directory):
            say(line)
        now += datetime.timedelta(seconds=3)
        say("first step done 3.4 s after the start")
        say("memory    measured after the first step: weights 0.38 GiB, optimizer 1.13 GiB, gradients 0.75 GiB, "
            "activations 16.20 GiB, other 0.14 GiB · 1.21 GiB outside the arena")

    start(0)
    step = saved = 0
    while step < steps:
        step += 1
        line = step_line(rng, step, steps, peak)
        now += datetime.timedelta(seconds=line["step_s"])
        if options.experts:
            line["router_loss"] = 0.01 + abs(rng.gauss(0, 2e-4))
            line["busiest_expert"] = 1 + 2 / (1 + step / 100) + abs(rng.gauss(0, 0.05))
            line["dropped_share"] = 0.2 / (1 + step / 100) + abs(rng.gauss(0, 0.005))
            line["load_entropy"] = 1 - 0.3 / (1 + step / 100) - abs(rng.gauss(0, 0.005))
        if options.preferences:
            line.update(preference_figures(rng, step))
        metrics[step] = [line]
        if step % 100 == 0 and not options.preferences:
            for source, base, tokens in (("wiki", 0.3, 0.7 * TOKENS), ("code", -0.7, 0.3 * TOKENS)):
                metrics[step].append({"step": step, "source": source, "source_loss": line["loss"] + base,
                                      "source_tokens": round(tokens)})
        if step == steps // 3:
            say(f"warning   step {step:,}: the gradient norm is 38 times its mean of the last steps")
        if step % every == 0:
            for source, base in (("wiki", 0.05), ("code", -0.9)):
                loss = line["loss"] + base + rng.gauss(0, 0.004)
                metrics[step].append({"step": step, "name": source, "validation_loss": loss,
                                      "bits_per_byte": loss / math.log(2) / 4.2})
                if options.preferences:
                    metrics[step][-1].update({"validation_" + key: value
                                              for key, value in preference_figures(rng, step).items()})
                say(f"step {step:,} validation loss on {source} {loss:.3f} ({loss / math.log(2) / 4.2:.3f} bits/byte)")
            say(f"saved {step:,} in 2.31 s, training paused 0.04 s")
            saved = step
        if step in kills:
            kills.remove(step)
            now += datetime.timedelta(seconds=40)
            for later in [s for s in metrics if s > saved]:
                del metrics[later]
            step = saved
            start(saved)
    with open(directory / "metrics.jsonl", "w", encoding="utf-8") as file:
        for lines in metrics.values():
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
    (directory / "log.txt").write_text("\n".join(log) + "\n", encoding="utf-8")


# Ops of a layer: name, value, FLOPs, seconds of the forward.
OPS = [("layer_norm", "layer.norm1", 0, 2.1e-5), ("matmul", "layer.attn.qkv", 2.6e10, 1.3e-4),
       ("attention", "layer.attn.scores", 1.7e10, 2.0e-4), ("matmul", "layer.attn.out", 8.6e9, 5e-5),
       ("layer_norm", "layer.norm2", 0, 2.1e-5), ("matmul", "layer.mlp.up", 3.4e10, 1.7e-4),
       ("gelu", "layer.mlp.gelu", 0, 3e-5), ("matmul", "layer.mlp.down", 3.4e10, 1.7e-4)]


def rank_records(rank, rng, step):
    """One rank of two pipeline stages: forwards, then backwards, the reduction of gradients, the update."""
    records = [{"name": "process_name", "ph": "M", "pid": rank, "tid": 0,
                "args": {"name": f"rank {rank} of {RANKS}, step {step} of synthetic"}}]
    stage = rank % 2
    now = [0.0]

    def bar(name, queue, origin, seconds, flops=0.0, at=None):
        seconds *= rng.uniform(0.95, 1.08)
        arguments = {"origin": origin, "bytes": 4194304, "flops": flops}
        if flops:
            arguments["share_of_limit"] = flops / 2.6e14 / seconds
        records.append({"name": name, "cat": queue, "ph": "X", "ts": 1e6 * (now[0] if at is None else at),
                        "dur": 1e6 * seconds, "pid": rank, "tid": 0 if queue == "compute" else 1, "args": arguments})
        if at is None:
            now[0] += seconds

    def forward():
        for layer in range(stage * LAYERS // 2, (stage + 1) * LAYERS // 2):
            for name, value, flops, seconds in OPS:
                bar(name, "compute", f"layer {layer}, forward.layer, {value}", seconds, flops)
        if stage:
            bar("linear_cross_entropy", "compute", "head, head.loss", 9e-4, 1.2e11)
        else:
            bar("send", "send_forward", "send_forward, hidden", 4e-4, at=now[0])

    def backward():
        for layer in range((stage + 1) * LAYERS // 2 - 1, stage * LAYERS // 2 - 1, -1):
            for name, value, flops, seconds in reversed(OPS):
                for kind in ("matmul_grad_input", "matmul_grad_weight") if name == "matmul" else (name + "_grad",):
                    bar(kind, "compute", f"layer {layer}, backward.layer, {value}", seconds * 1.05, flops)
        if stage:
            bar("send", "send_backward", "send_backward, hidden'", 4e-4, at=now[0])

    now[0] = 0.011 * stage
    for microbatch in range(MICROBATCHES):
        forward()
        if stage or microbatch > 0:
            backward()
    if not stage:
        now[0] += 0.012
        backward()
    for layer in range(LAYERS // 2):
        bar("reduce_scatter", "data", f"layer {layer}, reduce.layer, layer.weights'", 6e-4, at=now[0] - 0.012 + layer * 1e-3)
    now[0] += 0.003
    for layer in range(LAYERS // 2):
        bar("adamw", "compute", f"layer {layer}, update.layer, layer.weights", 2.2e-4)
    return records


def write_trace(directory, rng):
    records = [record for rank in range(RANKS) for record in rank_records(rank, rng, 100)]
    with open(directory / "trace.json", "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[')
        file.write(",".join(json.dumps(r, separators=(",", ":")) for r in records))
        file.write("]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--experts", action="store_true", help="with the figures of routers")
    parser.add_argument("--preferences", action="store_true", help="with the figures of a preference objective")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    options.directory.mkdir(parents=True, exist_ok=True)
    write_course(options, rng)
    write_trace(options.directory, rng)
    (options.directory / "run.yaml").write_text(CONFIG.format(
        name=options.directory.name, directory=options.directory, seed=options.seed, steps=options.steps,
        rate=options.learning_rate, objective="dpo" if options.preferences else "sft", warmup=options.steps // 50, every=max(1, options.steps // 100)), encoding="utf-8")


if __name__ == "__main__":
    main()

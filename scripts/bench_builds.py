#!/usr/bin/env python3
"""Compares the step times of two builds on this machine, in turns.

    scripts/bench_builds.py --other OLD/tessera [--tessera build/tessera] [--turns 5] [--steps 12]

Trains five shapes in fp32 and bf16 with each build in turn, and prints per shape the ratio NEW/OLD of
their fastest steps of all turns. Other work on a machine only makes steps slower, so the fastest step
is the figure that it disturbs least. Then: the median over the turns of the ratio of the median
steps. Exits with 1 if a ratio of the fastest steps is above 1 + --bound (default 0.02).
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

RUN = """\
run: { name: builds, directory: run, seed: 7 }
data: { tokenizer: tokenizer.json, train: [train] }
schedule: { kind: constant }
checkpoint: { every_steps: 0 }
metrics: { validate_every_steps: 0, tensorboard: false }
"""
SHAPES = {
    "neox 4x512x320": "model.family=neox model.layers=4 model.hidden=320 model.heads=8 "
                      "data.sequence_length=512 batch.global=2 batch.micro=1",
    "llama 8x64x256": "model.family=llama model.layers=8 model.hidden=256 model.heads=4 "
                       "data.sequence_length=64 batch.global=16 batch.micro=8",
    "gpt2 2x1024x384": "model.family=gpt2 model.layers=2 model.hidden=384 model.heads=6 "
                       "data.sequence_length=1024 batch.global=2 batch.micro=1",
    "qwen2 3x200x528": "model.family=qwen2 model.layers=3 model.hidden=528 model.heads=8 "
                       "model.kv_heads=2 data.sequence_length=200 batch.global=6 batch.micro=3",
    "t5 6x128x256": "data.tokenizer=spans.model data.train=[spans] model.family=t5 model.layers=3 model.encoder_layers=3 model.hidden=256 "
                    "model.heads=4 data.objective=span_corruption data.sequence_length=128 "
                    "batch.global=8 batch.micro=4 optimizer.kind=adafactor",
}


def prepare(tessera, work):
    words = random.Random(5).choices("the a of one small large brown red fox dog walks".split(), k=40000)
    (work / "text.txt").write_text(" ".join(words))
    for tokenizer, options, data in (
            ("tokenizer.json", ["--vocabulary", "300"], "train"),
            ("spans.model", ["--kind", "unigram", "--vocabulary", "390", "--sentinels", "100"], "spans")):
        for command in (["tokenizer", "train", *options, "--out", tokenizer],
                        ["data", "build", "--tokenizer", tokenizer, "--out", data]):
            subprocess.run([tessera, *command, "text.txt"], cwd=work, check=True,
                           stdout=subprocess.DEVNULL)
    (work / "run.yaml").write_text(RUN)


def step_times(tessera, work, keys, steps):
    subprocess.run(["rm", "-rf", "run"], cwd=work, check=True)
    done = subprocess.run([tessera, "train", "run.yaml", f"schedule.steps={steps}",
                           "model.vocabulary=0", "model.context=1024", *keys], cwd=work,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{tessera} {' '.join(keys)}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    lines = map(json.loads, (work / "run" / "metrics.jsonl").read_text().splitlines())
    return [l["step_s"] for l in lines if "step_s" in l and l["step"] > 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tessera", default="build/tessera")
    parser.add_argument("--other", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--bound", type=float, default=0.02)
    parser.add_argument("--only", default="", help="part of a shape's name")
    o = parser.parse_args()
    new, old = str(pathlib.Path(o.tessera).resolve()), str(pathlib.Path(o.other).resolve())
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        prepare(old, work)
        for name, keys in SHAPES.items():
            for precision in ("fp32", "bf16"):
                if o.only not in name:
                    continue
                words = [*keys.split(), f"precision={precision}"]
                times = {new: [], old: []}
                for turn in range(o.turns):
                    for build in (new, old) if turn % 2 == 0 else (old, new):
                        times[build].append(step_times(build, work, words, o.steps))
                best = {build: min(map(min, turns)) for build, turns in times.items()}
                middle = [statistics.median(a) / statistics.median(b) for a, b in zip(times[new], times[old])]
                ratio = best[new] / best[old]
                slower += ratio > 1 + o.bound
                print(f"{name:18} {precision:5} fastest step {best[new] * 1e3:8.2f} ms   new/old {ratio:.3f}   "
                      f"medians {statistics.median(middle):.3f} ({min(middle):.3f} to {max(middle):.3f})",
                      flush=True)
    print(f"{slower} of the shapes are more than {o.bound:.0%} slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

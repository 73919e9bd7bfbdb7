#!/usr/bin/env python3
"""The same small runs in fp32, bf16 with fp32 masters, bf16_sr, and bf16 rounded to nearest.

usage: studies/rounding/rounding.py [--work FOLDER] [--text FILE] [--seeds 1 2 3]
       [--phases going-on]
Writes losses.csv, spread.csv, curves.csv, moved.csv and rounding.svg beside this file. Needs
build/tessera.

scratch   from random weights at a small model's rate
going-on  from the fp32 run's weights on other text, at steps as small beside the weights as those
          of large models late in their runs; all seeds from the same weights, each with its own
          order of the text and random numbers

Seeds that are not run keep their rows in the tables.
"""
import array
import itertools
import json
import pathlib
import statistics
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402

FORMATS = {  # precision and, of weights and moments that are kept in bf16 alone, their rounding
    "fp32": ("fp32", None),
    "bf16": ("bf16", None),
    "bf16_sr": ("bf16_sr", "stochastic"),
    "bf16 nearest": ("bf16_sr", "nearest"),
}
START = 1  # the seed of the run that all go on from
VOCABULARY, MEGABYTES, LAST = 2048, 12, 100  # the final loss is the mean of the last LAST steps
PHASES = {"scratch": dict(steps=800, rate=1e-3, text="train", valid="valid"),
          "going-on": dict(steps=400, rate=1e-4, text="tune", valid="tune-valid")}


def keys(study, phase, how, seed):
    p = PHASES[phase]
    out = {
        "run": {"seed": seed},
        "model": {"family": "neox", "layers": 3, "hidden": 96, "heads": 3, "context": 128,
                  "init": "normal", "output_init": "scaled_normal"},
        "data": {"tokenizer": str(study.work / "tokenizer.json"),
                 "train": [str(study.work / p["text"])],
                 "validation": [str(study.work / p["valid"])], "sequence_length": 128},
        "batch": {"global": 8, "micro": 8},
        "optimizer": {"kind": "adamw", "learning_rate": p["rate"], "beta2": 0.95,
                      "weight_decay": 0.1, "clip_norm": 1.0},
        "schedule": {"kind": "cosine", "steps": p["steps"], "warmup_steps": p["steps"] // 20,
                     "min_lr_ratio": 0.1},
        "checkpoint": {"every_steps": 200, "keep": 1},
        "metrics": {"validate_every_steps": 100, "validate_sequences": 256, "tensorboard": False},
    }
    out["precision"], rounding = FORMATS[how]
    if rounding:
        out["optimizer"]["rounding"] = rounding
    if phase == "going-on":
        out["checkpoint"] |= {"from": str(study.work / name_of("scratch", "fp32", START)),
                              "load": "weights"}
    return out


def name_of(phase, how, seed):
    return f"{phase}-{how.replace(' ', '-')}-{seed}"


def tensors(study, run):
    """The weights of a run by name, as f32, of the exported model."""
    data = (study.export(run) / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, about in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            out[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return out


def bf16(x):
    """x rounded to the nearest bf16, ties to even, as its bits."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def moved(study, how, seed):
    """Shares of weights whose bf16 differs between the start and the end of going on, and how far
    they are from the start: |end − start| / |start|; of matrices and of norms' gains."""
    before = tensors(study, name_of("scratch", "fp32", START))
    after = tensors(study, name_of("going-on", how, seed))
    out = {}
    for kind, member in (("matrices", lambda n: n.endswith("weight") and "norm" not in n),
                         ("gains", lambda n: n.endswith("norm.weight"))):
        pairs = [(a, b) for n in before if member(n) for a, b in zip(before[n], after[n])]
        changed = sum(bf16(a) != bf16(b) for a, b in pairs) / len(pairs)
        far = (sum((b - a) ** 2 for a, b in pairs) / sum(a * a for a, _ in pairs)) ** 0.5
        out[kind] = (changed, far)
    return out


def write_moved(study, seeds):
    shares = [[how, s, kind, f"{changed:.4f}", f"{far:.6f}"] for s in seeds for how in FORMATS
              for kind, (changed, far) in moved(study, how, s).items()]
    small_runs.add_rows(HERE / "moved.csv", ["format", "seed", "weights", "share_changed",
                                             "relative_distance"], shares, 1)


def write_spread(losses):
    """Over seeds: the mean validation losses, and mean and range of their distance to fp32's."""
    rows = []
    for phase, how in itertools.product(PHASES, FORMATS):
        of = [r for r in losses if r[:2] == [phase, how]]
        if not of:
            continue
        loss, far = [float(r[5]) for r in of], [float(r[6]) for r in of]
        rows.append([phase, how, len(of), f"{statistics.mean(loss):.4f}",
                     f"{max(loss) - min(loss):.4f}", f"{statistics.mean(far):+.3f}",
                     f"{min(far):+.3f}", f"{max(far):+.3f}"])
        print(*rows[-1], sep="\t")
    small_runs.write_csv(HERE / "spread.csv", [
        "phase", "format", "seeds", "validation_loss_mean", "validation_loss_range",
        "to_fp32_percent_mean", "to_fp32_percent_least", "to_fp32_percent_most"], rows)


def picture(curves, phases, seed):
    panels = []
    for phase in phases:
        runs = {how: curves[phase, how, seed] for how in FORMATS}
        panels.append(chart.Panel(phase, "step", "training loss, means of 50 steps", {
            how: small_runs.smooth(c.of("loss"), 50) for how, c in runs.items()}))
        panels.append(chart.Panel(phase, "step", "validation loss", {
            how: c.validations for how, c in runs.items()}))
    chart.draw(HERE / "rounding.svg", panels)


def main():
    parser = small_runs.parser(__doc__, "rounding")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--phases", nargs="*", choices=PHASES, default=list(PHASES))
    study = small_runs.Study(parser.parse_args())
    study.corpus(VOCABULARY, MEGABYTES)
    seeds, phases = study.options.seeds, study.options.phases
    curves = {}
    start = ("scratch", "fp32", START)
    study.train(name_of(*start), keys(study, *start))
    for case in ((p, h, s) for s in seeds for p in phases for h in FORMATS):
        curves[case] = study.train(name_of(*case), keys(study, *case))
    rows = []
    for (phase, how, seed), c in curves.items():
        base = curves[phase, "fp32", seed]
        rows.append([phase, how, seed, f"{c.last(LAST):.4f}",
                     f"{small_runs.percent(c.last(LAST), base.last(LAST)):+.3f}",
                     f"{c.validation:.4f}",
                     f"{small_runs.percent(c.validation, base.validation):+.3f}"])
        print(*rows[-1], sep="\t")
    write_spread(small_runs.add_rows(HERE / "losses.csv", [
        "phase", "format", "seed", f"loss_last_{LAST}_steps", "to_fp32_percent", "validation_loss",
        "validation_to_fp32_percent"], rows, 2))
    small_runs.add_rows(
        HERE / "curves.csv", ["phase", "format", "seed", "step", "validation_loss"],
        [[p, h, s, n, f"{v:.5f}"] for (p, h, s), c in curves.items() for n, v in c.validations], 2)
    if "going-on" in phases:
        write_moved(study, seeds)
    if START in seeds:
        picture(curves, phases, START)


if __name__ == "__main__":
    main()

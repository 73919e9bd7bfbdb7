#!/usr/bin/env python3
"""Steps that Muon needs for AdamW's loss: the same small model, text and learning rates for both.

usage: studies/muon/muon.py [--work FOLDER] [--text FILE] [--steps 600] [--shares 0.6 0.7 0.8 1.0]
       [--rates 4e-3 8e-3 1.6e-2] [--momenta 0.9 0.95]
Writes losses.csv and muon.svg in this folder. Requires build/tessera.

Each run has its own cosine schedule to its last step. For each number of steps, the best of the grid of
learning rates and momenta (AdamW's beta1) counts. AdamW runs `--steps` steps, Muon these shares of them. Both are in fp32.
"""
import itertools
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402

VOCABULARY, MEGABYTES = 2048, 12


def keys(study, kind, rate, momentum, steps):
    return {
        "run": {"seed": 1},
        "model": {"family": "neox", "layers": 3, "hidden": 96, "heads": 3, "context": 128},
        "data": {"tokenizer": str(study.work / "tokenizer.json"), "train": [str(study.work / "train")],
                 "validation": [str(study.work / "valid")], "sequence_length": 128},
        "batch": {"global": 8, "micro": 8},
        "optimizer": {"kind": kind, "learning_rate": rate, "momentum" if kind == "muon" else "beta1": momentum,
                      "beta2": 0.95, "weight_decay": 0.1, "clip_norm": 1.0},
        "schedule": {"kind": "cosine", "steps": steps, "warmup_steps": steps // 20, "min_lr_ratio": 0.05},
        "precision": "fp32",
        "checkpoint": {"every_steps": steps, "keep": 1},
        "metrics": {"validate_every_steps": steps, "validate_sequences": 512, "tensorboard": False},
    }


def main():
    parser = small_runs.parser(__doc__, "muon")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.6, 0.7, 0.8, 1.0])
    parser.add_argument("--rates", type=float, nargs="+", default=[4e-3, 8e-3, 1.6e-2])
    parser.add_argument("--momenta", type=float, nargs="+", default=[0.9, 0.95])
    options = parser.parse_args()
    study = small_runs.Study(options)
    study.corpus(VOCABULARY, MEGABYTES)
    cases = [("adamw", options.steps)] + [("muon", round(s * options.steps)) for s in options.shares]
    rows, best = [], {}
    for kind, steps in cases:
        for rate, momentum in itertools.product(options.rates, options.momenta):
            curve = study.train(f"{kind}-{steps}-{rate:g}-{momentum:g}", keys(study, kind, rate, momentum, steps))
            rows.append([kind, steps, f"{rate:g}", f"{momentum:g}", f"{curve.last(steps // 10):.4f}",
                         f"{curve.validation:.4f}"])
            if (kind, steps) not in best or curve.validation < best[kind, steps].validation:
                best[kind, steps] = curve
    small_runs.write_csv(HERE / "losses.csv",
                         ["optimizer", "steps", "rate", "momentum", "training_loss", "validation_loss"], rows)
    chart.draw(HERE / "muon.svg", [chart.Panel(
        "the best run of each", "step", "training loss, means of 20 steps",
        {f"{kind}, {steps} steps": small_runs.smooth(c.of("loss"), 20)
         for (kind, steps), c in best.items()})])
    goal = best["adamw", options.steps].validation
    for (kind, steps), curve in best.items():
        print(f"{kind}\t{steps} steps ({100 * steps / options.steps:.0f} %)\tvalidation loss "
              f"{curve.validation:.4f} ({curve.validation - goal:+.4f})")


if __name__ == "__main__":
    main()

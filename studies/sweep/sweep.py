#!/usr/bin/env python3
"""A sweep of 12 learning rates with successive halving, and the same 12 rates in full.

usage: studies/sweep/sweep.py [--work FOLDER] [--text FILE] [--steps 360] [--halving 2 3]
Writes rates.csv and sweep.svg in this folder. Requires build/tessera.

A small NeoX model on text. `tessera sweep` trains the rates of a logarithmic grid from 1e-4 to 1e-1: all of
them in full, and with --halving, which stops most of them at its rungs.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402

VOCABULARY, MEGABYTES, TRIALS = 1024, 3, 12


def keys(study, steps):
    return {
        "run": {"seed": 1, "threads": study.options.threads},
        "model": {"family": "neox", "layers": 2, "hidden": 64, "heads": 2, "context": 64},
        "data": {"tokenizer": str(study.work / "tokenizer.json"), "train": [str(study.work / "train")],
                 "validation": [str(study.work / "valid")], "sequence_length": 64},
        "batch": {"global": 8, "micro": 8},
        "optimizer": {"kind": "adamw", "beta2": 0.95, "weight_decay": 0.1, "clip_norm": 1.0},
        "schedule": {"kind": "cosine", "steps": steps, "warmup_steps": steps // 20, "min_lr_ratio": 0.05},
        "precision": "fp32",
        "checkpoint": {"every_steps": 0, "keep": 1},
        "metrics": {"validate_every_steps": 0, "validate_sequences": 256, "tensorboard": False},
    }


def sweep(study, run, halving):
    """Runs the sweep, or continues it. Returns its sweep.json."""
    out = study.work / f"halving-{halving}"
    print(f"sweep with --halving {halving}", flush=True)
    study.tessera("sweep", run, "optimizer.learning_rate=1e-4..1e-1", "--method", "grid", "--points", TRIALS,
                  "--halving", halving, "--out", out)
    return json.loads((out / "sweep.json").read_text())


def rate(trial):
    return float(trial["keys"]["optimizer.learning_rate"])


def main():
    parser = small_runs.parser(__doc__, "sweep")
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--halving", type=int, nargs="+", default=[2, 3])
    options = parser.parse_args()
    study = small_runs.Study(options)
    study.corpus(VOCABULARY, MEGABYTES)
    run = study.run_file("run", keys(study, options.steps))
    sweeps = {n: sweep(study, run, n) for n in [1, *options.halving]}
    rows, curves = [], {}
    for n, result in sweeps.items():
        for trial in result["trials"]:
            for rung in trial["rungs"]:
                rows.append([n, f"{rate(trial):.4g}", rung["steps"], f"{rung['score']:.4f}"])
                curves.setdefault(f"halving {n}, step {rung['steps']}", []).append(
                    (rate(trial), rung["score"]))
    small_runs.write_csv(HERE / "rates.csv", ["halving", "rate", "steps", "validation_loss"], rows)
    chart.draw(HERE / "sweep.svg", [chart.Panel(
        "12 learning rates", "learning rate", "validation loss",
        {name: points for name, points in curves.items()
         if name.startswith(f"halving {options.halving[-1]}") or name.startswith("halving 1,")},
        log_x=True, marks=True)])
    for n, result in sweeps.items():
        best = result["trials"][result["best"]]
        share = 100 * result["steps_taken"] / result["steps_in_full"]
        print(f"halving {n}\tbest rate {rate(best):.4g}\tvalidation loss {best['rungs'][-1]['score']:.4f}\t"
              f"{result['steps_taken']} of {result['steps_in_full']} steps ({share:.0f} %)")


if __name__ == "__main__":
    main()

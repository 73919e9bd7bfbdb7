#!/usr/bin/env python3
"""A dense model and one with experts, of equal active parameters: their curves, and their speed.

usage: studies/experts/experts.py [--work FOLDER] [--text FILE] [--threads N] [--steps 400]
       [--rates 1e-3 2e-3] [--turns 3]
Writes losses.csv and experts.svg in this folder. Requires build/tessera.

The dense model is a Llama of 5 M parameters in its layers. The other is a Mixtral whose experts have half of
the inner width, 2 of 8 per token, so a token passes through as many parameters plus those of the router.
Both train on the same text with the same seed and learning rates; for each model the best rate counts. The
speed is measured in turns, in short runs of their own.
"""
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402

VOCABULARY, MEGABYTES = 2048, 12
LAYERS, HIDDEN, INNER, EXPERTS, CHOSEN = 6, 256, 704, 8, 2
SPEED_STEPS, SETTLED_AFTER = 20, 5
MODELS = {
    "dense": {"family": "llama", "feed_forward": INNER},
    "experts": {"family": "mixtral", "feed_forward": INNER // CHOSEN, "experts": EXPERTS,
                "experts_per_token": CHOSEN, "router": {"balance_loss": 0.01}},
}


def active_parameters(kind):
    """Parameters of GEMMs that a token passes through: layers and the head."""
    layer = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER + (HIDDEN * EXPERTS if kind == "experts" else 0)
    return LAYERS * layer + VOCABULARY * HIDDEN


def keys(study, kind, rate, steps, validates=True):
    return {
        "run": {"seed": 1},
        "model": {"layers": LAYERS, "hidden": HIDDEN, "heads": 4, "context": 128, **MODELS[kind]},
        "data": {"tokenizer": str(study.work / "tokenizer.json"), "train": [str(study.work / "train")],
                 "validation": [str(study.work / "valid")] if validates else [], "sequence_length": 128},
        "batch": {"global": 16, "micro": 16},
        "optimizer": {"kind": "adamw", "learning_rate": rate, "beta2": 0.95, "weight_decay": 0.1,
                      "clip_norm": 1.0},
        "schedule": {"kind": "cosine", "steps": steps, "warmup_steps": steps // 20, "min_lr_ratio": 0.05},
        "precision": "fp32",
        "checkpoint": {"every_steps": steps, "keep": 1},
        "metrics": {"validate_every_steps": max(1, steps // 8), "validate_sequences": 512,
                    "tensorboard": False},
    }


def tokens_per_s(study, kind, turn):
    name = f"speed-{kind}-{turn}"
    curve = study.train(name, keys(study, kind, 1e-3, SPEED_STEPS, validates=False))
    return statistics.median(rate for step, rate in curve.of("tokens_per_s") if step > SETTLED_AFTER)


def main():
    parser = small_runs.parser(__doc__, "experts")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2e-3])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    study = small_runs.Study(options)
    study.corpus(VOCABULARY, MEGABYTES)
    speeds = {kind: [] for kind in MODELS}
    for turn in range(options.turns):
        for kind in MODELS:
            speeds[kind].append(tokens_per_s(study, kind, turn))
    rows, best = [], {}
    for kind in MODELS:
        for rate in options.rates:
            curve = study.train(f"{kind}-{rate:g}", keys(study, kind, rate, options.steps))
            for step, loss in curve.validations:
                rows.append([kind, f"{rate:g}", step, f"{loss:.4f}"])
            if kind not in best or curve.validation < best[kind].validation:
                best[kind] = curve
    small_runs.write_csv(HERE / "losses.csv", ["model", "rate", "step", "validation_loss"], rows)
    chart.draw(HERE / "experts.svg", [chart.Panel(
        "equal active parameters", "step", "training loss, means of 10 steps",
        {kind: small_runs.smooth(c.of("loss"), 10) for kind, c in best.items()})])
    flops = {}
    for kind, curve in best.items():
        rate = statistics.median(speeds[kind])
        flops[kind] = rate * 6 * active_parameters(kind)
        print(f"{kind}\t{active_parameters(kind) / 1e6:.2f} M active parameters\tvalidation loss "
              f"{curve.validation:.4f}\t{rate:.0f} tokens/s\t{flops[kind] / 1e9:.1f} GFLOP/s of active GEMMs")
    print(f"speed per active FLOP, experts to dense: {100 * flops['experts'] / flops['dense']:.0f} %")


if __name__ == "__main__":
    main()

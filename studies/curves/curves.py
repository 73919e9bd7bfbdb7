#!/usr/bin/env python3
"""Loss and gradient norm of NeoX and Pythia, pre-training and fine-tuning: bf16_sr beside PyTorch.

usage: studies/curves/curves.py [--work FOLDER] [--text FILE] [--models neox pythia]
Writes curves.csv, summary.csv, probe.csv and curves.svg beside this file. Needs build/tessera and
the environment of scripts/peer_environment.sh.

Three sides start from the same weights and read the same batches: ours with precision bf16_sr, ours
in fp32, and PyTorch with fp32 weights and bf16 products (studies/peer_train.py). Fine-tuning goes on
from each side's own weights, on other text and with new optimizer state.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402
from small_runs import percent, smooth  # noqa: E402

VOCABULARY, MEGABYTES, OVER, LAST, PROBE = 2048, 12, 10, 40, 8
SIDES = {"fp32": "Tessera fp32", "bf16_sr": "Tessera bf16_sr", "autocast": "PyTorch bf16"}
# Twins: NeoX's with heads of 32, Pythia's with the layers and widths of pythia-14m.
MODELS = {"neox": dict(layers=3, hidden=96, heads=3), "pythia": dict(layers=6, hidden=128, heads=4)}
# The recipe's shape at a small model's rate: AdamW .9/.95, decay 0.01, clip 1, cosine to a tenth.
PHASES = {"pre-training": dict(steps=240, rate=1e-3, warmup=12, text="train", valid="valid"),
          "fine-tuning": dict(steps=80, rate=2e-4, warmup=4, text="tune", valid="tune-valid")}


def sections(study, model, phase, precision, start):
    p = PHASES[phase]
    return {
        "run": {"seed": 1234},
        "model": {"family": "neox", "context": 128, "init": "normal",
                  "output_init": "scaled_normal", "init_std": 0.021} | MODELS[model],
        "data": {"tokenizer": str(study.work / "tokenizer.json"),
                 "train": [str(study.work / p["text"])],
                 "validation": [str(study.work / p["valid"])], "sequence_length": 128},
        "batch": {"global": 4, "micro": 4},
        "optimizer": {"learning_rate": p["rate"], "weight_decay": 0.01},
        "schedule": {"kind": "cosine", "steps": p["steps"], "warmup_steps": p["warmup"],
                     "min_lr_ratio": 0.1},
        "precision": precision,
        "checkpoint": {"every_steps": 200, "keep": 1} | (
            {"from": str(start), "load": "weights"} if start else {}),
        "metrics": {"validate_every_steps": 0, "validate_sequences": 256, "tensorboard": False},
    }


def largest(a, b):
    """The largest distance of values of `a` from those of `b`, in per cent."""
    return max(abs(percent(x, y)) for (_, x), (_, y) in zip(a, b))


def probe(study):
    """How far "rounded" is from PyTorch's own autocast: the first steps with both, and in fp32."""
    start, model = study.start("neox-start", sections(study, "neox", "pre-training", "fp32", None))
    run = sections(study, "neox", "pre-training", "fp32", start)
    run["schedule"] |= {"steps": PROBE, "warmup_steps": 2}
    study.train("probe", run)
    true, *others = (study.peer(f"probe-{how}", model, "probe", bf16=bf16) for how, bf16 in (
        ("autocast", "autocast"), ("rounded", "rounded"), ("fp32", None)))
    return [[how, *(f"{largest(c.of(key), true.of(key)):.4f}" for key in ("loss", "grad_norm"))]
            for how, c in zip(("rounded", "fp32"), others)]


def train(study, model):
    """The curves of all phases and sides."""
    start, exported = study.start(f"{model}-start",
                                  sections(study, model, "pre-training", "fp32", None))
    curves, before = {}, {side: start for side in SIDES}
    for phase, p in PHASES.items():
        for side in ("fp32", "bf16_sr"):
            name = f"{model}-{phase}-{side}"
            curves[phase, side] = study.train(name, sections(study, model, phase, side, before[side]))
            before[side] = study.work / name
        validation = [str(study.work / f"{p['valid']}.bin"), 256, 128]
        name = f"{model}-{phase}-autocast"
        curves[phase, "autocast"] = study.peer(name, exported, f"{model}-{phase}-fp32", validation,
                                               "rounded")
        exported = study.work / name
    return curves


def picture(results):
    panels = [chart.Panel(f"{model}, {phase}", "step", what, {
        text: smooth(curves[phase, side].of(key), OVER) for side, text in SIDES.items()},
        log_y=key == "grad_norm")
        for model, curves in results.items() for phase in PHASES
        for key, what in (("loss", f"loss, means of {OVER} steps"),
                          ("grad_norm", "gradient norm"))]
    chart.draw(HERE / "curves.svg", panels)


def write(results):
    rows, points = [], []
    for model, curves in results.items():
        for phase in PHASES:
            theirs = curves[phase, "autocast"]
            for side in SIDES:
                c = curves[phase, side]
                smoothed = [smooth(c.of(k), OVER) for k in ("loss", "grad_norm")]
                far = [largest(x, smooth(theirs.of(k), OVER))
                       for x, k in zip(smoothed, ("loss", "grad_norm"))]
                rows.append([model, phase, SIDES[side], *(f"{x:.3f}" for x in far),
                             f"{c.last(LAST):.4f}", f"{percent(c.last(LAST), theirs.last(LAST)):+.4f}",
                             f"{c.validation:.4f}",
                             f"{percent(c.validation, theirs.validation):+.4f}"])
                print(*rows[-1], sep="\t")
                points += [[model, phase, side, n, f"{a:.5f}", f"{b:.5f}"]
                           for (n, a), (_, b) in zip(*smoothed)]
    small_runs.write_csv(HERE / "summary.csv", [
        "model", "phase", "side", f"largest_difference_of_{OVER}_step_losses_percent",
        "of_gradient_norms_percent", f"loss_last_{LAST}_steps", "to_pytorch_percent",
        "validation_loss", "validation_to_pytorch_percent"], rows)
    small_runs.write_csv(HERE / "curves.csv",
                         ["model", "phase", "side", "step", "loss", "grad_norm"], points)


def main():
    parser = small_runs.parser(__doc__, "curves")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    study = small_runs.Study(parser.parse_args())
    study.corpus(VOCABULARY, MEGABYTES)
    results = {model: train(study, model) for model in study.options.models}
    write(results)
    picture(results)
    rows = probe(study)
    for row in rows:
        print("probe", *row, sep="\t")
    small_runs.write_csv(HERE / "probe.csv", [
        f"of_the_first_{PROBE}_steps", "loss_to_autocast_percent", "gradient_norm_to_autocast_percent"],
        rows)


if __name__ == "__main__":
    main()

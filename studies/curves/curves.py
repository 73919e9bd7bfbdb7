#!/usr/bin/env python3
"""Loss and gradient norm of NeoX, pre-training and fine-tuning: bf16_sr beside PyTorch's autocast.

usage: studies/curves/curves.py [--work FOLDER] [--text FILE]
Writes curves.csv, summary.csv and curves.svg beside this file. Needs build/tessera and the
environment of scripts/peer_environment.sh.

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

VOCABULARY, MEGABYTES, OVER, LAST = 2048, 12, 10, 40
SIDES = {"fp32": "Tessera fp32", "bf16_sr": "Tessera bf16_sr", "autocast": "PyTorch bf16"}
# The recipe's shape at a small model's rate: AdamW .9/.95, decay 0.01, clip 1, cosine to a tenth.
PHASES = {"pre-training": dict(steps=200, rate=1e-3, warmup=10, text="train", valid="valid"),
          "fine-tuning": dict(steps=80, rate=2e-4, warmup=4, text="tune", valid="tune-valid")}


def sections(study, phase, precision, start):
    p = PHASES[phase]
    return {
        "run": {"seed": 1234},
        "model": {"family": "neox", "layers": 3, "hidden": 96, "heads": 3, "context": 128,
                  "init": "normal", "output_init": "scaled_normal", "init_std": 0.021},
        "data": {"tokenizer": str(study.work / "tokenizer.json"),
                 "train": [str(study.work / p["text"])],
                 "validation": [str(study.work / p["valid"])], "sequence_length": 128},
        "batch": {"global": 8, "micro": 8},
        "optimizer": {"learning_rate": p["rate"], "weight_decay": 0.01},
        "schedule": {"kind": "cosine", "steps": p["steps"], "warmup_steps": p["warmup"],
                     "floor": 0.1},
        "precision": precision,
        "checkpoint": {"every_steps": 200, "keep": 1} | ({"from": str(start)} if start else {}),
        "metrics": {"validate_every_steps": 0, "validate_sequences": 256, "tensorboard": False},
    }


def check_rounding(study, model):
    """How far "rounded" is from PyTorch's own autocast: the first steps with both."""
    steps = 8
    run = sections(study, "pre-training", "fp32", study.work / "start")
    run["schedule"] |= {"steps": steps, "warmup_steps": 2}
    study.train("probe", run)
    curves = [study.peer(f"probe-{how}", model, "probe", bf16=how) for how in ("autocast", "rounded")]
    fp32 = study.peer("probe-fp32", model, "probe")
    worst = {}
    for key in ("loss", "grad_norm"):
        true, ours, exact = ([v for _, v in c.of(key)] for c in (*curves, fp32))
        worst[key] = (max(abs(percent(a, b)) for a, b in zip(ours, true)),
                      max(abs(percent(a, b)) for a, b in zip(exact, true)))
        print(f"{key} of {steps} steps: rounded to autocast {worst[key][0]:.4f} %, "
              f"fp32 to autocast {worst[key][1]:.4f} %")
    return worst


def train(study):
    start, model = study.start("start", sections(study, "pre-training", "fp32", None))
    check = check_rounding(study, model)
    curves, before = {}, {side: start for side in SIDES}
    for phase, p in PHASES.items():
        for side in ("fp32", "bf16_sr"):
            name = f"{phase}-{side}"
            curves[phase, side] = study.train(name, sections(study, phase, side, before[side]))
            before[side] = study.work / name
        validation = [str(study.work / f"{p['valid']}.bin"), 256, 128]
        name = f"{phase}-autocast"
        curves[phase, "autocast"] = study.peer(name, model, f"{phase}-fp32", validation, "rounded")
        model = study.work / name
    return curves, check


def picture(curves):
    panels = [chart.Panel(phase, "step", what, {
        text: smooth(curves[phase, side].of(key), OVER) for side, text in SIDES.items()},
        log_y=key == "grad_norm")
        for phase in PHASES
        for key, what in (("loss", f"loss, means of {OVER} steps"),
                          ("grad_norm", "gradient norm"))]
    chart.draw(HERE / "curves.svg", panels)


def main():
    study = small_runs.Study(small_runs.parser(__doc__, "curves").parse_args())
    study.corpus(VOCABULARY, MEGABYTES)
    curves, check = train(study)
    rows, points = [[f"rounded to autocast, {k}", *(f"{v:.4f}" for v in pair), "", ""]
                    for k, pair in check.items()], []
    for phase in PHASES:
        theirs = curves[phase, "autocast"]
        smoothed = {s: [smooth(curves[phase, s].of(k), OVER) for k in ("loss", "grad_norm")]
                    for s in SIDES}
        for side in SIDES:
            c = curves[phase, side]
            far = [max(abs(percent(a, b)) for (_, a), (_, b) in zip(x, y))
                   for x, y in zip(smoothed[side], smoothed["autocast"])]
            rows.append([f"{phase}, {SIDES[side]}", f"{far[0]:.3f}", f"{far[1]:.3f}",
                         f"{c.last(LAST):.4f}", f"{c.validation:.4f}"])
            print(f"{rows[-1][0]}: final loss {percent(c.last(LAST), theirs.last(LAST)):+.3f} %,"
                  f" validation {percent(c.validation, theirs.validation):+.3f} % of PyTorch's")
            points += [[phase, side, n, f"{a:.5f}", f"{b:.5f}"]
                       for (n, a), (_, b) in zip(*smoothed[side])]
    small_runs.write_csv(HERE / "summary.csv", [
        "what", "largest_loss_difference_percent", "largest_norm_difference_percent",
        f"loss_last_{LAST}_steps", "validation_loss"], rows)
    small_runs.write_csv(HERE / "curves.csv", ["phase", "side", "step", "loss", "grad_norm"], points)
    picture(curves)


if __name__ == "__main__":
    main()

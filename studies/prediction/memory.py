#!/usr/bin/env python3
"""Memory of the Korthikanti table (figure 1 of the paper), by its definition, from compiled programs.

usage: studies/prediction/memory.py

Weights and optimizer: what a device keeps of its layers, gradients in it. Activations: what the
layers of the first stage keep for their backwards. Neither counts embeddings and logits, so the
vocabulary is small here, and the second stage, which has nothing but layers, is read where there is
one. Writes memory.csv beside this file. Needs: ninja -C build plan_rows
"""
import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import rows  # noqa: E402
import table  # noqa: E402

GIB = 2**30
# GiB: weights and optimizer; activations without any technique, and with sequence parallelism and
# selective recomputation.
PUBLISHED = {"22B": (45.5625, 59.25, 9.5625), "175B": (45.5625, 66.84375, 12.3515625),
             "530B": (31.640625, 114.0234375, 23.076171875),
             "1T": (32.958984375, 131.25, 26.5625)}
TECHNIQUES = [("none", "none", "false"), ("sequence parallel, selective", "selective", "true")]


def runs():
    for name, layers, hidden, heads, t, p, v, batch, micro, _, _ in rows.KORTHIKANTI:
        for technique, recompute, parallel in TECHNIQUES:
            keys = rows.keys(layers, hidden, heads, 2048, t, p, 1, batch, micro, v, recompute,
                             parallel)
            yield name, technique, p, f"{keys} model.vocabulary=1024"


def recomputes(technique):
    """Its peak comes when all gradients are there; without, one stage has none of them then."""
    return technique != "none"


def main():
    every = list(runs())
    r = table.Rows(str(HERE / "megatron.yaml"), "a100-80gb", "megatron-2022",
                   [keys for *_, keys in every], "memory")
    predictions = r.predictions()
    r.close()
    errors = {"weights and optimizer": [], "activations": []}
    with open(HERE / "memory.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "technique", "what", "published_gib", "compiled_gib",
                         "error_percent"])
        for (name, technique, stages, _), p in zip(every, predictions):
            layers = p["stages"][min(1, stages - 1)]["memory"]
            state = sum(layers[f"{k}_bytes"] for k in ("weights", "optimizer", "gradients"))
            saved = p["stages"][0]["memory"]["saved_bytes"]
            which = 1 + [t for t, *_ in TECHNIQUES].index(technique)
            lines = [("activations", saved, PUBLISHED[name][which])]
            if recomputes(technique):
                lines.append(("weights and optimizer", state, PUBLISHED[name][0]))
            for what, bytes_, published in lines:
                error = 100 * (bytes_ / GIB / published - 1)
                errors[what].append(abs(error))
                writer.writerow([name, technique, what, published, f"{bytes_ / GIB:.3f}",
                                 f"{error:.2f}"])
                print(f"{name:5} {technique:29} {what:22} published {published:9.3f} GiB, "
                      f"compiled {bytes_ / GIB:9.3f}  {error:+.2f} %")
    for what, e in errors.items():
        print(f"{what}: mean {statistics.mean(e):.2f} %, worst {max(e):.2f} %")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The Frontier paper's three models: throughput by its own counter, memory by stage, scaling.

usage: studies/frontier/frontier.py MEMORY_CSV [--fit] [--scaling 175B|all]
Writes *.csv beside this file.
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import table  # noqa: E402

# name, preset, TP, PP, DP, micro, global batch, published TFLOP/s a GCD (k = 4 counter)
RUNS = [
    ("22B", "frontier-22b", 1, 8, 2, 1, 640, 73.5),
    ("175B", "frontier-175b", 4, 16, 2, 1, 640, 69.2),
    ("1T", "frontier-1t", 8, 64, 1, 1, 1600, 61.2),
]
CONSTANTS = {"device.matrix_efficiency": (0.51, 0.3, 0.9)}


def keys(preset, tensor, pipeline, data, micro, batch, more=""):
    return (f"model.preset={preset} layout.tensor={tensor} layout.pipeline={pipeline} "
            f"layout.data={data} batch.micro={micro} batch.global={batch} {more}")


def rows_of(runs):
    return table.Rows(str(HERE / "frontier.yaml"), "mi250x-frontier", "megatron-deepspeed-frontier",
                      runs)


def counted(predictions):
    """TFLOP/s a device by the paper's counter."""
    return [p["flops"]["counter"] / p["devices"] / p["step_s"] / 1e12 for p in predictions]


def sizes(fit):
    rows = rows_of([keys(*r[1:7]) for r in RUNS])
    predictions = rows.predictions()
    work = [p["flops"]["counter"] / p["devices"] / 1e12 for p in predictions]
    measured = RUNS[0][7]
    values = {}
    if fit:
        values, best = table.fit(lambda v: abs(work[0] / rows.seconds(v)[0] / measured - 1),
                                 CONSTANTS)
        print("fitted on 22B:", values)
    got = [w / s for w, s in zip(work, rows.seconds(values))]
    rows.close()
    with open(HERE / "sizes.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "published_tflops", "predicted_tflops", "error_percent"])
        for r, g in zip(RUNS, got):
            writer.writerow([r[0], r[7], f"{g:.2f}", f"{100 * (g / r[7] - 1):.2f}"])
            print(f"{r[0]:5} published {r[7]:5.1f}  predicted {g:5.1f} TFLOP/s a GCD "
                  f"{100 * (g / r[7] - 1):+.1f} %")


def scaling(all_sizes):
    """Weak scaling (batch grows with the replicas) and strong (a fixed batch), by data ranks."""
    runs = [("175B", "weak", d, keys("frontier-175b", 4, 16, d, 1, 320 * d)) for d in (2, 8, 16)]
    runs += [("175B", "strong", d, keys("frontier-175b", 4, 16, d, 1, 8000)) for d in (8, 16)]
    if all_sizes:
        runs += [("1T", "weak", d, keys("frontier-1t", 8, 64, d, 1, 1600 * d)) for d in (1, 3, 6)]
        runs += [("1T", "strong", d, keys("frontier-1t", 8, 64, d, 1, 8016)) for d in (3, 6)]
    rows = rows_of([r[3] for r in runs])
    seconds = rows.seconds({})
    rows.close()
    base = {}
    with open(HERE / "scaling.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "kind", "devices", "step_s", "efficiency_percent"])
        for (name, kind, data, _), s in zip(runs, seconds):
            devices = data * (64 if name == "175B" else 512)
            first = base.setdefault((name, kind), (s, data))
            ideal = first[0] if kind == "weak" else first[0] * first[1] / data
            writer.writerow([name, kind, devices, f"{s:.2f}", f"{100 * ideal / s:.1f}"])
            print(f"{name:5} {kind:6} {devices:5} GCDs {s:9.2f} s  {100 * ideal / s:5.1f} %")


def observations():
    """The paper's four: tensor ranks, micro-batches, stages, and both of these together."""
    curves = {
        "tensor": [(t, keys("frontier-22b", t, 4, 1, 1, 64)) for t in (1, 2, 4, 8, 16)],
        "micro_batches": [(m, keys("frontier-22b", 2, 8, 1, 1, m)) for m in (8, 16, 32, 64, 128)],
        "stages": [(p, keys("frontier-22b", 2, p, 1, 1, 64)) for p in (4, 8, 16, 24)],
        "stages_and_batch": [(p, keys("frontier-22b", 2, p, 1, 1, 8 * p)) for p in (4, 8, 16, 24)],
    }
    rows = rows_of([k for c in curves.values() for _, k in c])
    got = iter(counted(rows.predictions()))
    rows.close()
    with open(HERE / "observations.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["curve", "x", "tflops"])
        for name, points in curves.items():
            line = [(x, next(got)) for x, _ in points]
            writer.writerows([name, x, f"{y:.2f}"] for x, y in line)
            print(f"{name:17}", "  ".join(f"{x}: {y:.1f}" for x, y in line))


def memory(path):
    """Peak of each stage of the 175B run against the log. Its program was the 175B on 128 GCDs."""
    rows = rows_of([keys("frontier-175b", 4, 16, 2, 1, 320)])
    stages = rows.predictions()[0]["stages"]
    rows.close()
    with open(HERE / "memory.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["stage", "logged_peak_mib", "predicted_arena_mib", "error_percent"])
        errors = []
        for row, stage in zip(csv.DictReader(open(path)), stages):
            logged = float(row["max_allocated_MiB"])
            arena = stage["memory"]["arena_bytes"] / 2**20
            errors.append(100 * (arena / logged - 1))
            writer.writerow([row["stage"], logged, f"{arena:.1f}", f"{errors[-1]:.2f}"])
        print("memory by stage:", table.summary(errors))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("memory_csv")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--scaling", choices=("175B", "all"), help="minutes of compiling")
    a = parser.parse_args()
    sizes(a.fit)
    memory(a.memory_csv)
    observations()
    if a.scaling:
        scaling(a.scaling == "all")


if __name__ == "__main__":
    main()

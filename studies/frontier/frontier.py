#!/usr/bin/env python3
"""The Frontier paper's three models: throughput by its own counter, memory by stage, scaling.

usage: studies/frontier/frontier.py MEMORY_CSV [--fit] [--only PART]
Writes *.csv beside this file. Parts: sizes, memory, observations, scaling, flash, importance,
search (which needs build/tessera too).
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import itertools
import json
import math
import pathlib
import subprocess
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


# Efficiency in percent that the paper reports for the largest of each.
PUBLISHED_SCALING = {("175B", "weak", 1024): 100.0, ("1T", "weak", 3072): 100.0,
                     ("175B", "strong", 1024): 89.93, ("1T", "strong", 3072): 87.05}


def scaling():
    """Weak scaling (batch grows with the replicas) and strong (a fixed batch), by data ranks."""
    runs = [("175B", "weak", d, keys("frontier-175b", 4, 16, d, 1, 320 * d)) for d in (2, 8, 16)]
    runs += [("175B", "strong", d, keys("frontier-175b", 4, 16, d, 1, 8000)) for d in (8, 16)]
    runs += [("1T", "weak", d, keys("frontier-1t", 8, 64, d, 1, 1600 * d)) for d in (1, 3, 6)]
    runs += [("1T", "strong", d, keys("frontier-1t", 8, 64, d, 1, 8016)) for d in (3, 6)]
    rows = rows_of([r[3] for r in runs])
    seconds = rows.seconds({})
    rows.close()
    base = {}
    with open(HERE / "scaling.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "kind", "devices", "step_s", "efficiency_percent",
                         "published_percent"])
        for (name, kind, data, _), s in zip(runs, seconds):
            devices = data * (64 if name == "175B" else 512)
            first = base.setdefault((name, kind), (s, data))
            ideal = first[0] if kind == "weak" else first[0] * first[1] / data
            published = PUBLISHED_SCALING.get((name, kind, devices), "")
            writer.writerow([name, kind, devices, f"{s:.2f}", f"{100 * ideal / s:.1f}", published])
            print(f"{name:5} {kind:6} {devices:5} GCDs {s:9.2f} s  {100 * ideal / s:5.1f} %  "
                  f"{published}")


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


def flash():
    """The same runs with attention's scores held for all pairs, as before FlashAttention."""
    runs = [r for r in RUNS if r[0] != "1T"]
    rows = rows_of([keys(*r[1:7], more) for r in runs
                    for more in ("", "software.compiler.attention=unfused "
                                     "software.compiler.attention_scores_dtype=compute")])
    predictions = rows.predictions()
    got = counted(predictions)
    rows.close()
    with open(HERE / "flash.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "fused_tflops", "unfused_tflops", "gain_percent",
                         "unfused_fits"])
        for i, r in enumerate(runs):
            fused, plain = got[2 * i], got[2 * i + 1]
            writer.writerow([r[0], f"{fused:.2f}", f"{plain:.2f}", f"{100 * (fused / plain - 1):.1f}",
                             predictions[2 * i + 1]["fits"]])
            print(f"{r[0]:5} fused {fused:.1f}, unfused {plain:.1f} TFLOP/s a GCD: "
                  f"{100 * (fused / plain - 1):+.1f} %")


# The space of the paper's search for the 175B model, as far as it is known (it is from memory).
KNOBS = {"tensor": (1, 2, 4, 8), "pipeline": (1, 2, 4, 8, 12, 16), "micro": (4, 8, 12, 16, 20),
         "zero": (0, 1), "nodes": (12, 16)}
MICRO_BATCHES = 10


def shapley(points, values):
    """Mean size of each knob's exact Shapley share, as plan/shapley.h defines it, over all points."""
    knobs = len(points[0])
    size = [0.0] * knobs
    worth = {}
    for n in range(knobs + 1):
        for coalition in itertools.combinations(range(knobs), n):
            sums = {}
            for p, v in zip(points, values):
                total = sums.setdefault(tuple(p[k] for k in coalition), [0, 0])
                total[0] += v
                total[1] += 1
            worth[coalition] = {key: s / count for key, (s, count) in sums.items()}
    at = lambda coalition, p: worth[coalition][tuple(p[k] for k in coalition)]
    for p in points:
        for k in range(knobs):
            share = 0
            for coalition in worth:
                if k in coalition:
                    continue
                n = len(coalition)
                weight = (math.factorial(n) * math.factorial(knobs - n - 1) / math.factorial(knobs))
                share += weight * (at(tuple(sorted((*coalition, k))), p) - at(coalition, p))
            size[k] += abs(share) / len(points)
    return size


def importance():
    """What each knob is worth in TFLOP/s a GCD; a layout that does not fit counts as none, as the
    paper's failed trials do."""
    points, lines = [], []
    for t, p, b, z, n in itertools.product(*KNOBS.values()):
        if 8 * n % (t * p) != 0 or (z > 0 and 8 * n == t * p):
            continue
        data = 8 * n // (t * p)
        points.append((t, p, b, z, n))
        lines.append(keys("frontier-175b", t, p, data, b, MICRO_BATCHES * data * b,
                          f"layout.zero={z}"))
    rows = rows_of(lines)
    predictions = rows.predictions()
    rows.close()
    values = [g if p["fits"] else 0.0 for g, p in zip(counted(predictions), predictions)]
    fit = sum(1 for v in values if v > 0)
    best = max(range(len(values)), key=values.__getitem__)
    sizes = shapley(points, values)
    print(f"{len(points)} points, {fit} fit; the best {values[best]:.1f}: "
          f"{dict(zip(KNOBS, points[best]))}")
    with open(HERE / "importance.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["knob", "mean_share_tflops"])
        for name, s in sorted(zip(KNOBS, sizes), key=lambda x: -x[1]):
            writer.writerow([name, f"{s:.2f}"])
            print(f"  {name:9} {s:5.2f} TFLOP/s")


def search():
    """The fastest layout of all that Tessera knows, beside the paper's. By the paper's counter a run
    without recomputation has done a quarter less, so steps are compared."""
    with open(HERE / "search.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "devices", "paper_layout", "paper_step_s", "paper_tflops",
                         "best_layout", "best_step_s", "best_tflops", "candidates", "simulated",
                         "search_s"])
        for name, preset, t, p, d, micro, batch, _ in RUNS[:2]:
            rows = rows_of([keys(preset, t, p, d, micro, batch)])
            paper = rows.predictions()[0]
            rows.close()
            done = subprocess.run(
                ["build/tessera", "plan", str(HERE / "frontier.yaml"), "--cluster",
                 "mi250x-frontier", "--software", "megatron-deepspeed-frontier", "--search", "--json",
                 *keys(preset, t, p, d, micro, batch).split()],
                capture_output=True, text=True, cwd=HERE.parent.parent, check=True)
            found = json.loads(done.stdout)
            best = found["best"][0]
            writer.writerow([name, t * p * d, f"t{t} p{p} d{d}", f"{paper['step_s']:.2f}",
                             f"{counted([paper])[0]:.2f}", best["keys"], f"{best['step_s']:.2f}",
                             f"{counted([best])[0]:.2f}", found["candidates"], found["simulated"],
                             f"{found['search_s']:.1f}"])
            print(f"{name:5} paper {paper['step_s']:.1f} s, best {best['step_s']:.1f} s a step: "
                  f"{best['keys']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("memory_csv")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--only", help="one part")
    a = parser.parse_args()
    parts = {"sizes": lambda: sizes(a.fit), "memory": lambda: memory(a.memory_csv),
             "observations": observations, "scaling": scaling, "flash": flash,
             "importance": importance, "search": search}
    for name, part in parts.items():
        if a.only in (None, name):
            part()


if __name__ == "__main__":
    main()

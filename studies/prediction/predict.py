#!/usr/bin/env python3
"""Predicts every row of the three A100 tables, with constants fitted on half of the rows.

usage: studies/prediction/predict.py                        the Korthikanti rows only, printed
       studies/prediction/predict.py TABLES [--fit [--unseen ROWS]] [--ablate] [--only TABLE]
       studies/prediction/predict.py TABLES --only TABLE --set KEY=VALUE …

TABLES is the folder of the two CSV files (the Korthikanti rows are in rows.py). Which rows are
fitted follows from SEED alone; --fit does it anew, and again with the halves swapped. Writes
results.csv (results_fitted.csv, results_swapped.csv), choice.csv and ablation.csv next to this file.
--unseen (multi-node rows that no fit sees), --set (figures replaced) and --only only print.
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import math
import pathlib
import random
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import rows  # noqa: E402
import table  # noqa: E402

SEED = 20220519  # of the choice of rows that are fitted
CLUSTER = "a100-80gb"
# Mean errors in percent that are asked of each table: a table's errors count in units of them.
ASKED = {"korthikanti": 2.5, "multi_node": 8.0, "single_node": 8.0}
SOFTWARE = {"korthikanti": "megatron-2022", "multi_node": "megatron-deepspeed-a100",
            "single_node": "megatron-deepspeed-a100"}
# name: (start, least, most)
CONSTANTS = {
    "device.matrix_efficiency": (0.84, 0.6, 0.98),
    "device.memory_efficiency": (0.70, 0.6, 0.95),
    "node.efficiency": (0.95, 0.4, 1.0),
    "network.efficiency": (0.42, 0.1, 1.0),
    "software.launch_s": (70e-6, 3e-6, 100e-6),
}


class Table(table.Rows):
    """The rows of one table: (name, measured seconds, keys)."""

    def __init__(self, name, entries):
        self.name, self.entries = name, entries
        super().__init__(str(HERE / "megatron.yaml"), CLUSTER, SOFTWARE[name],
                         [k for _, _, k in entries], name)
        self.known = {}

    def seconds(self, figures):
        key = tuple(sorted(figures.items()))
        if key not in self.known:
            self.known[key] = super().seconds(figures)
        return self.known[key]


def halves(entries, swap):
    """Indices that are fitted: half of the rows, by SEED."""
    order = list(range(len(entries)))
    random.Random(SEED).shuffle(order)
    half = len(order) // 2
    return set(order[half:] if swap else order[:half])


def loss(tables, predicted, fitted):
    """Sum over the tables of the mean error of their fitted rows, in units of what is asked."""
    total = 0
    for t, seconds in zip(tables, predicted):
        errors = [abs(math.log(seconds[i] / t.entries[i][1])) for i in sorted(fitted[t.name])]
        total += 100 * statistics.mean(errors) / ASKED[t.name]
    return total


def fit(tables, fitted, rounds=3, step=1.06):
    """Descent on times that are taken as powers of each constant, near the last values."""
    values = {k: v[0] for k, v in CONSTANTS.items()}
    best = loss(tables, [t.seconds(values) for t in tables], fitted)
    for _ in range(rounds):
        base = [t.seconds(values) for t in tables]
        powers = {}
        for name, (_, _, most) in CONSTANTS.items():
            factor = step if values[name] * step <= most else 1 / step
            moved = [t.seconds({**values, name: values[name] * factor}) for t in tables]
            powers[name] = [[math.log(m / b) / math.log(factor) for m, b in zip(ms, bs)]
                            for ms, bs in zip(moved, base)]

        def near(trial):
            logs = {k: math.log(trial[k] / values[k]) for k in trial}
            return loss(tables, [[b * math.exp(sum(powers[k][i][j] * x for k, x in logs.items()))
                                  for j, b in enumerate(bs)] for i, bs in enumerate(base)], fitted)

        region = {k: (values[k], max(least, values[k] / 1.2), min(most, values[k] * 1.2))
                  for k, (_, least, most) in CONSTANTS.items()}
        trial, _ = table.fit(near, region, rounds=6, step=0.06)
        now = loss(tables, [t.seconds(trial) for t in tables], fitted)
        if now >= best:
            break
        values, best = trial, now
    return values, best


def report(tables, values, fitted):
    lines = []
    for t in tables:
        predicted = t.seconds(values)
        errors = [100 * (p / e[1] - 1) for p, e in zip(predicted, t.entries)]
        for part, chosen in (("fitted", fitted[t.name]),
                             ("held out", set(range(len(errors))) - fitted[t.name]),
                             ("all", set(range(len(errors))))):
            e = [abs(errors[i]) for i in sorted(chosen)]
            print(f"{t.name:12} {part:9} {len(e):4} rows  mean {statistics.mean(e):5.2f} %  "
                  f"median {statistics.median(e):5.2f}  worst {max(e):5.1f}")
        for i, (entry, p, e) in enumerate(zip(t.entries, predicted, errors)):
            lines.append([t.name, entry[0], "fitted" if i in fitted[t.name] else "held out",
                          f"{entry[1]:.6g}", f"{p:.6g}", f"{e:.2f}"])
    return lines


def sweep_of(keys):
    """What the rows of a sweep share: model, devices, sequences of a step."""
    k = dict(word.split("=", 1) for word in keys.split())
    devices = math.prod(int(k[f"layout.{axis}"]) for axis in ("tensor", "pipeline", "data"))
    return k["model.layers"], k["model.hidden"], devices, k["batch.global"]


def choice(t, values):
    """In each sweep: the row predicted fastest, measured beside the fastest measured."""
    sweeps = {}
    for entry, p in zip(t.entries, t.seconds(values)):
        sweeps.setdefault(sweep_of(entry[2]), []).append((p, entry[1], entry[0]))
    with open(HERE / "choice.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["layers", "hidden", "devices", "batch", "rows", "picked", "measured_s",
                         "fastest_measured_s", "slower_percent"])
        for sweep, found in sweeps.items():
            picked, fastest = min(found), min(m for _, m, _ in found)
            slower = 100 * (picked[1] / fastest - 1)
            writer.writerow([*sweep, len(found), picked[2], f"{picked[1]:.4g}", f"{fastest:.4g}",
                             f"{slower:.1f}"])
            print(f"sweep of {len(found):2} rows on {sweep[2]:4}: picks {picked[2]}, "
                  f"{slower:+.1f} % of the fastest measured")


# Each effect left out, the constants as they are: {name: figures}.
ABLATIONS = {
    "host's launches": {"software.launch_s": 0},
    "tiles and waves": {"device.processors": 0},
    "memory-bound ops": {"device.memory_bytes_per_s": 1e18},
    "links within nodes": {"node.bytes_per_s": 1e18, "node.latency_s": 0},
    "network": {"network.bytes_per_s": 1e18, "network.latency_s": 0},
}


def ablate(tables):
    with open(HERE / "ablation.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["without", *(f"{t.name}_mean_percent" for t in tables)])
        for name, figures in {"nothing": {}, **ABLATIONS}.items():
            means = []
            for t in tables:
                errors = [abs(100 * (p / e[1] - 1)) for p, e in zip(t.seconds(figures), t.entries)]
                means.append(statistics.mean(errors))
            writer.writerow([name, *(f"{m:.2f}" for m in means)])
            print(f"without {name:20}", "  ".join(f"{m:6.2f} %" for m in means))


def write_results(name, lines):
    with open(HERE / name, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["table", "row", "part", "measured_s", "predicted_s", "error_percent"])
        writer.writerows(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="?")
    parser.add_argument("--fit", action="store_true", help="on each half of the rows")
    parser.add_argument("--ablate", action="store_true", help="leave effects out, one by one")
    parser.add_argument("--unseen", default="", help="with --fit: such multi-node rows, 6,8")
    parser.add_argument("--set", nargs="+", default=[], help="error of each row with such figures")
    parser.add_argument("--only", help="one table")
    a = parser.parse_args()
    every = rows.tables(a.tables)
    tables = [Table(n, e) for n, e in every.items() if not a.only or n == a.only]
    unseen = {int(i) for i in a.unseen.split(",") if i}
    for swap in (False, True) if a.fit else ():
        fitted = {n: halves(e, swap) for n, e in every.items()}
        seen = {**fitted, "multi_node": fitted["multi_node"] - unseen}
        values, best = fit(tables, seen)
        print(f"{'swapped' if swap else 'fitted'} (loss {best:.4f}):", values, flush=True)
        lines = report(tables, values, fitted)
        if not unseen:
            write_results("results_swapped.csv" if swap else "results_fitted.csv", lines)
    if a.set:
        figures = {k: float(v) for k, v in (word.split("=") for word in a.set)}
        for line in report(tables, figures, {n: halves(e, False) for n, e in every.items()}):
            print(f"{line[1]:40} {line[3]:>8} s  {line[5]:>6} %")
    elif not a.fit:
        lines = report(tables, {}, {n: halves(e, False) for n, e in every.items()})
        if a.tables and not a.only:
            write_results("results.csv", lines)
        for t in tables:
            if t.name == "multi_node":
                choice(t, {})
    if a.ablate:
        ablate(tables)
    for t in tables:
        t.close()


if __name__ == "__main__":
    main()

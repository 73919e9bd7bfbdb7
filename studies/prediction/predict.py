#!/usr/bin/env python3
"""Predicts every row of the three A100 tables, with constants fitted on half of the rows.

usage: studies/prediction/predict.py TABLES [--fit] [--swap] [--ablate]

TABLES is the folder of the two CSV files (the Korthikanti rows stand in rows.py). Which rows are
fitted follows from SEED alone. Writes results.csv (and fit.csv, ablation.csv) beside this file.
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import math
import pathlib
import random
import statistics
import subprocess

import rows

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
SEED = 20220519  # of the choice of rows that are fitted
CLUSTER = "configs/clusters/a100-80gb.yaml"
SOFTWARE = {"korthikanti": "megatron-2022", "multi_node": "megatron-deepspeed-a100",
            "single_node": "megatron-deepspeed-a100"}
# name: (start, least, most)
CONSTANTS = {
    "device.matrix_efficiency": (0.80, 0.6, 0.98),
    "device.memory_efficiency": (0.80, 0.6, 0.95),
    "node.efficiency": (0.80, 0.4, 1.0),
    "network.efficiency": (0.35, 0.1, 1.0),
    "software.launch_s": (50e-6, 3e-6, 100e-6),
}


class Table:
    """One process that has compiled the rows and simulates them again for each set of figures."""

    def __init__(self, name, entries):
        self.name, self.entries = name, entries
        path = HERE / f".rows-{name}.txt"
        path.write_text("".join(k + "\n" for _, _, k in entries))
        software = f"configs/software/{SOFTWARE[name]}.yaml"
        self.process = subprocess.Popen(
            ["build/studies/plan_rows", HERE / "megatron.yaml", CLUSTER, software, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.path = path

    def seconds(self, figures):
        self.process.stdin.write(figures + "\n")
        self.process.stdin.flush()
        out = [float(x) for x in self.process.stdout.readline().split()]
        if len(out) != len(self.entries):
            raise RuntimeError(f"{self.name}: {len(out)} of {len(self.entries)} rows")
        return out

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.path.unlink()


def halves(entries, swap):
    """Indices that are fitted: half of the rows, by SEED."""
    order = list(range(len(entries)))
    random.Random(SEED).shuffle(order)
    half = len(order) // 2
    return set(order[half:] if swap else order[:half])


def text(values):
    return " ".join(f"{k}={v:.6g}" for k, v in values.items())


def loss(tables, values, fitted):
    """Mean over the tables of the mean error of their fitted rows."""
    total = 0
    for t in tables:
        predicted = t.seconds(text(values))
        errors = [abs(math.log(predicted[i] / t.entries[i][1])) for i in sorted(fitted[t.name])]
        total += statistics.mean(errors)
    return total / len(tables)


def fit(tables, fitted, rounds=4):
    """Coordinate descent with steps that shrink."""
    values = {k: v[0] for k, v in CONSTANTS.items()}
    best = loss(tables, values, fitted)
    step = 0.12
    for _ in range(rounds):
        for name, (_, least, most) in CONSTANTS.items():
            for factor in (1 + step, 1 / (1 + step)):
                while True:
                    trial = dict(values)
                    trial[name] = min(max(values[name] * factor, least), most)
                    if trial[name] == values[name]:
                        break
                    now = loss(tables, trial, fitted)
                    if now >= best - 1e-5:
                        break
                    values, best = trial, now
        step /= 2.2
    return values, best


def report(tables, values, fitted):
    lines = []
    for t in tables:
        predicted = t.seconds(text(values))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--swap", action="store_true", help="fit on the other half")
    parser.add_argument("--only", help="one table")
    a = parser.parse_args()
    every = rows.tables(a.tables)
    tables = [Table(n, e) for n, e in every.items() if not a.only or n == a.only]
    fitted = {n: halves(e, a.swap) for n, e in every.items()}
    values = {}
    if a.fit:
        values, best = fit(tables, fitted)
        print(f"fitted (loss {best:.4f}): {text(values)}")
    lines = report(tables, values, fitted)
    name = "results.csv" if not a.swap else "results_swapped.csv"
    with open(HERE / name, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["table", "row", "part", "measured_s", "predicted_s", "error_percent"])
        writer.writerows(lines)
    for t in tables:
        t.close()


if __name__ == "__main__":
    main()

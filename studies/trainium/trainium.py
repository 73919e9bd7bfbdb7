#!/usr/bin/env python3
"""Throughput and tokens per dollar of NeoX-20B and Pythia-6.9B on 1 to 64 trn1 instances.

usage: studies/trainium/trainium.py [--fit]     writes results.csv and aws.csv beside this file
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import table  # noqa: E402

# The published table: model, TP, PP, instances, global batch, sequences a second, tokens per dollar.
ROWS = [
    ("pythia-6.9b", 8, 1, 1, 256, 10.4, 10_102_387),
    ("pythia-6.9b", 8, 1, 4, 256, 35.8, 8_693_881),
    ("gpt-neox-20b", 8, 4, 4, 16384, 13.60, 3_302_704),
    ("gpt-neox-20b", 8, 4, 8, 16384, 26.80, 3_254_134),
    ("gpt-neox-20b", 8, 4, 16, 16384, 54.30, 3_296_632),
    ("gpt-neox-20b", 8, 4, 32, 16384, 107.50, 3_263_241),
    ("gpt-neox-20b", 8, 4, 64, 16384, 212.00, 3_217_708),
]
FITTED = (0, 1, 2)  # the smallest of each model, and the step from one instance to four
CONSTANTS = {"device.matrix_efficiency": (0.62, 0.3, 0.98),
             "node.efficiency": (0.7, 0.2, 1.0),
             "network.efficiency": (0.36, 0.05, 1.0)}
SEQUENCE, USD_PER_INSTANCE_HOUR = 2048, 7.59

# AWS's own tables of training on trn1, by the version of the library (NxD, 2.16 to 2.21): preset, TP,
# PP, instances, tokens of a sequence, sequences a second; 1,024 sequences a step. The first and the
# fifth are HLAT's sizes and layouts. Nothing is fitted on them.
AWS = [
    ("llama2-7b", 8, 1, 16, 4096, (93.3, 94.7, 92.93, 101.3, 95.14)),
    ("llama2-13b", 8, 4, 32, 4096, (85.65, 81.8, 87.44)),
    ("llama2-13b", 8, 8, 32, 4096, (84.0, 80.33)),
    ("llama2-70b", 32, 4, 32, 4096, (15.34, 15.6, 17.86)),
    ("llama2-70b", 32, 8, 32, 4096, (14.2, 14.44)),
    ("llama3-8b", 32, 1, 32, 8192, (49.47, 53.51, 41.99, 47.95)),
    ("llama3-70b", 32, 8, 32, 8192, (7.59, 7.97, 7.51, 7.94)),
]


def keys(model, tensor, pipeline, instances, batch, sequence=SEQUENCE):
    data = instances * 32 // (tensor * pipeline)
    return (f"model.preset={model} layout.tensor={tensor} layout.pipeline={pipeline} "
            f"layout.data={data} batch.global={batch} data.sequence_length={sequence}")


def rows_of(lines):
    return table.Rows(str(HERE / "neox.yaml"), "trn1", "neuron", lines)


def tokens_per_usd(sequences_per_s, sequence, instances):
    return round(sequences_per_s * sequence * 3600 / (USD_PER_INSTANCE_HOUR * instances))


def published(rows, values):
    got = rows.seconds(values)
    measured = [r[4] / r[5] for r in ROWS]
    errors = [100 * (m / s - 1) for m, s in zip(measured, got)]  # of throughput
    with open(HERE / "results.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "instances", "part", "sequences_per_s", "predicted",
                         "error_percent", "tokens_per_usd", "predicted_tokens_per_usd"])
        for i, (row, s, e) in enumerate(zip(ROWS, got, errors)):
            rate = row[4] / s
            writer.writerow([row[0], row[3], "fitted" if i in FITTED else "held out", row[5],
                             f"{rate:.4g}", f"{e:.2f}", row[6],
                             tokens_per_usd(rate, SEQUENCE, row[3])])
            print(f"{row[0]:14} {row[3]:3} instances  {row[5]:7.2f} measured {rate:7.2f} predicted "
                  f"{e:+6.2f} %  {'fitted' if i in FITTED else ''}")
    print("held out", table.summary([e for i, e in enumerate(errors) if i not in FITTED]))


def later_library(values):
    rows = rows_of([keys(m, t, p, n, 1024, s) for m, t, p, n, s, _ in AWS])
    seconds = rows.seconds(values)
    rows.close()
    with open(HERE / "aws.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "tensor", "pipeline", "instances", "sequence", "least_published",
                         "most_published", "predicted_sequences_per_s", "tokens_per_usd"])
        for (model, t, p, n, sequence, published), s in zip(AWS, seconds):
            rate, least, most = 1024 / s, min(published), max(published)
            writer.writerow([model, t, p, n, sequence, least, most, f"{rate:.4g}",
                             tokens_per_usd(rate, sequence, n)])
            print(f"{model:11} t{t} p{p} {n:3} instances  {least} to {most} published "
                  f"{rate:7.2f} predicted, {100 * (rate / least - 1):+.0f} to "
                  f"{100 * (rate / most - 1):+.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true")
    a = parser.parse_args()
    rows = rows_of([keys(*r[:5]) for r in ROWS])
    measured = [r[4] / r[5] for r in ROWS]  # seconds a step

    def loss(values):
        got = rows.seconds(values)
        return sum(abs(got[i] / measured[i] - 1) for i in FITTED)

    values = {}
    if a.fit:
        values, best = table.fit(loss, CONSTANTS)
        print("fitted:", values, f"loss {best:.4f}")
    published(rows, values)
    rows.close()
    later_library(values)


if __name__ == "__main__":
    main()

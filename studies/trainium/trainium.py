#!/usr/bin/env python3
"""Throughput and tokens per dollar of NeoX-20B and Pythia-6.9B on 1 to 64 trn1 instances.

usage: studies/trainium/trainium.py [--fit]     writes results.csv and hlat.csv beside this file
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

# HLAT's layouts: preset, TP, PP, instances, sequences a second that AWS's own tables give, by the
# version of the library: of Llama 2 of the same sizes, 4,096 tokens, 1,024 sequences a step.
# Nothing is fitted on them. Those of 70B ran 32 tensor ranks in 4 and in 8 stages, where key/value
# heads stand four times; here it is the layout of HLAT's earlier run.
HLAT = [
    ("hlat-7b", 8, 1, 16, (92.93, 101.3)),
    ("hlat-70b", 8, 16, 32, (14.2, 17.86)),
]
HLAT_SEQUENCE = 4096


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


def hlat(values):
    rows = rows_of([keys(m, t, p, n, 1024, HLAT_SEQUENCE) for m, t, p, n, _ in HLAT])
    seconds = rows.seconds(values)
    rows.close()
    with open(HERE / "hlat.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["model", "tensor", "pipeline", "instances", "least_published",
                         "most_published", "predicted_sequences_per_s", "tokens_per_usd"])
        for (model, t, p, n, (least, most)), s in zip(HLAT, seconds):
            rate = 1024 / s
            writer.writerow([model, t, p, n, least, most, f"{rate:.4g}",
                             tokens_per_usd(rate, HLAT_SEQUENCE, n)])
            print(f"{model:14} {n:3} instances  {least} to {most} published {rate:7.2f} predicted")


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
    hlat(values)


if __name__ == "__main__":
    main()

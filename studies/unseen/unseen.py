#!/usr/bin/env python3
"""Predicts published tables of which no row and no constant was fitted.

usage: studies/unseen/unseen.py [--rows]     --rows prints each row; results.csv has them all
Needs: ninja -C build plan_rows
"""
import argparse
import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "prediction"))
import rows  # noqa: E402
import table  # noqa: E402

# Narayanan et al. 2021, table 1: layers, hidden, heads, tensor, stages, GPUs, batch, TFLOP/s a GPU by
# the paper's counter. Micro-batch, chunks a stage and who sums gradients (torch: beside the
# backward) are those of the scripts published with it (Megatron-LM, examples/sc21).
NARAYANAN = [
    ("1.7B", 24, 2304, 24, 1, 1, 32, 512, 137, 16, 1, "torch"),
    ("3.6B", 30, 3072, 32, 2, 1, 64, 512, 138, 16, 1, "torch"),
    ("7.5B", 36, 4096, 32, 4, 1, 128, 512, 142, 16, 1, "torch"),
    ("18.4B", 40, 6144, 48, 8, 1, 256, 1024, 135, 8, 1, "torch"),
    ("39.1B", 48, 8192, 64, 8, 2, 512, 1536, 138, 4, 1, "local"),
    ("76.1B", 60, 10240, 80, 8, 4, 1024, 1792, 140, 2, 3, "local"),
    ("145.6B", 80, 12288, 96, 8, 8, 1536, 2304, 148, 2, 2, "local"),
    ("310.1B", 96, 16384, 128, 8, 16, 1920, 2160, 155, 1, 2, "local"),
    ("529.6B", 105, 20480, 128, 8, 35, 2520, 2520, 163, 1, 3, "local"),
    ("1008B", 128, 25600, 160, 8, 64, 3072, 3072, 163, 1, 1, "local"),
]
ZERO = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}


def narayanan():
    for (name, layers, hidden, heads, t, p, gpus, batch, tflops, micro, chunks, ddp) in NARAYANAN:
        work = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden)
                                                         + 51200 / (16 * layers * hidden))
        beside = "software.overlap_data=" + ("true" if ddp == "torch" else "false")
        yield (name, work / (gpus * tflops * 1e12),
               rows.keys(layers, hidden, heads, 2048, t, p, gpus // (t * p), batch, micro, chunks)
               + f" model.vocabulary=51200 model.dropout=0.1 model.attention_dropout=0.1 {beside}")


def mpt(cluster):
    """mpt.csv: llm-foundry's table of training benchmarks (bf16), as it stood in July 2025."""
    for r in csv.DictReader(open(HERE / "mpt.csv")):
        if r["cluster"] != cluster:
            continue
        recompute = "full" if r["checkpointing"] == "True" else "none"
        reduced = "weight" if r["precision"] == "pure" else "accum"
        yield (f"{r['model']} s{r['sequence']} on {r['devices']}, micro {r['micro']}, {recompute}",
               int(r["batch"]) * int(r["sequence"]) / int(r["tokens_per_s"]),
               f"model.layers={r['layers']} model.hidden={r['hidden']} model.heads={r['heads']} "
               f"model.context={r['sequence']} data.sequence_length={r['sequence']} "
               f"layout.data={r['devices']} layout.zero={ZERO[r['sharding']]} "
               f"batch.global={r['batch']} batch.micro={r['micro']} layout.recompute={recompute} "
               f"software.compiler.grad_reduce_dtype={reduced}")


TABLES = [("Narayanan 2021", "a100-80gb", "megatron-deepspeed-a100", narayanan()),
          *(("MPT", cluster, "fsdp-2023", mpt(cluster))
            for cluster in ("a100-80gb", "a100-40gb", "h100"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="store_true")
    a = parser.parse_args()
    with open(HERE / "results.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["table", "cluster", "row", "measured_s", "predicted_s", "error_percent",
                         "predicted_peak_gib"])
        for name, cluster, software, entries in TABLES:
            entries = list(entries)
            found = table.Rows(str(HERE / "run.yaml"), cluster, software, [e[2] for e in entries],
                               cluster)
            errors, fitting = [], 0
            for (row, measured, _), p in zip(entries, found.predictions()):
                s = p["step_s"]
                fitting += p["fits"]
                errors.append(100 * (s / measured - 1))
                writer.writerow([name, cluster, row, f"{measured:.5g}", f"{s:.5g}",
                                 f"{errors[-1]:.2f}", f"{p['memory']['peak_bytes'] / 2**30:.1f}"])
                if a.rows:
                    print(f"{row:44} {measured:9.3f} s {s:9.3f} {errors[-1]:+6.1f} %")
            found.close()
            print(f"{name:15} {cluster:10}", table.summary(errors),
                  f" signed mean {statistics.mean(errors):+.2f}, {fitting} fit", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predicted beside measured on the machine at hand: bytes and step time of small runs.

usage: studies/this_machine/this_machine.py [--turns 5] [--ranks 1,2,4] [--only WORD] [--bytes-only]
                                            [--again] [--seconds N]

Measures with `tessera bench` once for each number of ranks (nothing of the rows themselves), then
trains every row for some steps, in turns: all rows once, then all again. A row's time is the median
over its turns of the median step; a turn of bench comes first in each. What was measured stands in
work/measured.jsonl, so a run that was stopped (--seconds: leaves after so many) goes on where it was;
--again begins anew.
Writes results.csv beside this file. Needs build/tessera and mpirun.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
TESSERA = ROOT / "build" / "tessera"
WORK = HERE / "work"
STEPS, SKIPPED = 8, 2  # of a turn; the first ones are not counted
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]

GPT2 = "model.family=gpt2"
NEOX = "model.family=neox"
LLAMA = "model.family=llama"
SMALL = "model.layers=4 model.hidden=256 model.heads=4"
MIDDLE = "model.layers=6 model.hidden=384 model.heads=6"
LARGE = "model.layers=6 model.hidden=512 model.heads=8"
BF16 = "precision=bf16"

# Ranks, and the keys of a run: nothing of them is among bench's shapes.
ROWS = [
    (1, f"{GPT2} {SMALL} batch.global=8 batch.micro=2"),
    (1, f"{GPT2} {SMALL} batch.global=8 batch.micro=8"),
    (1, f"{GPT2} {MIDDLE} batch.global=4 batch.micro=2"),
    (1, f"{GPT2} {MIDDLE} batch.global=4 batch.micro=2 layout.recompute=selective"),
    (1, f"{GPT2} {MIDDLE} batch.global=4 batch.micro=2 layout.recompute=full"),
    (1, f"{NEOX} {MIDDLE} batch.global=4 batch.micro=4 data.sequence_length=512 model.context=512"),
    (1, f"{NEOX} {LARGE} batch.global=2 batch.micro=1"),
    (1, f"{NEOX} {LARGE} batch.global=4 batch.micro=4 model.vocabulary=16384"),
    (1, f"{LLAMA} {MIDDLE} batch.global=4 batch.micro=2"),
    (1, f"{LLAMA} {LARGE} batch.global=2 batch.micro=2 layout.recompute=full"),
    (1, f"{LLAMA} {SMALL} batch.global=16 batch.micro=4 {BF16}"),
    (1, f"{NEOX} {LARGE} batch.global=4 batch.micro=4 {BF16}"),
    (2, f"{GPT2} {SMALL} layout.data=2 layout.zero=0 batch.global=8 batch.micro=2"),
    (2, f"{GPT2} {MIDDLE} layout.data=2 layout.zero=1 batch.global=4 batch.micro=2"),
    (2, f"{GPT2} {MIDDLE} layout.data=2 layout.zero=2 batch.global=8 batch.micro=2"),
    (2, f"{GPT2} {MIDDLE} layout.data=2 layout.zero=3 batch.global=8 batch.micro=2"),
    (2, f"{NEOX} {LARGE} layout.data=2 layout.zero=1 batch.global=4 batch.micro=2"),
    (2, f"{NEOX} {LARGE} layout.data=2 layout.zero=1 batch.global=8 batch.micro=2 "
        "layout.recompute=full"),
    (2, f"{LLAMA} {MIDDLE} layout.tensor=2 batch.global=4 batch.micro=2"),
    (2, f"{GPT2} {LARGE} layout.tensor=2 layout.sequence_parallel=false batch.global=4 "
        "batch.micro=4"),
    (2, f"{NEOX} {MIDDLE} layout.pipeline=2 batch.global=8 batch.micro=1"),
    (2, f"{LLAMA} {MIDDLE} layout.data=2 layout.zero=1 batch.global=8 batch.micro=4 {BF16} "
        "compiler.grad_accum_dtype=weight"),
    (4, f"{GPT2} {SMALL} layout.data=4 layout.zero=1 batch.global=8 batch.micro=2"),
    (4, f"{NEOX} {MIDDLE} layout.data=4 layout.zero=3 batch.global=8 batch.micro=2"),
    (4, f"{NEOX} {MIDDLE} layout.data=2 layout.tensor=2 batch.global=8 batch.micro=2"),
    (4, f"{GPT2} {MIDDLE} layout.data=2 layout.pipeline=2 batch.global=8 batch.micro=1"),
]
# Of these the bytes alone: more ranks than cores.
BYTES = [
    (8, f"{GPT2} {SMALL} layout.data=2 layout.tensor=2 layout.pipeline=2 batch.global=8 "
        "batch.micro=1"),
    (8, f"{NEOX} {SMALL} layout.data=8 layout.zero=2 batch.global=16 batch.micro=1"),
    (8, f"{LLAMA} {SMALL} layout.data=4 layout.tensor=2 layout.zero=3 batch.global=8 "
        "batch.micro=1 layout.recompute=full"),
    (6, f"{GPT2} {MIDDLE} layout.data=2 layout.pipeline=3 batch.global=12 batch.micro=2 "
        "layout.recompute=selective"),
]


def say(command, **more):
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
                          cwd=ROOT, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def on(ranks, *words):
    return [*([] if ranks == 1 else [*MPIRUN, "-n", ranks]), TESSERA, *words]


def prepare():
    """A tokenizer and a text of its own, as data."""
    if (WORK / "data.idx").exists():
        return
    WORK.mkdir(exist_ok=True)
    text = WORK / "text.txt"
    numbers = (str(n * n * 7919 % 100003) for n in range(400000))
    text.write_text(" ".join(numbers))
    say([TESSERA, "tokenizer", "train", "--vocabulary", 1024, "--out", WORK / "tokenizer.json",
         text])
    say([TESSERA, "data", "build", "--tokenizer", WORK / "tokenizer.json", "--out", WORK / "data",
         text])


def keys(row):
    return [*row.split(), f"data.tokenizer={WORK / 'tokenizer.json'}",
            f"data.train=[{WORK / 'data'}]", f"data.validation=[{WORK / 'data'}]"]


def load_average():
    return round(os.getloadavg()[0], 1)


def bench(ranks, turn):
    path = WORK / f"hardware-{ranks}-{turn}.yaml"
    if not path.exists():
        say(on(ranks, "bench", "--quick", "--threads", 1, "--out", path))
    return path


def train(ranks, row, steps=STEPS):
    """Bytes that every rank took for its arena, and the median step."""
    folder = WORK / "run"
    say(["rm", "-rf", folder])
    said = say(on(ranks, "train", HERE / "run.yaml", *keys(row), f"run.directory={folder}",
                  f"schedule.steps={steps}"))
    arena = int(re.search(r"\(arena, ([\d,]+) bytes\)", said + (folder / "log.txt").read_text())
                .group(1).replace(",", ""))
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    seconds = [x["step_s"] for x in lines if "step_s" in x]
    return arena, statistics.median(seconds[SKIPPED:]) if len(seconds) > SKIPPED else None


def predicted(row, hardware):
    said = subprocess.run(
        [TESSERA, "plan", HERE / "run.yaml", *keys(row), "--cluster", hardware, "--json"],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    p = json.loads(said.stdout)
    return p["stages"][0]["memory"]["arena_bytes"], p["step_s"]


def measure(turns, rows, path, until):
    """One line a turn and row; those that are there are not measured again."""
    done = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
    known = {(m["turn"], m["ranks"], m["row"]) for m in done}
    with path.open("a") as out:
        for turn in range(turns):
            for ranks, row in rows:
                if (turn, ranks, row) in known or time.monotonic() > until:
                    continue
                bench(ranks, turn)
                before = load_average()
                arena, seconds = train(ranks, row)
                m = dict(turn=turn, ranks=ranks, row=row, arena=arena, seconds=seconds, load=before)
                done.append(m)
                out.write(json.dumps(m) + "\n")
                out.flush()
                print(f"turn {turn} {ranks} ranks {seconds:.4f} s, load {before}: {row}", flush=True)
    return done


def report(done, rows):
    lines, errors, wrong = [], {}, 0
    for ranks, row in rows:
        mine = [m for m in done if m["row"] == row and m["ranks"] == ranks]
        if not mine:
            continue
        plans = [predicted(row, bench(ranks, m["turn"])) for m in mine]
        wrong += any(m["arena"] != planned for m, (planned, _) in zip(mine, plans))
        measured = statistics.median(m["seconds"] for m in mine)
        step = statistics.median(s for _, s in plans)
        error = 100 * (step / measured - 1)
        errors.setdefault(ranks, []).append(abs(error))
        lines.append([ranks, row, mine[0]["arena"], plans[0][0], f"{measured:.4f}",
                      f"{step:.4f}", f"{error:.1f}", len(mine), max(m["load"] for m in mine)])
    with open(HERE / "results.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["ranks", "run", "arena_bytes", "planned_bytes", "measured_s",
                         "predicted_s", "error_percent", "turns", "load_average"])
        writer.writerows(lines)
    print(f"bytes: {len(lines) - wrong} of {len(lines)} rows exact")
    for ranks, e in sorted(errors.items()):
        print(f"{ranks} ranks: {len(e)} rows, time {statistics.mean(e):.1f} % mean, "
              f"{statistics.median(e):.1f} median, {max(e):.1f} worst")
    return wrong


def check_bytes(rows):
    """Plan beside run where no time is taken; the plan needs a machine's file but not its figures."""
    hardware, wrong = ROOT / "studies" / "this_machine" / "any.yaml", 0
    with open(HERE / "bytes.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["ranks", "run", "arena_bytes", "planned_bytes"])
        for ranks, row in rows:
            arena, _ = train(ranks, row, steps=1)
            planned, _ = predicted(row, hardware)
            wrong += arena != planned
            writer.writerow([ranks, row, arena, planned])
            print(f"{ranks} ranks {arena:,} bytes, planned {planned:,}"
                  f"{'' if arena == planned else '  DIFFERENT'}: {row}", flush=True)
    print(f"bytes: {len(rows) - wrong} of {len(rows)} rows exact")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ranks", default="1,2,4", help="rows of so many")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no run after so many")
    parser.add_argument("--only", default="", help="rows with this word")
    parser.add_argument("--bytes-only", action="store_true",
                        help="bytes of the rows and of those of 6 and 8 ranks, no time: bytes.csv")
    parser.add_argument("--again", action="store_true", help="forget what was measured")
    a = parser.parse_args()
    if a.again:
        say(["rm", "-rf", WORK])
    prepare()
    ranks = [int(n) for n in a.ranks.split(",")]
    rows = [r for r in ROWS if a.only in r[1] and r[0] in ranks]
    if a.bytes_only:
        sys.exit(1 if check_bytes(rows + [r for r in BYTES if a.only in r[1]]) else 0)
    until = time.monotonic() + a.seconds
    done = measure(a.turns, rows, WORK / "measured.jsonl", until)
    sys.exit(1 if report(done, rows) else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures the cost of a save: the pause of saves during training, against saves that the run waits for.

    scripts/bench_saving.py [--ranks N] [--rounds 3] [KEY=VALUE …]

Each round trains a model of 42 M parameters (500 MB of state in f32) for seven steps and saves at
step 3, during step 4, and at the last step, where nothing hides it: the cost of a save if the run waited
for it. Prints both, their ratio, and the time of the step during the save relative to the others. Ends
with 1 if the median pause is 10 % or more of the median of the saves that the run waits for.
Needs build/tessera.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

RUN = """\
run: {{ name: saving, directory: run, seed: 7 }}
model: {{ family: neox, layers: 8, hidden: 640, heads: 10, vocabulary: 2048, context: 256 }}
data: {{ tokenizer: tokenizer.json, train: [train], sequence_length: 256 }}
batch: {{ global: 8, micro: 4 }}
schedule: {{ kind: constant, steps: 7 }}
precision: fp32
layout: {{ data: {ranks} }}
checkpoint: {{ every_steps: 0, at_steps: [3], resume: never }}
metrics: {{ validate_every_steps: 0, tensorboard: false }}
"""
SAVED_STEP = 3
LIMIT = 0.10
SAVED = re.compile(r"^saved ([0-9,]+) in ([0-9.]+) s, training paused ([0-9.]+) s", re.MULTILINE)


def prepare(tessera, work, ranks):
    words = random.Random(5).choices("the a of one small large brown red fox dog walks".split(), k=40000)
    (work / "text.txt").write_text(" ".join(words))
    for command in (["tokenizer", "train", "--vocabulary", "300", "--out", "tokenizer.json"],
                    ["data", "build", "--tokenizer", "tokenizer.json", "--out", "train"]):
        subprocess.run([tessera, *command, "text.txt"], cwd=work, check=True,
                       stdout=subprocess.DEVNULL)
    (work / "run.yaml").write_text(RUN.format(ranks=ranks))


def one_round(options, work):
    """(pause during training, seconds of the same, seconds of the save waited for, step ratio)."""
    start = [] if options.ranks == 1 else ["mpirun", "--allow-run-as-root", "--oversubscribe",
                                           "-n", str(options.ranks)]
    (work / "run" / "metrics.jsonl").unlink(missing_ok=True)
    done = subprocess.run([*start, options.tessera, "train", "run.yaml", *options.keys], cwd=work,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(done.stdout[-1000:] + done.stderr[-2000:])
    beside, waited = [(float(s), float(p)) for _, s, p in SAVED.findall(done.stdout)]
    lines = [json.loads(l) for l in (work / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = {l["step"]: l["step_s"] for l in lines if "step_s" in l}
    others = [s for step, s in steps.items() if step not in (1, SAVED_STEP + 1)]
    return beside[1], beside[0], waited[1], steps[SAVED_STEP + 1] / statistics.median(others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tessera", type=pathlib.Path, default=root / "build/tessera")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="on the file system to be measured")
    parser.add_argument("keys", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        prepare(options.tessera, work, options.ranks)
        rounds = [one_round(options, work) for _ in range(options.rounds)]
        state = sum(os.path.getsize(f) for f in (work / "run/checkpoints/7").iterdir()) / 1e6
    for pause, seconds, waited, ratio in rounds:
        print(f"during training: paused {pause:.3f} s, saved in {seconds:.2f} s, time of that step "
              f"{ratio:.2f} of the others; a save that is waited for: {waited:.2f} s")
    pause, waited = (statistics.median(r[i] for r in rounds) for i in (0, 2))
    share = 100 * pause / waited
    print(f"{state:.0f} MB of state, {options.ranks} rank(s): the pause is {share:.1f} % of a save that is waited "
          f"for (expected: below {100 * LIMIT:.0f} %)")
    return pause >= LIMIT * waited


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Killed runs equal an unbroken one, bit for bit: in every recorded loss and the final checkpoint.

    scripts/check_resume.py [--text FILE] [--random 50] [--steps 40] [--precision fp32]
                            [--offload none]

1. A run of 40 steps in one go.
2. The same run, killed with SIGKILL at `--random` random moments and started again each time.
3. The same run once for every write, fsync, rename, unlink and mkdir of its second save: it dies
   right before that call and is started again.
After each, metrics.jsonl must have each step once with the same loss, norm and learning rate, and
the last checkpoint the same bytes. Needs build/tessera and build/tests/resume/libkill_at_call.so.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from small_runs import build_data, checkpoint_digests, metrics, require_files

RUN = """\
run: {{ name: resume, directory: run, seed: 7, threads: {threads} }}
model: {{ family: neox, layers: 2, hidden: 64, heads: 4, vocabulary: 512, context: 64, dropout: 0.1 }}
data: {{ tokenizer: {work}/tokenizer.json, train: [{work}/train], validation: [{work}/train],
        sequence_length: 64 }}
batch: {{ global: 8, micro: 4 }}
layout: {{ offload: {offload} }}
optimizer: {{ learning_rate: 1.0e-3, weight_decay: 0.1, clip_norm: 1.0 }}
schedule: {{ kind: cosine, steps: {steps}, warmup_steps: 2, min_lr_ratio: 0.1 }}
precision: {precision}
checkpoint: {{ every_steps: 5, keep: 2, resume: auto }}
metrics: {{ validate_every_steps: 10, validate_sequences: 8 }}
"""
WATCHED_SAVE_STEP = 10


class Check:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.run_file = work / "run.yaml"
        self.run_file.write_text(RUN.format(work=work, steps=options.steps,
                                            precision=options.precision,
                                            threads=options.threads, offload=options.offload))
        self.whole = None
        self.failures = 0

    def start(self, folder, *more, **environment):
        """Relative directories: the configuration, and so the checkpoint, is the same everywhere."""
        folder.mkdir(exist_ok=True)
        return subprocess.Popen([self.options.tessera, "train", self.run_file, *more], cwd=folder,
                                env=dict(os.environ, **environment), stdout=subprocess.DEVNULL,
                                stderr=(folder / "errors.txt").open("a"))

    def finish(self, folder):
        code = self.start(folder).wait()
        if code != 0:
            raise SystemExit(f"a start ended with {code}: {(folder / 'errors.txt').read_text()[-2000:]}")

    def result(self, folder):
        """Returns what must be the same: the recorded numbers, and the files of the last checkpoint."""
        lines = metrics(folder / "run")
        numbers = [tuple(repr(l.get(k)) for k in ("step", "name", "tokens", "loss", "grad_norm",
                                                  "learning_rate", "validation_loss")) for l in lines]
        return numbers, checkpoint_digests(folder / "run", self.options.steps)

    def compare(self, folder, what):
        numbers, files = self.result(folder)
        problem = ""
        if numbers != self.whole[0]:
            pairs = [(a, b) for a, b in zip(numbers, self.whole[0]) if a != b]
            problem = f"metrics differ ({len(numbers)} lines to {len(self.whole[0])}): {pairs[:1]}"
        elif files != self.whole[1]:
            problem = "the last checkpoint differs in " + ", ".join(
                n for n in files.keys() | self.whole[1].keys() if files.get(n) != self.whole[1].get(n))
        if problem:
            self.failures += 1
            print(f"  BAD {what}: {problem}", flush=True)
        shutil.rmtree(folder)

    def in_one_go(self):
        folder = self.work / "whole"
        before = time.monotonic()
        self.finish(folder)
        self.seconds = time.monotonic() - before
        self.whole = self.result(folder)
        steps = sum(1 for line in self.whole[0] if line[3] != "None")
        if steps != self.options.steps:
            raise SystemExit(f"the whole run recorded {steps} of {self.options.steps} steps")
        print(f"one go: {steps} steps in {self.seconds:.1f} s", flush=True)

    def random_moments(self):
        rng, kills, folder = random.Random(self.options.seed), 0, self.work / "random"
        rounds = 0
        while kills < self.options.random:
            process = self.start(folder)
            try:
                process.wait(rng.uniform(0, 1.1 * self.seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
                process.wait()
                continue
            rounds += 1  # the run finished: compare, and start another
            self.compare(folder, f"random kills, round {rounds}")
        self.finish(folder)
        self.compare(folder, f"random kills, round {rounds + 1}")
        print(f"{kills} random kills over {rounds + 1} runs", flush=True)

    def every_call(self):
        watched = f"/checkpoints/{WATCHED_SAVE_STEP}"
        preload = dict(LD_PRELOAD=str(self.options.library), KILL_FOLDER=watched)
        counts, folder = self.work / "calls", self.work / "count"
        if self.start(folder, KILL_COUNT=str(counts), **preload).wait() != 0:
            raise SystemExit(f"the counting run failed: {(folder / 'errors.txt').read_text()[-2000:]}")
        calls = counts.stat().st_size if counts.exists() else 0
        if calls < 4:
            raise SystemExit(f"only {calls} calls seen on {watched}: is {self.options.library} in use?")
        self.compare(folder, "with the library, not killed")
        for at in range(1, calls + 1):
            folder = self.work / f"call-{at}"
            code = self.start(folder, KILL_AT=str(at), **preload).wait()
            if code != -signal.SIGKILL:
                self.failures += 1
                print(f"  BAD call {at}: ended with {code}, not killed", flush=True)
            self.finish(folder)
            self.compare(folder, f"killed at call {at} of the save")
        print(f"killed at each of the {calls} calls of one save", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tessera", type=pathlib.Path, default=root / "build/tessera")
    parser.add_argument("--library", type=pathlib.Path,
                        default=root / "build/tests/resume/libkill_at_call.so")
    parser.add_argument("--text", type=pathlib.Path, default=root / "README.md")
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--offload", default="none", help="layout.offload")
    parser.add_argument("--threads", type=int, default=1, help="default 1: this model is too small for more")
    options = parser.parse_args()
    require_files(options.tessera, options.library, options.text)
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        build_data(options.tessera, work, options.text)
        check = Check(options, work)
        check.in_one_go()
        check.random_moments()
        check.every_call()
    print(f"resume: {check.failures} differences")
    return check.failures > 0


if __name__ == "__main__":
    sys.exit(main())

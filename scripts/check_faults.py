#!/usr/bin/env python3
"""Runs with a fault keep every completed step and end with the results of an unbroken run.

    scripts/check_faults.py [--faults 50] [--seed N] [--ranks 1,2,4]

Each round trains a small model on 1 to 4 ranks and injects one fault at a random moment:
SIGKILL of one rank or of all processes, a full disk for a while, SIGHUP, SIGTERM, a reader of the
output that ends, or the removal of metrics.jsonl, tensorboard/, log.txt or an old checkpoint. Then:

1. After SIGKILL the last step that the log calls saved is there; after any other fault the newest
   checkpoint is the last completed step, that is the last one with a line in metrics.jsonl.
2. The same command is started until it ends by itself. Every loss in metrics.jsonl is that of an
   unbroken run of the same layout, and so are the bytes of the last checkpoint.

Needs build/tessera, build/tests/resume/libfail_calls.so and, for several ranks, mpirun.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from small_runs import build_data, checkpoint_digests, metrics, require_files

RUN = """\
run: {{ name: faults, directory: run, seed: 7, threads: 1 }}
model: {{ family: neox, layers: 2, hidden: 32, heads: 4, vocabulary: 512, context: 32 }}
data: {{ tokenizer: {work}/tokenizer.json, train: [{work}/train], validation: [{work}/train],
        sequence_length: 32 }}
batch: {{ global: 16, micro: 1 }}
optimizer: {{ learning_rate: 1.0e-3 }}
schedule: {{ steps: {steps}, warmup_steps: 2 }}
precision: fp32
checkpoint: {{ every_steps: 7, keep: 2, retry_s: 20 }}
metrics: {{ validate_every_steps: 20, validate_sequences: 8 }}
"""
LAYOUTS = {1: [[]], 2: [["layout.data=2"], ["layout.pipeline=2"]],
           4: [["layout.data=2", "layout.tensor=2"], ["layout.data=4", "layout.zero=2"]]}
KILLS = ["kill one rank", "kill all"]
FAULTS = KILLS + ["full disk", "SIGHUP", "SIGTERM", "reader ends", "remove metrics.jsonl",
                  "remove tensorboard", "remove log.txt", "remove an old checkpoint"]


def processes(folder):
    """Process numbers of everything that was started in the folder."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd") == str(folder):
                found.append(int(entry))
        except OSError:
            pass
    return found


def is_rank(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"train" in words and not words[0].endswith((b"mpirun", b"orterun"))
    except OSError:
        return False


def end(pids, number=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


class Round:
    def __init__(self, check, layout, ranks, folder):
        self.check, self.folder = check, folder
        self.run = folder / "run"
        folder.mkdir()
        tessera = [str(check.options.tessera)]
        file = str(check.run_file)
        self.command = (tessera + ["train", file, *layout] if ranks == 1 else
                        tessera + ["launch", file, "-n", str(ranks), *layout])

    def start(self, **environment):
        return subprocess.Popen(self.command, cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True,
                                env=dict(os.environ, OMP_NUM_THREADS="1", **environment))

    def wait_for_a_step(self, process):
        while self.completed() < 1 and process.poll() is None:
            time.sleep(0.005)

    def lines(self):
        return metrics(self.run)

    def completed(self):
        return max((line["step"] for line in self.lines() if "loss" in line), default=0)

    def saved(self):
        folder = self.run / "checkpoints"
        names = os.listdir(folder) if folder.exists() else []
        return max((int(n) for n in names
                    if n.isdigit() and (folder / n / "index.json").exists()), default=0)

    def called_saved(self):
        log = self.run / "log.txt"
        text = log.read_text() if log.exists() else ""
        return max((int(n) for n in re.findall(r" saved (\d+) in ", text)), default=0)

    def losses(self):
        return {line["step"]: line["loss"] for line in self.lines() if "loss" in line}

    def checkpoint(self):
        return checkpoint_digests(self.run, self.check.options.steps)

    def inject(self, fault, process):
        """Returns what keeps the fault going, a function that ends it."""
        if fault == "kill one rank":
            ranks = [pid for pid in processes(self.folder) if is_rank(pid)]
            end(self.check.rng.sample(ranks, min(1, len(ranks))))
        elif fault == "kill all":
            end(processes(self.folder))
        elif fault == "full disk":
            full = self.folder / "full"
            full.touch()
            time.sleep(self.check.rng.uniform(0.05, 1.5))
            full.unlink()
        elif fault in ("SIGHUP", "SIGTERM"):
            end([process.pid], getattr(signal, fault))
        elif fault == "reader ends":
            process.stdout.close()
        elif fault == "remove an old checkpoint":
            folder = self.run / "checkpoints"
            steps = sorted(int(n) for n in os.listdir(folder) if n.isdigit()) \
                if folder.exists() else []
            if len(steps) > 1:
                shutil.rmtree(folder / str(steps[0]), ignore_errors=True)
        else:
            path = self.run / fault.split()[1]
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


class Check:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.rng = random.Random(options.seed)
        self.run_file = work / "faults.yaml"
        self.run_file.write_text(RUN.format(work=work, steps=options.steps))
        self.whole = {}
        self.starts, self.failures, self.lost, self.lost_to_kills = 0, 0, 0, 0
        self.injected = collections.Counter()

    def bad(self, what, output=""):
        self.failures += 1
        print(f"  BAD {what}\n{output[-1500:]}", flush=True)

    def finish(self, r):
        for _ in range(3):
            self.starts += 1
            process = r.start()
            output = process.communicate()[0].decode(errors="replace")
            if process.returncode == 0:
                return output
        self.bad(f"does not end: {r.command}", output)
        return output

    def unbroken(self, layout, ranks):
        key = tuple(layout)
        if key not in self.whole:
            r = Round(self, layout, ranks, self.work / f"whole-{len(self.whole)}")
            self.starts += 1
            process = r.start()
            r.wait_for_a_step(process)
            began = time.monotonic()
            output = process.communicate()[0].decode(errors="replace")
            if process.returncode != 0:
                raise SystemExit(f"the unbroken run {r.command} failed:\n{output}")
            self.whole[key] = (r.losses(), r.checkpoint(), time.monotonic() - began)
            shutil.rmtree(r.folder)
        return self.whole[key]

    def one(self, number, fault):
        ranks = self.rng.choice(self.options.ranks)
        layout = self.rng.choice(LAYOUTS[ranks])
        losses, checkpoint, seconds = self.unbroken(layout, ranks)
        r = Round(self, layout, ranks, self.work / f"round-{number}")
        name = f"{number}: {fault}, {ranks} ranks {' '.join(layout)}"
        library = {}
        if fault == "full disk":
            library = dict(LD_PRELOAD=str(self.options.library), FAIL_CALLS="write,create,fallocate",
                           FAIL_PATH=str(r.run), FAIL_WHILE=str(r.folder / "full"))
        self.starts += 1
        process = r.start(**library)
        r.wait_for_a_step(process)  # a start that has completed none can lose none
        time.sleep(self.rng.uniform(0, 0.8 * seconds))
        hit = process.poll() is None
        r.inject(fault, process)
        output = "" if process.stdout.closed else process.communicate()[0].decode(errors="replace")
        code = process.wait()
        time.sleep(0.2)
        end(processes(r.folder))  # ranks whose launch was killed
        self.injected[fault] += hit
        self.judge(r, fault, name, code, output)
        self.finish(r)
        problem = ""
        if any(losses.get(step) != loss for step, loss in r.losses().items()):
            problem = "losses differ"
        elif not fault.startswith("remove metrics") and r.losses() != losses:
            problem = f"{len(r.losses())} of {len(losses)} steps are recorded"
        elif r.checkpoint() != checkpoint:
            problem = "the last checkpoint differs"
        if problem:
            self.bad(f"{name}: {problem}")
        shutil.rmtree(r.folder)

    def judge(self, r, fault, name, code, output):
        completed, saved = r.completed(), r.saved()
        if fault in KILLS:
            self.lost_to_kills += max(0, completed - saved)
            if saved < r.called_saved():
                self.bad(f"{name}: step {r.called_saved()} was saved, {saved} is there", output)
            return
        self.lost += max(0, completed - saved)
        if saved < completed:
            self.bad(f"{name}: ended with {code}; step {completed} was completed, {saved} is saved",
                     output)
        elif code != 0:
            self.bad(f"{name}: ended with {code}", output)

    def all(self):
        order = [FAULTS[i % len(FAULTS)] for i in range(self.options.faults)]
        self.rng.shuffle(order)
        for number, fault in enumerate(order, 1):
            self.one(number, fault)
            if number % 10 == 0:
                print(f"{number} of {len(order)} faults, {self.failures} failures", flush=True)
        total = sum(self.injected.values())
        print(f"{total} faults hit a running run, over {self.starts} starts: "
              + ", ".join(f"{n} {name}" for name, n in sorted(self.injected.items())))
        print(f"completed steps lost: {self.lost}; after SIGKILL beyond the last save: "
              f"{self.lost_to_kills} (they may be); failures: {self.failures}")
        return self.failures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tessera", type=pathlib.Path, default=root / "build/tessera")
    parser.add_argument("--library", type=pathlib.Path,
                        default=root / "build/tests/resume/libfail_calls.so")
    parser.add_argument("--text", type=pathlib.Path, default=root / "README.md")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2, 4])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    require_files(options.tessera, options.library, options.text)
    if shutil.which("mpirun") is None:
        options.ranks = [1]
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        build_data(options.tessera, work, options.text)
        return Check(options, work).all() > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Trains every run file of examples/ for a few steps, with the command of its first lines.

usage: examples_test.py PROGRAM EXAMPLES
"""
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

STEPS = 4
SHORT = [f"schedule.steps={STEPS}", "schedule.warmup_steps=1", "metrics.validate_sequences=8"]


def run(command, folder, env):
    done = subprocess.run(command, cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")


def command_of(example):
    """The command of the comment `# Run:`, with the path of the example and fewer steps."""
    text = example.read_text()
    found = re.match(r"#[^\n]+\n(?:#[^\n]*\n)*?# Run:  ((?:mpirun -n \d+ )?tessera train \S+)", text)
    if not found:
        sys.exit(f"{example}: expected a comment of what it shows, and a line '# Run:  tessera train FILE'")
    words = shlex.split(found[1])
    if words[-1] != example.name:
        sys.exit(f"{example}: its command names {words[-1]}")
    decay = ["schedule.decay_steps=2"] if "decay_steps" in text else []
    return words[:-1] + [str(example)] + SHORT + decay


def check(example, folder):
    name = re.search(r"run: \{ name: ([\w-]+)", example.read_text())[1]
    lines = (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
    losses = {r["step"]: r["loss"] for r in map(json.loads, lines) if "loss" in r}
    if sorted(losses) != list(range(1, STEPS + 1)) or not all(math.isfinite(x) for x in losses.values()):
        sys.exit(f"{example}: losses {losses}, expected {STEPS} finite ones")
    if not losses[STEPS] < losses[1]:
        sys.exit(f"{example}: the loss does not fall: {losses}")
    print(f"{example.name}: loss {losses[1]:.3f} to {losses[STEPS]:.3f}", flush=True)


def main():
    program, examples = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    env = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", OMP_WAIT_POLICY="passive",
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1")
    listed = set(re.findall(r"\]\(([\w.]+\.yaml)\)", (examples / "README.md").read_text()))
    found = {path.name for path in examples.glob("*.yaml")}
    if listed != found:
        sys.exit(f"examples/README.md lists {sorted(listed)}, the folder has {sorted(found)}")
    with tempfile.TemporaryDirectory(prefix="examples-") as name:
        folder = pathlib.Path(name)
        run([examples / "make_data.sh"], folder, env)
        for example in sorted(examples.glob("*.yaml")):
            run(command_of(example), folder, env)
            check(example, folder)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads our event files with TensorBoard's own reader.

    ninja -C build tensorboard_sample
    python3 -m venv V && V/bin/pip install tensorboard
    V/bin/python scripts/check_tensorboard.py build/tests/train/tensorboard_sample
    V/bin/python scripts/check_tensorboard.py --run RUN_DIRECTORY

The sample is a run that wrote steps 1 to 8, died, and was resumed from step 5: the curve must have
each step once, with the values of the session that came last. Of a run's directory every number of
metrics.jsonl must be there under its tag, which the table of docs/metrics.md states.
"""
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return events


def check_sample(sample):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sample, folder], check=True)
        events = read(folder)
        tags = sorted(events.Tags()["scalars"])
        loss = [(e.step, e.value, e.wall_time) for e in events.Scalars("train/loss")]
    expected = [(s, float(s), 1.7e9 + s) for s in range(1, 6)]
    expected += [(s, s + 100.0, 1.7e9 + 100 + s) for s in range(6, 11)]
    if tags != ["train/grad_norm", "train/loss"] or loss != expected:
        print(f"TensorBoard reads tags {tags} and\n  {loss}\nexpected\n  {expected}")
        return 1
    print("TensorBoard reads 10 steps of 2 tags, each once, across a resume")
    return 0


def tags_of():
    """{key of metrics.jsonl: tag} of the table in docs/metrics.md."""
    page = (Path(__file__).parent.parent / "docs/metrics.md").read_text()
    return dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `tessera_", page, re.M))


def scalars_of(line, tags):
    """{tag: value} of a line of metrics.jsonl."""
    out = {}
    for key, value in line.items():
        if key in ("step", "name", "task") or value is None:
            continue
        if "task" in line:
            tag = f"task/{line['task']}/{key}"
        elif "validation_loss" in line:
            tag = tags[key].replace("{dataset}", line["name"])
        elif key == "bytes_sent":
            out.update({tags["bytes_sent.{axis}"].replace("{axis}", axis): n for axis, n in value.items()})
            continue
        else:
            tag = tags[key]
        out[tag] = value
    return out


def check_run(run):
    events, expected_points, tags = read(run / "tensorboard"), {}, tags_of()
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        for tag, value in scalars_of(line, tags).items():
            single = struct.unpack("f", struct.pack("f", value))[0]
            expected_points.setdefault(tag, []).append((line["step"], single))
    there = set(events.Tags()["scalars"])
    wrong = [tag for tag, points in expected_points.items()
             if tag not in there or [(e.step, e.value) for e in events.Scalars(tag)] != points]
    for tag in wrong:
        found = [(e.step, e.value) for e in events.Scalars(tag)] if tag in there else "nothing"
        print(f"TensorBoard reads of {tag} {found}\n  expected {expected_points[tag]}")
    points = sum(len(p) for p in expected_points.values())
    print(f"TensorBoard reads {points} points of {len(expected_points)} tags, {len(wrong)} tags differ: "
          + ", ".join(sorted(expected_points)))
    return 1 if wrong or not expected_points else 0


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--run":
        return check_run(Path(sys.argv[2]))
    return check_sample(sys.argv[1] if len(sys.argv) > 1 else "build/tests/train/tensorboard_sample")


if __name__ == "__main__":
    sys.exit(main())

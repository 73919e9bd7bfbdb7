#!/usr/bin/env python3
"""Reads our event files with TensorBoard's own reader.

    ninja -C build tensorboard_sample
    python3 -m venv V && V/bin/pip install tensorboard
    V/bin/python scripts/check_tensorboard.py build/tests/train/tensorboard_sample

The sample is a run that wrote steps 1 to 8, died, and was resumed from step 5: the curve must have
each step once, with the values of the session that came last.
"""
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main() -> int:
    sample = sys.argv[1] if len(sys.argv) > 1 else "build/tests/train/tensorboard_sample"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sample, folder], check=True)
        events = EventAccumulator(folder, size_guidance={"scalars": 0})
        events.Reload()
        tags = sorted(events.Tags()["scalars"])
        loss = [(e.step, e.value, e.wall_time) for e in events.Scalars("train/loss")]
    expected = [(s, float(s), 1.7e9 + s) for s in range(1, 6)]
    expected += [(s, s + 100.0, 1.7e9 + 100 + s) for s in range(6, 11)]
    if tags != ["train/grad_norm", "train/loss"] or loss != expected:
        print(f"TensorBoard reads tags {tags} and\n  {loss}\nwanted\n  {expected}")
        return 1
    print("TensorBoard reads 10 steps of 2 tags, each once, across a resume")
    return 0


if __name__ == "__main__":
    sys.exit(main())

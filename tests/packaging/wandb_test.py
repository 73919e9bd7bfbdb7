"""Exports a run with the real package wandb, offline, and reads back what it wrote.

usage: wandb_test.py SOURCE FOLDER    (77: skipped, without a network)
"""
import importlib
import json
import pathlib
import re
import subprocess
import sys
import types
import venv
import warnings

LINES = [
    {"step": 1, "tokens": 64, "loss": 4.5, "grad_norm": None, "skipped": True, "bytes_sent": {"data": 8, "tensor": 0}},
    {"step": 2, "tokens": 128, "loss": 4.25, "learning_rate": 0.001},
    {"step": 2, "name": "wiki", "validation_loss": 4.0, "bits_per_byte": 1.5},
    {"step": 2, "task": "piqa", "examples": 9, "accuracy": 0.5, "accuracy_error": 0.125},
]
EXPECTED = {
    1: {"train/tokens": 64, "train/loss": 4.5, "train/skipped": 1, "communication/bytes_sent/data": 8,
        "communication/bytes_sent/tensor": 0},
    2: {"train/tokens": 128, "train/loss": 4.25, "train/learning_rate": 0.001, "validation/loss/wiki": 4.0,
        "validation/bits_per_byte/wiki": 1.5, "task/piqa/examples": 9, "task/piqa/accuracy": 0.5,
        "task/piqa/accuracy_error": 0.125},
}


def check_table(source):
    package = types.ModuleType("tessera")  # without its __init__.py, which needs NumPy
    package.__path__ = [str(source / "python/tessera")]
    sys.modules["tessera"] = package
    exporter = importlib.import_module("tessera.wandb")
    page = (source / "docs/metrics.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `tessera_", page, re.M))
    assert exporter.TAGS == table, set(exporter.TAGS.items()) ^ set(table.items())
    return exporter


# Runs in the virtual environment: prints the history of the only run as JSON. A file starts with 7 bytes of its own,
# and is a log of LevelDB: blocks of 32 KiB with records of CRC (4 bytes), length (2), kind (1: whole, 2: first part,
# 3: middle, 4: last) and bytes.
READ = r"""
import json, pathlib, struct, sys
from wandb.proto import wandb_internal_pb2
[path] = pathlib.Path(sys.argv[1]).rglob("*.wandb")
data, at, parts, steps = path.read_bytes(), 7, b"", {}
while at + 7 <= len(data):
    if at % 32768 > 32768 - 7:
        at += 32768 - at % 32768
        continue
    length, kind = struct.unpack_from("<HB", data, at + 4)
    parts += data[at + 7:at + 7 + length]
    at += 7 + length
    if kind not in (1, 4):
        continue
    record = wandb_internal_pb2.Record()
    record.ParseFromString(parts)
    parts = b""
    if record.WhichOneof("record_type") == "history":
        items = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
        steps[record.history.step.num] = {k: v for k, v in items.items() if not k.startswith("_")}
print(json.dumps(steps))
"""


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    exporter = check_table(source)
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(line) + "\n" for line in LINES]
    text = lines[0] + '{"step":2,"tok\n[2]\n' + "".join(lines[1:]) + '{"step":3,"lo'
    (run / "metrics.jsonl").write_text(text, encoding="utf-8")
    (run / "run.yaml").write_text("run: { name: first }\n", encoding="utf-8")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert dict(exporter.read_steps(run / "metrics.jsonl")) == EXPECTED
    [warning] = [str(one.message) for one in said]
    assert "metrics.jsonl:2: " in warning and "2 damaged lines are left out" in warning, warning

    python = folder / "venv/bin/python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    if subprocess.run([python, "-m", "pip", "install", "--quiet", "wandb", "numpy"], check=False).returncode:
        print("skipped: wandb cannot be installed from PyPI here")
        return 77
    subprocess.run(["rm", "-rf", run / "wandb"], check=True)
    environment = {"PYTHONPATH": str(source / "python"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    written = subprocess.run([python, "-m", "tessera.wandb", run, "--project", "p", "--offline"], check=True, env=environment,
                             stderr=subprocess.PIPE, text=True)
    assert f"tessera: warning: {run}/metrics.jsonl:2: " in written.stderr, written.stderr
    out = subprocess.run([python, "-c", READ, run / "wandb"], check=True, env=environment, capture_output=True, text=True)
    steps = {int(step): values for step, values in json.loads(out.stdout).items()}
    assert steps == EXPECTED, steps
    absent = subprocess.run([python, "-m", "tessera.wandb", folder / "absent", "--project", "p", "--offline"],
                            check=False, env=environment, capture_output=True, text=True)
    assert absent.returncode == 1 and "metrics.jsonl: does not exist" in absent.stderr, absent
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Reads the files of first_run.sh with the Python package. usage: package_test.py FOLDER"""
import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np

import tessera

folder = pathlib.Path(sys.argv[1])
os.environ.pop("TESSERA_PROGRAM", None)

metrics = tessera.read_metrics(folder / "runs/first")
assert list(metrics["step"]) == list(range(1, 151))
assert metrics["loss"][-1] < metrics["loss"][0] - 1
assert tessera.read_metrics(folder / "runs/first", "tasks") == {}

checkpoint = tessera.Checkpoint(folder / "runs/first")
assert checkpoint.step == 150 and checkpoint.model["hidden"] == 128
for name in checkpoint:
    tensor = checkpoint[name]
    assert tensor.shape == checkpoint.shape(name) and np.isfinite(tensor).all(), name
assert checkpoint["embed.weight"].shape[1] == 128

dataset = tessera.Dataset(folder / "data/train")
assert sum(len(document) for document in dataset) == dataset.tokens > 10000
end_of_text = {int(document[-1]) for document in dataset}
assert len(end_of_text) == 1

plan = tessera.plan({"model": {"preset": "pythia-70m"}, "batch": {"global": 8}}, cluster="h100", keys={"batch.micro": 2})
assert plan["step_s"] > 0 and plan["fits"] is True
assert tessera.compile("pythia-70m")["calls"] > 0
try:
    tessera.plan("pythia-70m", cluster="h10")
    raise AssertionError("a cluster that does not exist was accepted")
except tessera.TesseraError as error:
    assert error.code == 1 and "h100" in str(error), error
tessera.train({"run": {"directory": str(folder / "again")}, "model": {"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 0},
               "data": {"tokenizer": str(folder / "tokenizer.json"), "train": [str(folder / "data/train")], "sequence_length": 32},
               "batch": {"global": 2, "micro": 2}, "schedule": {"steps": 2, "warmup_steps": 0}})
assert len(tessera.read_metrics(folder / "again")["loss"]) == 2
# Ctrl-C reaches the program, too: train() waits until it has saved.
long = {"run": {"directory": str(folder / "long")}, "model": {"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 0},
        "data": {"tokenizer": str(folder / "tokenizer.json"), "train": [str(folder / "data/train")], "sequence_length": 32},
        "batch": {"global": 2, "micro": 2}, "schedule": {"steps": 1000000, "warmup_steps": 0}}


def interrupt():
    lines = folder / "long/metrics.jsonl"
    while not lines.exists() or len(tessera.read_metrics(lines).get("loss", ())) == 0:
        time.sleep(0.1)
    os.killpg(0, signal.SIGINT)


os.setpgid(0, 0)
threading.Thread(target=interrupt, daemon=True).start()
try:
    tessera.train(long)
    raise AssertionError("train() went on after Ctrl-C")
except KeyboardInterrupt:
    assert list((folder / "long/checkpoints").glob("[0-9]*")), "the interrupted run did not save"
print("package_test: the Python package reads what the program writes")

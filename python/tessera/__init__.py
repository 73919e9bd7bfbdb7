"""Tessera in Python: start runs, compile and plan them, and read their files as NumPy arrays.

    import tessera
    tessera.plan({"model": {"preset": "pythia-70m"}}, cluster="h100")["step_s"]
    tessera.train("run.yaml", ranks=2)
    metrics = tessera.read_metrics("runs/mine")
    weights = tessera.Checkpoint("runs/mine")["embed.weight"]
    tokens = tessera.Dataset("corpus/train")[0]
"""
from tessera.checkpoint import Checkpoint
from tessera.dataset import Dataset
from tessera.metrics import read_metrics
from tessera.program import TesseraError, compile, plan, program_path, run, train

__all__ = ["Checkpoint", "Dataset", "TesseraError", "compile", "plan", "program_path", "read_metrics", "run", "train"]

"""Reads metrics.jsonl of a run."""
from __future__ import annotations

import os
import pathlib
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from tessera.lines import read_lines


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def read_metrics(run: Union[str, "os.PathLike[str]"], kind: str = "steps") -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of a run's metrics, one float64 array per key, and text keys as arrays of str.

    run: a run directory or its metrics.jsonl. kind: "steps", "sources", "validation" or "tasks". A key that a line does
    not have is NaN there. Damaged lines are left out with a warning. The last line may be unfinished while the run
    continues: it is left out."""
    if kind not in ("steps", "sources", "validation", "tasks"):
        raise ValueError(f"kind is {kind!r}, expected 'steps', 'sources', 'validation' or 'tasks'")
    path = pathlib.Path(run)
    if path.is_dir():
        path = path / "metrics.jsonl"
    rows = []
    for row in read_lines(path):
        of = ("validation" if "validation_loss" in row else "sources" if "source" in row else
              "tasks" if "task" in row else "steps")
        if of == kind:
            rows.append(row)
    keys = {key: None for row in rows for key, value in row.items() if not isinstance(value, (dict, list))}
    texts = {key for row in rows for key, value in row.items() if isinstance(value, str)}
    return {key: np.array([str(row.get(key, "")) for row in rows]) if key in texts
            else np.array([_number(row.get(key)) for row in rows]) for key in keys}

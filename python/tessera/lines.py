"""Reads the lines of metrics.jsonl."""
from __future__ import annotations

import json
import pathlib
import warnings
from typing import Any, Iterator


def read_lines(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the lines, as dicts. A damaged line is left out with a warning, as `tessera report` does. The last line may be
    unfinished while the run continues: it is left out without one."""
    lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    damaged: list[str] = []
    for number, text in enumerate(lines, 1):
        if not text:
            continue
        try:
            line = json.loads(text)
            if not isinstance(line, dict) or not isinstance(line.get("step"), int):
                raise ValueError("not an object with a step")
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                damaged.append(f"{path}:{number}: {error}")
            continue
        yield line
    if damaged:
        rest = "1 damaged line is" if len(damaged) == 1 else f"{len(damaged)} damaged lines are"
        warnings.warn(f"{damaged[0]}. {rest} left out.", stacklevel=3)

"""Reads checkpoints: docs/checkpoint_format.md."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Iterator, Union

import numpy as np
import numpy.typing as npt

_TYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": "<u2", "i32": "<i4", "i64": "<i8", "u16": "<u2", "u8": "u1"}


class Checkpoint:
    """A checkpoint: a mapping of tensor names to arrays.

    path: a checkpoint, or a run directory, of which the newest checkpoint is read."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = _newest(pathlib.Path(path))
        index: dict[str, Any] = json.loads((self.path / "index.json").read_text())
        if index.get("format") != "tessera checkpoint" or index.get("format_version") != 1:
            raise ValueError(f"{self.path}: the format is {index.get('format')!r}, version "
                             f"{index.get('format_version')}, expected 'tessera checkpoint', version 1")
        self.step: int = index["step"]
        self.tokens: int = index["tokens"]
        self.model: dict[str, Any] = index["model"]
        self.config: dict[str, Any] = index["config"]
        self._files = [file["name"] for file in index["files"]]
        self._tensors = {tensor["name"]: tensor for tensor in index["tensors"]}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def keys(self) -> list[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name]["shape"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Reads a whole tensor. bf16, which NumPy does not have, is returned as float32 (exact)."""
        tensor = self._tensors[name]
        kind = tensor["dtype"]
        stored = np.dtype(_TYPES[kind])
        out = np.empty(tensor["shape"], np.float32 if kind == "bf16" else stored)
        for piece in tensor["pieces"]:
            box = [end - begin for begin, end in zip(piece["begin"], piece["end"])]
            with open(self.path / self._files[piece["file"]], "rb") as file:
                file.seek(piece["offset"])
                raw = np.fromfile(file, stored, piece["bytes"] // stored.itemsize)
            if raw.nbytes != piece["bytes"]:
                raise ValueError(f"{file.name}: ends before byte {piece['offset'] + piece['bytes']} of '{name}'")
            if kind == "bf16":
                raw = (raw.astype(np.uint32) << 16).view(np.float32)
            out[tuple(slice(b, e) for b, e in zip(piece["begin"], piece["end"]))] = raw.reshape(box)
        return out


def _newest(path: pathlib.Path) -> pathlib.Path:
    if (path / "index.json").is_file():
        return path
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    steps = [entry for entry in folder.glob("*") if entry.name.isdigit() and (entry / "index.json").is_file()]
    if not steps:
        raise FileNotFoundError(f"{path}: no checkpoint here. Expected a checkpoint or a run directory")
    return max(steps, key=lambda entry: int(entry.name))

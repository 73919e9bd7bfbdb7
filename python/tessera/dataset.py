"""Reads datasets of token ids: docs/data_formats.md."""
from __future__ import annotations

import operator
import os
from typing import Any, Iterator, SupportsIndex, Union, overload

import numpy as np
import numpy.typing as npt

_MAGIC = b"MMIDIDX\0\0"
_TYPES = {1: "u1", 4: "<i4", 5: "<i8", 8: "<u2"}
_HEADER_BYTES = 34


class Dataset:
    """A dataset of `tessera data build` or of Megatron-LM: dataset[i] is the i-th document's token ids, and
    dataset[a:b] a list of documents.

    prefix: the path without .bin and .idx. The files are mapped, not read."""

    def __init__(self, prefix: Union[str, "os.PathLike[str]"]) -> None:
        name = os.fspath(prefix)
        with open(name + ".idx", "rb") as file:
            header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header[:9] != _MAGIC or header[17] not in _TYPES:
            raise ValueError(f"{name}.idx: not an index of token ids (MMIDIDX)")
        sequences, entries = (int(n) for n in np.frombuffer(header, "<u8", 2, 18))
        expected = _HEADER_BYTES + 12 * sequences + 8 * entries
        if os.path.getsize(name + ".idx") != expected:
            raise ValueError(f"{name}.idx: has {os.path.getsize(name + '.idx')} bytes, expected {expected}")
        index = np.memmap(name + ".idx", "u1", "r")
        lengths = index[34:34 + 4 * sequences].view("<i4")
        documents = index[34 + 12 * sequences:].view("<i8")
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._bounds = starts[documents]
        dtype = np.dtype(_TYPES[header[17]])
        self.tokens: int = int(starts[-1])
        self.ids: npt.NDArray[Any] = np.memmap(name + ".bin", dtype, "r") if self.tokens else np.empty(0, dtype)
        if len(self.ids) != self.tokens:
            raise ValueError(f"{name}.bin: has {len(self.ids)} tokens, the index has {self.tokens}")

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, i: SupportsIndex) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, i: slice) -> list[npt.NDArray[Any]]: ...

    def __getitem__(self, i: Union[SupportsIndex, slice]) -> Union[npt.NDArray[Any], list[npt.NDArray[Any]]]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = operator.index(i)
        if not -len(self) <= i < len(self):
            raise IndexError(f"document {i} of {len(self)}")
        i %= len(self)
        return self.ids[self._bounds[i]:self._bounds[i + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self[i] for i in range(len(self)))

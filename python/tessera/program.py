"""Runs the program tessera."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Mapping, Union

from tessera.relay import run_relayed

_INSIDE = pathlib.Path(__file__).parent / "files" / "bin" / "tessera"
RunFile = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class TesseraError(RuntimeError):
    """A command that failed. `code` is its exit code, the text is what it wrote to standard error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message.strip() or f"tessera ended with exit code {code}")
        self.code = code


def program_path() -> str:
    """Returns the path of the program: $TESSERA_PROGRAM, or the one that this package contains, or, if the package is
    used from the source tree and contains none, `tessera` on PATH. Raises FileNotFoundError if there is none."""
    chosen = os.environ.get("TESSERA_PROGRAM")
    if chosen and not os.path.isfile(chosen):
        raise FileNotFoundError(f"TESSERA_PROGRAM = {chosen}: there is no such file. Expected the path of the program tessera")
    found = chosen or (str(_INSIDE) if _INSIDE.is_file() else shutil.which("tessera"))
    if not found:
        raise FileNotFoundError(f"the program tessera was not found: {_INSIDE} does not exist, and PATH has none. Set "
                                "TESSERA_PROGRAM to its path, such as build/tessera")
    return found


def run(*arguments: str) -> str:
    """Runs a command, such as run("doctor"), and returns its output. Raises TesseraError."""
    done = subprocess.run([program_path(), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise TesseraError(done.returncode, done.stderr)
    return done.stdout


def _plain(value: Any) -> Any:
    """What json does not know: paths, NumPy's scalars and arrays, and other mappings than dict."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"the value {value!r} has the type {type(value).__name__}. Expected a number, a text, a path, or a list "
                    "or dict of them")


def _value(value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _with_run_file(run_file: RunFile, keys: Mapping[str, Any], command: Any) -> Any:
    """Calls command(path, overrides); a mapping is written to a temporary run file first."""
    overrides = [f"{key}={_value(value)}" for key, value in keys.items()]
    if not isinstance(run_file, Mapping):
        return command(os.fspath(run_file), overrides)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="run-") as file:
        json.dump(run_file, file, default=_plain)  # YAML contains JSON
        file.flush()
        return command(file.name, overrides)


def plan(run_file: RunFile, cluster: str, keys: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Predicts a run on a machine: step time (s), tokens per second, memory (bytes), cost.

    run_file: a path, the name of a recipe, or a dict with the sections of a run file. cluster: a file or a
    name such as "h100". keys: overrides, such as {"layout.tensor": 2}. Raises TesseraError."""
    return _with_run_file(run_file, keys, lambda path, overrides: json.loads(
        run("plan", path, *overrides, "--cluster", cluster, "--json")))


def compile(run_file: RunFile, keys: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Compiles the training step of a run: number of calls, sizes of the arena in bytes. Raises TesseraError."""
    return _with_run_file(run_file, keys, lambda path, overrides: json.loads(run("compile", path, *overrides, "--json")))


def train(run_file: RunFile, keys: Mapping[str, Any] = {}, ranks: int = 1) -> None:
    """Trains, or resumes, a run and waits for it. Its output is that of this process.

    With a dict give run.name or run.directory. ranks > 1 needs mpirun. Raises TesseraError with the program's message."""
    def start(path: str, overrides: list[str]) -> None:
        command = ["train", path, *overrides] if ranks == 1 else ["launch", path, *overrides, "-n", str(ranks)]
        code, message = run_relayed([program_path(), *command])
        if code != 0:
            raise TesseraError(code, message)
    _with_run_file(run_file, keys, start)


def main() -> None:
    """The command `tessera` that the package installs. It is on PATH itself, where no program is looked for."""
    program = os.environ.get("TESSERA_PROGRAM") or str(_INSIDE)
    os.execv(program, [program, *sys.argv[1:]])

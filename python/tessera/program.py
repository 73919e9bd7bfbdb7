"""Runs the program tessera."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Mapping, Union

RunFile = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class TesseraError(RuntimeError):
    """A command that failed. `code` is its exit code, the text is what it wrote to standard error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message.strip() or f"tessera ended with exit code {code}")
        self.code = code


def program_path() -> str:
    """Returns the path of the program: $TESSERA_PROGRAM, or the one that this package contains."""
    inside = pathlib.Path(__file__).parent / "files" / "bin" / "tessera"
    return os.environ.get("TESSERA_PROGRAM") or str(inside)


def run(*arguments: str) -> str:
    """Runs a command, such as run("doctor"), and returns its output. Raises TesseraError."""
    done = subprocess.run([program_path(), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise TesseraError(done.returncode, done.stderr)
    return done.stdout


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _with_run_file(run_file: RunFile, keys: Mapping[str, Any], command: Any) -> Any:
    """Calls command(path, overrides); a mapping is written to a temporary run file first."""
    overrides = [f"{key}={_value(value)}" for key, value in keys.items()]
    if not isinstance(run_file, Mapping):
        return command(os.fspath(run_file), overrides)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="run-") as file:
        json.dump(run_file, file)  # YAML contains JSON
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


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Returns the exit code. Ctrl-C reaches the program, too, which then saves and ends: it is waited for
    before KeyboardInterrupt goes on. A second Ctrl-C ends the program at once."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                pass
        raise


def train(run_file: RunFile, keys: Mapping[str, Any] = {}, ranks: int = 1) -> None:
    """Trains, or resumes, a run and waits for it. Its output is that of this process.

    With a dict give run.name or run.directory. ranks > 1 needs mpirun. Raises TesseraError."""
    def start(path: str, overrides: list[str]) -> None:
        command = ["train", path, *overrides] if ranks == 1 else ["launch", path, *overrides, "-n", str(ranks)]
        with subprocess.Popen([program_path(), *command]) as process:
            code = _wait(process)
        if code != 0:
            raise TesseraError(code, "")
    _with_run_file(run_file, keys, start)


def main() -> None:
    """The command `tessera` that the package installs."""
    os.execv(program_path(), [program_path(), *sys.argv[1:]])

"""Tries the Python module in the source tree with a built program.

usage: python_test.py SOURCE PROGRAM FOLDER    (77: skipped, without NumPy and a network)
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import venv

ABSENT = "data.tokenizer = absent.json: not found"


def expect_error(kind, call, *parts):
    try:
        call()
    except kind as error:
        assert all(part in str(error) for part in parts), (str(error), parts)
        return error
    raise AssertionError(f"no {kind.__name__} with {parts}")


def check_program_path(tessera, program, folder):
    os.environ.pop("TESSERA_PROGRAM", None)
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    expect_error(FileNotFoundError, lambda: tessera.run("--version"), "files/bin/tessera", "Set TESSERA_PROGRAM")
    (folder / "bin").mkdir()
    (folder / "bin/tessera").symlink_to(program)
    os.environ["PATH"] = f"{folder / 'bin'}:{path}"
    assert tessera.program_path() == str(folder / "bin/tessera")
    assert tessera.run("--version").startswith("tessera ")
    os.environ["TESSERA_PROGRAM"] = str(folder / "none")
    expect_error(FileNotFoundError, lambda: tessera.run("--version"), f"TESSERA_PROGRAM = {folder / 'none'}")
    os.environ["TESSERA_PROGRAM"] = str(program)
    assert tessera.program_path() == str(program)


def check_values(tessera, np, folder):
    run_file = {"model": {"preset": "pythia-70m"}, "batch": {"global": np.int64(8)}, "schedule": {"steps": np.array(2)},
                "data": {"train": [pathlib.Path("a/b")]}}
    keys = {"batch.micro": np.int32(2), "layout.overlap": np.uint8(0), "optimizer.learning_rate": np.float32(0.5),
            "optimizer.nesterov": np.bool_(True), "run.directory": pathlib.Path("runs/x"),
            "checkpoint.at_steps": np.arange(1, 3)}
    assert tessera.compile(run_file, keys)["calls"] > 0
    expect_error(TypeError, lambda: tessera.compile(run_file, {"batch.micro": object()}), "object", "Expected a number")
    path = folder / "run.yaml"
    path.write_text(json.dumps({"model": {"preset": "pythia-70m"}}))
    overrides = {"layout.zero_group": np.int16(1), "data.train": [pathlib.Path("a/b")]}
    assert tessera.plan(path, cluster="h100", keys=overrides)["step_s"] > 0


TRAIN = """
import sys, tessera
try:
    tessera.train({"run": {"name": "x"}, "model": {"preset": "pythia-70m"}, "data": {"tokenizer": "absent.json", "train": ["d"]}})
except tessera.TesseraError as error:
    print(error.code, "TEXT", error)
"""


def in_terminal(command, folder):
    """Returns what a command writes to a terminal."""
    reader, writer = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, stderr=writer, stdout=writer)
    os.close(writer)
    said = b""
    try:
        while piece := os.read(reader, 4096):
            said += piece
    except OSError:
        pass
    process.wait()
    return said.decode()


def check_train(folder):
    command = [sys.executable, "-c", TRAIN]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1 TEXT tessera: " + ABSENT), done
    assert ABSENT in done.stderr, done  # shown, too
    said = in_terminal(command, folder)
    assert said.count(ABSENT) == 2 and "1 TEXT tessera: " + ABSENT in said, said
    # The program is told that it writes to a terminal if it does.
    asks = "import tessera.relay as r; print(r.run_relayed(['sh', '-c', '[ -t 2 ] && echo tessera: yes >&2; exit 3']))"
    assert "(3, 'tessera: yes')" in in_terminal([sys.executable, "-c", asks], folder)
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert done.stdout == "(3, '')\n", done


def check_message():
    from tessera.relay import message_of
    text = "tessera: warning: slow\r\nstep 1\rstep 2\x1b[K\r\x1b[Ktessera: a.yaml: wrong\r\n  It happened\r\n"
    assert message_of(text) == "tessera: a.yaml: wrong\n  It happened"
    assert message_of("a\nb\n") == "a\nb"


def check_metrics(tessera, np, folder):
    import warnings
    path = folder / "metrics.jsonl"
    path.write_text('{"step":1,"loss":4.5}\n{"step":2,"lo\n{"step":2,"name":"wiki","validation_loss":4.0}\n[3]\n'
                    '{"step":3,"loss":null}\n{"step":4')
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        steps = tessera.read_metrics(path)
    assert list(steps["step"]) == [1, 3] and steps["loss"][0] == 4.5 and np.isnan(steps["loss"][1])
    [warning] = said
    assert f"{path}:2: " in str(warning.message) and "2 damaged lines are left out" in str(warning.message)
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validation = tessera.read_metrics(path, kind="validation")
    assert list(validation["name"]) == ["wiki"] and list(validation["validation_loss"]) == [4.0]


def check_dataset(tessera, np, program, folder):
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": "fox " * n}) + "\n" for n in range(1, 6)))
    subprocess.run([program, "tokenizer", "train", "--out", "t.json", "--vocabulary", "300", "a.jsonl"], cwd=folder, check=True)
    subprocess.run([program, "data", "build", "--tokenizer", "t.json", "--out", "d", "a.jsonl"], cwd=folder, check=True)
    dataset = tessera.Dataset(folder / "d")
    assert len(dataset) == 5
    for part in (slice(0, 3), slice(None), slice(-2, None), slice(None, None, -2), slice(7, 9)):
        found, expected = dataset[part], list(dataset)[part]
        assert len(found) == len(expected) and all(map(np.array_equal, found, expected)), part
    assert np.array_equal(dataset[np.int64(-1)], dataset[4])
    expect_error(IndexError, lambda: dataset[5], "document 5 of 5")
    expect_error(TypeError, lambda: dataset[1.5])


def python_with_numpy(folder):
    """Returns a Python that has NumPy: this one, or that of a virtual environment. None without a network."""
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    python = folder / "venv/bin/python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy"], check=False).returncode == 0
    return str(python) if installed else None


def main():
    source, program, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    if "inside" not in sys.argv:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["rm", "-rf", folder / "work"], check=True)
        python = python_with_numpy(folder)
        if python is None:
            print("skipped: NumPy is neither installed nor reachable")
            return 77
        environment = {**os.environ, "PYTHONPATH": str(source / "python")}
        return subprocess.run([python, __file__, source, program, folder / "work", "inside"], env=environment, check=False).returncode
    import numpy as np
    import tessera
    folder.mkdir()
    check_program_path(tessera, program, folder)
    check_values(tessera, np, folder)
    check_message()
    check_train(folder)
    check_metrics(tessera, np, folder)
    check_dataset(tessera, np, program, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Adds an op that nothing names (tests/toy_op/tree) to a copy of the sources, and trains one step with it.

At most nine files may differ: those of the op, and a word each in ir/ops.h and kernels/kernels.h. The copy
is configured as it is, so that its build finds the new sources by itself. Compiled are the modules that see
the list of ops, without optimization; the others are linked from the build that runs this test.

usage: add_toy_op.py SOURCE BUILD OUT
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

SKIPPED = 77
MOST_FILES = 9
JOB_KIB = 1536 * 1024  # memory that one compiler may use
MODULES = ("ir", "model", "compile", "runtime")  # that see the list of ops
# The kernels that are new, the table of them, and what stands in for a GPU.
OTHERS = ("src/kernels/cpu/softsign.cc", "src/kernels/cpu/backend.cc", "src/kernels/gpu/absent.cc",
          "src/comm/gpu/absent.cc", "src/tensor/gpu/absent.cc")
LISTS = {  # a word each, before a line that is there
    "src/ir/ops.h": [("#include \"ir/ops/step.h\"", "#include \"ir/ops/softsign.h\""),
                     ("                         Sum, ", "                         Softsign, SoftsignGrad,")],
    "src/kernels/kernels.h": [("#include \"kernels/sum.h\"", "#include \"kernels/softsign.h\""),
                              ("                         SumArgs, ", "                         SoftsignArgs, SoftsignGradArgs,")],
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {shlex.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def copy_with_op(source, tree):
    """Returns the paths of the files that differ from the source's."""
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("src", "cmake", "studies", "configs"):
        shutil.copytree(source / folder, tree / folder, ignore=shutil.ignore_patterns("work"))
    shutil.copy(source / "CMakeLists.txt", tree)
    changed = []
    fixture = source / "tests/toy_op/tree"
    for path in sorted(p.relative_to(fixture) for p in fixture.rglob("*") if p.is_file()):
        if (tree / path).exists():
            sys.exit(f"{path} is there already: the op must bring files of its own")
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(fixture / path, tree / path)
        changed.append(path)
    for path, words in LISTS.items():
        text = (tree / path).read_text()
        for before, word in words:
            if text.count(before) != 1:
                sys.exit(f"{path}: expected one line '{before.strip()}'")
            text = text.replace(before, f"{word}\n{before}")
        (tree / path).write_text(text)
        changed.append(path)
    return changed


def compile_command(entry, out):
    """The command of the copy's build, without optimization and debugging information."""
    words = [w for w in shlex.split(entry["command"]) if not re.fullmatch(r"-O\d|-g\d?|-march=\S+", w)]
    words[words.index("-o") + 1] = str(out)
    return words + ["-O0", "-pipe"]


def commands_of(tree, made, unity):
    """[(source, object, entry)] of the copy's build, as paths in the tree and in the build folder."""
    run(["cmake", "-S", str(tree), "-B", str(made), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DTESSERA_TESTS=OFF", f"-DTESSERA_UNITY={unity}", "-DTESSERA_CUDA=OFF"], tree)
    out = []
    for entry in json.loads((made / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        out.append((os.path.relpath(entry["file"], tree), words[words.index("-o") + 1], entry))
    return out


def jobs_at_once():
    """As many as cores and memory allow, as scripts/build.sh does."""
    free = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return max(1, min(len(os.sched_getaffinity(0)), int(free[1]) // JOB_KIB))


def compile_all(tree, made, test):
    """Returns the objects. The modules are compiled in groups of sources, the rest one by one."""
    single = {source: entry for source, _, entry in commands_of(tree, made / "single", "OFF")}
    for path in OTHERS + ("src/ir/ops/softsign.cc", "src/runtime/ops/softsign.cc"):
        if path not in single:
            # Without CUDA the build has absent.cc; a new source is found by its folder.
            sys.exit(f"the build does not compile {path}")
    wanted = [(path, single[path]) for path in OTHERS]
    wanted += [(made_object, entry) for _, made_object, entry in commands_of(tree, made / "groups", "ON")
               if made_object.split("/")[1] in MODULES]
    folder = made / "objects"
    folder.mkdir()
    objects, jobs = [], []
    for name, entry in wanted:
        objects.append(folder / (name.replace("/", "_") + ".o"))
        jobs.append((compile_command(entry, objects[-1]), entry["directory"]))
    like = single["src/runtime/binding.cc"]
    objects.append(folder / "test.o")
    command = compile_command(like, objects[-1])
    command[command.index("-c") + 1] = str(tree / test)
    jobs.insert(0, (command + [f"-I{tree}"], like["directory"]))  # first, since it is the likeliest to fail
    with concurrent.futures.ThreadPoolExecutor(jobs_at_once()) as pool:
        list(pool.map(lambda job: run(*job), jobs))
    return objects


def link_command(build, objects, program):
    """That of a test which has all of these modules, with their archives replaced by the new objects."""
    lines = run(["ninja", "-t", "commands", "-s", "tests/compile/shard_test"], build).splitlines()
    words = shlex.split(lines[-1].split(" && ")[1])
    archives = [f"libtessera_{module}.a" for module in MODULES]
    keep = [w for w in words if not w.endswith(".o") and pathlib.Path(w).name not in archives]
    keep[keep.index("-o") + 1] = str(program)
    # Before all archives, so that none of these has another copy linked.
    return keep[:1] + [str(o) for o in objects] + ["-lstdc++"] + keep[1:]


def main():
    source, build, out = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    if not (build / "build.ninja").exists() or not shutil.which("ninja"):
        skip("the link line of a test is read from Ninja's build file, and this build has none")
    out.mkdir(parents=True, exist_ok=True)
    tree, made = out / "tree", out / "build"
    changed = copy_with_op(source, tree)
    print(f"{len(changed)} files: {' '.join(map(str, changed))}")
    if len(changed) > MOST_FILES:
        sys.exit(f"an op is {MOST_FILES} files at most")
    shutil.copytree(source / "tests/compile", tree / "tests/compile",
                    ignore=shutil.ignore_patterns("golden", "*.cc"))
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    objects = compile_all(tree, made, "tests/ops/softsign.cc")
    program = out / "trains_softsign"
    run(link_command(build, objects, program), build)
    print(run([str(program)], out), end="")


if __name__ == "__main__":
    main()

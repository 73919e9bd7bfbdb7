#!/usr/bin/env python3
"""Our training speed over the best of PyTorch's modes, on this machine, in turns.

    scripts/bench_peers.sh [--turns 3] [--family neox|qwen3|mixtral] [--shape 4x512 …]
                           [--precision fp32|bf16] [--json FILE]
    scripts/bench_peers.sh --ranks 2     ZeRO 1 and DDP, ZeRO 3 and FSDP2, over gloo

Each turn runs ours once and every mode of PyTorch once (eager and compiled, whole logits and chunked
loss), with the same threads, shapes and text. Printed are ratios of medians over the turns: tokens/s
of ours to PyTorch's fastest mode, peak memory to that of its leanest, and the time from the start of
the process to the end of its first step to its quickest. A mode that fails or does not end in time
is named and left out. bf16 runs only where the CPU multiplies bf16.

With --ranks, the shape is the batch of all ranks, each of one thread, in fp32; memory is that of the
largest process.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

VOCABULARY = 50304
SHAPES = ("4x512", "1x2048", "16x128", "4x512@520")  # BATCHxTOKENS, of a model of another width
WIDTHS = {512: (6, 512, 8), 520: (6, 520, 13)}  # layers, hidden, heads: Pythia-70M, and near it
# Further keys of `model`: groups of heads with a key each, and the inner width of the MLP or of an expert.
FAMILIES = {"neox": "", "qwen3": "kv_heads: {keys}, feed_forward: {inner},",
            "mixtral": "kv_heads: {keys}, feed_forward: {inner}, experts: 8, experts_per_token: 2,"}
SETTLED_AFTER = 3  # number of our steps
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
RANK_PAIRS = {"ddp": 1, "fsdp2": 3}  # the stage of ZeRO that divides as much


class Case:
    def __init__(self, family, shape, precision, threads, ranks=1):
        size, _, width = shape.partition("@")
        self.batch, self.tokens = map(int, size.split("x"))
        self.layers, self.hidden, self.heads = WIDTHS[int(width or 512)]
        self.family, self.precision, self.threads, self.ranks = family, precision, threads, ranks
        if self.batch % ranks:
            raise SystemExit(f"--shape {shape}: {self.batch} sequences do not divide by {ranks} ranks")
        self.name = f"{family}, {self.hidden} wide, {self.batch} x {self.tokens}, {precision}"

    def model(self):
        """The section `model` of our run file."""
        more = FAMILIES[self.family].format(keys=self.heads // 2, inner=2 * self.hidden)
        return (f"{{ family: {self.family}, layers: {self.layers}, hidden: {self.hidden}, "
                f"heads: {self.heads}, {more} vocabulary: {VOCABULARY}, context: {max(2048, self.tokens)} }}")


def measured(command, threads, timeout, on_wait=None):
    """Runs it; (started at, output, peak resident bytes), or None where it fails or takes too long."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.time()
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, env=environment,
                                   start_new_session=True)
        status = None
        while status is None:
            pid, code, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                status = code
            elif time.time() - started > timeout:
                os.killpg(process.pid, signal.SIGKILL)
                os.wait4(process.pid, 0)
                return None, f"not done after {timeout} s"
            else:
                if on_wait:
                    on_wait()
                time.sleep(0.005)
        process.returncode = status
        for f in (out, err):
            f.seek(0)
        if status != 0:
            return None, err.read().decode(errors="replace").strip().splitlines()[-1:]
        return (started, out.read().decode(), usage.ru_maxrss * 1024), None


def run_peer(options, case, compiled, chunked):
    command = [sys.executable, beside("bench_peer_step.py"), *sizes(options, case),
               "--precision", case.precision]
    command += ["--compile"] * compiled + ["--chunked"] * chunked
    name = f"{'compiled' if compiled else 'eager'}, {'chunked' if chunked else 'whole'} loss"
    return name, peer_result(options, case, command, name)


def run_rank_peer(options, case, kind):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node", case.ranks, beside("bench_peer_rank.py"),
               *sizes(options, case), "--kind", kind]
    return peer_result(options, case, command, kind)


def beside(name):
    return pathlib.Path(__file__).with_name(name)


def sizes(options, case):
    return ["--model", config_folder(options, case), "--batch", case.batch // case.ranks,
            "--tokens", case.tokens, "--steps", options.peer_steps,
            "--bin", options.work / "train.bin"]


def peer_result(options, case, command, name):
    result, problem = measured(command, case.threads, options.timeout)
    if result is None:
        print(f"    PyTorch {name}: left out ({problem})", flush=True)
        return None
    started, output, memory = result
    answer = json.loads(output.splitlines()[-1])
    return {"tokens_per_s": answer["tokens_per_s"], "memory_bytes": memory,
            "first_step_s": answer["first_step_at"] - started}


def config_folder(options, case):
    """A folder with the config.json of our model, for transformers."""
    folder = options.work / f"{case.family}-{case.hidden}-{case.tokens}"
    if not folder.exists():
        run = write_run(options, case, 0)
        for command in (["train", run, "schedule.steps=0", "schedule.warmup_steps=0", "layout.data=1"],
                        ["checkpoint", "export", run.parent / "run", "--to", folder]):
            subprocess.run([options.tessera, *command], check=True, stdout=subprocess.DEVNULL)
    return folder


def write_run(options, case, zero):
    """The run file of our training, in a folder of its own."""
    work = options.work
    directory = pathlib.Path(tempfile.mkdtemp(dir=work))
    run = directory / "run.yaml"
    run.write_text(f"""\
run: {{ name: bench, directory: {directory / 'run'}, seed: 1, threads: {case.threads} }}
model: {case.model()}
data: {{ tokenizer: {work / 'tokenizer.json'}, train: [{work / 'train'}],
        sequence_length: {case.tokens} }}
batch: {{ global: {case.batch}, micro: {case.batch // case.ranks} }}
layout: {{ data: {case.ranks}, zero: {zero} }}
optimizer: {{ kind: adamw, learning_rate: 1.0e-3, weight_decay: 0.1, clip_norm: 1.0 }}
schedule: {{ kind: cosine, steps: {options.steps}, warmup_steps: 2, min_lr_ratio: 0.1 }}
precision: {case.precision}
checkpoint: {{ every_steps: 0 }}
""")
    return run


def run_ours(options, case, zero=0):
    run = write_run(options, case, zero)
    directory = run.parent
    metrics = directory / "run" / "metrics.jsonl"
    seen = []

    def watch():
        if not seen and metrics.exists() and metrics.stat().st_size > 0:
            seen.append(time.time())

    start = [*MPIRUN, "-n", case.ranks] if case.ranks > 1 else []
    result, problem = measured([*start, options.tessera, "train", run], case.threads,
                               options.timeout, watch)
    if result is None:
        raise SystemExit(f"ours failed: {problem}")
    started, _, memory = result
    lines = [json.loads(l) for l in metrics.read_text().splitlines()]
    rates = [l["tokens_per_s"] for l in lines if "loss" in l and l["step"] > SETTLED_AFTER]
    return {"tokens_per_s": statistics.median(rates), "memory_bytes": memory,
            "first_step_s": seen[0] - started,
            "model_flops_share": statistics.median(l["model_flops_share"] for l in lines if "loss" in l)}


def median_of(runs, key):
    return statistics.median(r[key] for r in runs)


def compare(options, case):
    ours, theirs = [], {}
    for turn in range(options.turns):
        ours.append(run_ours(options, case))
        for compiled in (False, True):
            for chunked in (False, True):
                if compiled and options.no_compile:
                    continue
                name, result = run_peer(options, case, compiled, chunked)
                if result:
                    theirs.setdefault(name, []).append(result)
    for name, runs in theirs.items():
        print(f"    PyTorch {name}: {median_of(runs, 'tokens_per_s'):.0f} tok/s, "
              f"{median_of(runs, 'memory_bytes') / 2**30:.2f} GiB, "
              f"first step after {median_of(runs, 'first_step_s'):.1f} s")
    if not theirs:
        raise SystemExit("no mode of PyTorch ran: nothing to compare with")
    fastest = max(theirs, key=lambda n: median_of(theirs[n], "tokens_per_s"))
    return told(case.name, ours, theirs, fastest)


def told(name, ours, theirs, fastest):
    """Prints the ratios of our runs to the best of theirs, {mode: runs}; all of it as a dictionary."""
    lines = {}
    for key, best in (("tokens_per_s", max), ("memory_bytes", min), ("first_step_s", min)):
        lines[key] = (median_of(ours, key), best(median_of(r, key) for r in theirs.values()))
    ratio = {key: mine / peer for key, (mine, peer) in lines.items()}
    rate, memory, first = (lines[k] for k in ("tokens_per_s", "memory_bytes", "first_step_s"))
    print(f"  {name}: {ratio['tokens_per_s']:.2f}x tokens/s ({rate[0]:.0f} to {rate[1]:.0f}, {fastest}), "
          f"{ratio['memory_bytes']:.2f}x memory ({memory[0] / 2**30:.2f} to {memory[1] / 2**30:.2f} GiB), "
          f"{ratio['first_step_s']:.2f}x to the first step ({first[0]:.1f} to {first[1]:.1f} s), "
          f"{100 * median_of(ours, 'model_flops_share'):.0f} % of the matrix rate", flush=True)
    return {"case": name, "fastest_peer": fastest, "ratio": ratio, "ours": ours, "peers": theirs}


def compare_ranks(options, case):
    ours, theirs = {}, {}
    for _ in range(options.turns):
        for kind, zero in RANK_PAIRS.items():
            ours.setdefault(kind, []).append(run_ours(options, case, zero))
            result = run_rank_peer(options, case, kind)
            if result:
                theirs.setdefault(kind, []).append(result)
    if not theirs:
        raise SystemExit("no mode of PyTorch ran: nothing to compare with")
    return [told(f"{case.name}, {case.ranks} ranks, ZeRO {RANK_PAIRS[kind]}", ours[kind],
                 {kind: runs}, kind) for kind, runs in theirs.items()]


def multiplies_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera")
    parser.add_argument("--text", required=True)
    parser.add_argument("--family", choices=tuple(FAMILIES), default="neox")
    parser.add_argument("--shape", action="append", help="default: " + " ".join(SHAPES))
    parser.add_argument("--precision", action="append", choices=("fp32", "bf16"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="number of our steps")
    parser.add_argument("--peer-steps", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1, help="2 or more: DDP and FSDP2 next to ZeRO")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=int, default=600, help="seconds a run")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    precisions = options.precision or ["fp32"] + ["bf16"] * multiplies_bf16()
    results = []
    with tempfile.TemporaryDirectory() as work:
        options.work = pathlib.Path(work)
        tokenizer = options.work / "tokenizer.json"
        subprocess.run([options.tessera, "tokenizer", "train", "--vocabulary", "8192", "--out",
                        tokenizer, options.text], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([options.tessera, "data", "build", "--tokenizer", tokenizer, "--out",
                        options.work / "train", options.text], check=True, stdout=subprocess.DEVNULL)
        if options.ranks > 1:
            print(f"{options.ranks} ranks of one thread, {options.turns} turns")
            for shape in options.shape or SHAPES[:1]:
                results += compare_ranks(options, Case(options.family, shape, "fp32", 1, options.ranks))
            precisions = []
        else:
            print(f"{options.threads} threads, {options.turns} turns; "
                  "ratios of ours to the best of PyTorch")
        for precision in precisions:
            for shape in options.shape or SHAPES:
                results.append(compare(options, Case(options.family, shape, precision, options.threads)))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Tables of published runs: each row is the keys of a run file, predicted by build/studies/plan_rows."""
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).parent.parent
PROGRAM = "build/studies/plan_rows"


class Rows:
    """One process that has compiled the rows and simulates them again for each set of figures."""

    def __init__(self, run, cluster, software, keys, name=""):
        self.keys, self.run, self.cluster, self.software = keys, run, cluster, software
        self.path = pathlib.Path(run).parent / f".rows-{name or pathlib.Path(run).stem}.txt"
        self.path.write_text("".join(k + "\n" for k in keys))
        self.process = None  # compiles the rows when it is first asked for times

    def command(self):
        if not (ROOT / PROGRAM).exists():
            raise SystemExit(f"{PROGRAM} is missing: ninja -C build plan_rows")
        return [PROGRAM, self.run, f"configs/clusters/{self.cluster}.yaml",
                f"configs/software/{self.software}.yaml", self.path]

    def seconds(self, figures):
        """Step times with figures replaced: {"device.matrix_efficiency": 0.8}."""
        if self.process is None:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.process.stdin.write(" ".join(f"{k}={v:.6g}" for k, v in figures.items()) + "\n")
        self.process.stdin.flush()
        out = [float(x) for x in self.process.stdout.readline().split()]
        if len(out) != len(self.keys):
            raise RuntimeError(f"{self.run}: {len(out)} of {len(self.keys)} rows")
        return out

    def predictions(self):
        """What `tessera plan --json` says of each row, with the figures of the files."""
        done = subprocess.run([*self.command(), "--json"], capture_output=True, text=True, cwd=ROOT,
                              check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        self.path.unlink()


def fit(loss, constants, rounds=5, step=0.12):
    """Coordinate descent with steps that shrink. constants: {key: (start, least, most)}."""
    values = {k: v[0] for k, v in constants.items()}
    best = loss(values)
    for _ in range(rounds):
        for name, (_, least, most) in constants.items():
            for factor in (1 + step, 1 / (1 + step)):
                while True:
                    trial = dict(values)
                    trial[name] = min(max(values[name] * factor, least), most)
                    now = loss(trial) if trial[name] != values[name] else best
                    if now >= best - 1e-6:
                        break
                    values, best = trial, now
        step /= 2.2
    return values, best


def summary(errors):
    e = [abs(x) for x in errors]
    return (f"{len(e):4} rows  mean {statistics.mean(e):5.2f} %  median "
            f"{statistics.median(e):5.2f}  worst {max(e):5.1f}")

"""Training on hosts that are network namespaces of this machine, with links of a limited rate."""
import json
import statistics
import subprocess

import small_runs

NODES, STAGES, STEPS, WARM = (2, 4), (0, 1, 2, 3), 8, 2
SENTINELS, VOCABULARY, MEGABYTES = 100, 2048, 4
# Twins of mT5: as deep as wide, one weight in three to four in layers, fp32.
SIZES = {"0.8M": dict(layers=2, encoder_layers=2, hidden=96, heads=2, feed_forward=192),
         "2.9M": dict(layers=4, encoder_layers=4, hidden=160, heads=4, feed_forward=320)}


class Hosts:
    """tests/cluster/hosts.sh in a shell that stays."""

    def __init__(self, count):
        self.shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, cwd=small_runs.ROOT)
        self.ask(". tests/cluster/hosts.sh")
        if (why := self.ask('hosts_possible && why=; echo "$why"')):
            raise SystemExit(f"no emulated hosts here: {why}")
        self.count = count
        self.ask(f"hosts_up {count}")
        self.folder, self.net, self.mpi = (self.ask(f'echo "${v}"')
                                           for v in ("hosts_folder", "hosts_net", "hosts_mpi"))

    def ask(self, command):
        """What the command prints, of which only one line may be wanted."""
        self.shell.stdin.write(f"{command}; echo; echo over\n")
        self.shell.stdin.flush()
        lines = []
        while (line := self.shell.stdout.readline()) not in ("over\n", ""):
            lines.append(line.strip())
        return "\n".join(x for x in lines if x)

    def limit(self, rate):
        self.ask(f"hosts_limit {rate}mbit")

    def sent(self):
        return [int(self.ask(f"hosts_bytes n0{i}")) for i in range(1, self.count + 1)]

    def close(self):
        self.shell.stdin.close()
        self.shell.wait()


def sections(study, size, nodes, zero):
    """Weak scaling: two micro-batches of two sequences a rank, whatever the number of ranks."""
    return {
        "run": {"seed": 1, "threads": 1},
        "model": {"family": "t5", "head_width": 32, "context": 128, "vocabulary_multiple": 1}
        | SIZES[size],
        "data": {"tokenizer": str(study.work / "tokenizer.model"),
                 "train": [str(study.work / "train")], "sequence_length": 128,
                 "objective": "span_corruption"},
        "batch": {"global": 4 * nodes, "micro": 2},
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"kind": "constant", "steps": STEPS},
        "precision": "fp32",
        "layout": {"data": nodes, "zero": zero},
        "checkpoint": {"every_steps": 0},
        "metrics": {"validate_every_steps": 0, "tensorboard": False},
    }


def launch(study, hosts, run, nodes):
    """One rank a host. Returns the bytes that each host sent."""
    file = study.work / "hosts.txt"
    file.write_text("".join(f"n0{i} slots=1\n" for i in range(1, nodes + 1)))
    before = hosts.sent()
    study.tessera("launch", run, "-n", nodes, "--hosts", file, "--address", f"{hosts.net}.1",
                  "--heartbeat-timeout", 60, "--launcher-args", hosts.mpi)
    return [b - a for a, b in zip(before, hosts.sent())][:nodes]


def kept(study, size, nodes, zero, rate):
    return study.work / f"{size}-{nodes}x-zero{zero}-{rate}.json"


def measure(study, hosts, size, nodes, zero, rate):
    done = kept(study, size, nodes, zero, rate)
    if done.exists():
        return json.loads(done.read_text())
    run = study.run_file(done.stem, sections(study, size, nodes, zero))
    print(f"training {done.stem}", flush=True)
    hosts.limit(rate)
    sent = launch(study, hosts, run, nodes)
    steps = small_runs.Curve(study.work / done.stem).steps[WARM:]
    program = json.loads(study.tessera("compile", run, "--json"))
    row = {"size": size, "nodes": nodes, "zero": zero, "rate_mbit": rate,
           "step_s": statistics.median(r["step_s"] for r in steps),
           "quickest_s": min(r["step_s"] for r in steps),
           "exposed_s": statistics.median(r.get("communication_exposed_s", 0) for r in steps),
           "bytes_step": sum(steps[-1].get("bytes_sent", {}).values()) / nodes,
           "link_bytes_step": max(sent) / STEPS, "state_bytes": program["state_bytes"],
           "arena_bytes": program["arena_bytes"]}
    done.write_text(json.dumps(row))
    return row


def measured(study, rates):
    study.corpus(VOCABULARY, MEGABYTES, "unigram", "--sentinels", SENTINELS)
    cases = [(s, n, z, r) for r in rates for s in SIZES for n in NODES for z in STAGES]
    hosts = None
    if any(not kept(study, *case).exists() for case in cases):
        hosts = Hosts(max(NODES))
    try:
        return [measure(study, hosts, *case) for case in cases]
    finally:
        if hosts:
            hosts.close()

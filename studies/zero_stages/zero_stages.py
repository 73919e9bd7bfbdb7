#!/usr/bin/env python3
"""mT5 sizes x ZeRO 0-3 x nodes: time, bytes and memory of a step; and the way of the data.

usage: studies/zero_stages/zero_stages.py [simulated] [measured] [data] [--work FOLDER] [--rates MBIT…]
Writes *.csv and *.svg beside this file. Needs build/tessera and ninja -C build plan_rows data_rates;
`measured` needs root, for network namespaces.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import data_stages  # noqa: E402
import emulated  # noqa: E402
import small_runs  # noqa: E402
import table  # noqa: E402

SIZES = {"mt5-small": 0.3, "mt5-base": 0.58, "mt5-large": 1.2, "mt5-xl": 3.7, "mt5-xxl": 12.9}  # 1e9
NODES, STAGES, DEVICES, SEQUENCES_A_DEVICE = (1, 2, 4, 8), (0, 1, 2, 3), 8, 16
# How a row may be run: the largest micro-batch first; the fastest that fits stands in the table.
WAYS = [(8, "none"), (4, "none"), (4, "full"), (1, "full")]
NETWORKS = {"8 x 200 Gbit/s": {}, "1 x 100 Gbit/s": {
    "network.bytes_per_s": 12.5e9, "network.adapters": 1, "network.efficiency": 0.8}}
GIB = 2 ** 30


def keys(size, zero, nodes, micro, recompute):
    data = nodes * DEVICES
    return (f"model.preset={size} layout.data={data} layout.zero={zero} layout.recompute={recompute} "
            f"batch.global={SEQUENCES_A_DEVICE * data} batch.micro={micro}")


def simulated():
    """Weak scaling: each device has the same number of sequences at any number of nodes."""
    out = []
    for size in SIZES:
        cases = [(z, n, m, r) for z in STAGES for n in NODES for m, r in WAYS]
        rows = table.Rows(str(HERE / "mt5.yaml"), "a100-80gb", "tessera",
                          [keys(size, *c) for c in cases], size)
        predictions = rows.predictions()
        seconds = {name: rows.seconds(figures) for name, figures in NETWORKS.items()}
        rows.close()
        for network, times in seconds.items():
            for zero in STAGES:
                for nodes in NODES:
                    of = [(t, p, c) for t, p, c in zip(times, predictions, cases)
                          if c[:2] == (zero, nodes)]
                    fit = [x for x in of if x[1]["fits"]]
                    least = min(p["memory"]["peak_bytes"] for _, p, _ in of)
                    time, best, case = min(fit, key=lambda x: x[0]) if fit else (None, None, None)
                    out.append([size, network, zero, nodes, f"{time:.4f}" if fit else "",
                                f"{(best['memory']['peak_bytes'] if fit else least) / GIB:.1f}",
                                *(case[2:] if fit else ("", "does not fit"))])
        print(f"simulated {size}", flush=True)
    small_runs.write_csv(HERE / "simulated.csv", [
        "model", "network", "zero", "nodes", "step_s", "peak_gib", "micro", "recompute"], out)
    return out


def simulated_picture(rows):
    panels = [chart.Panel(f"{size}, {network}", "nodes of 8 A100", "seconds a step", {
        f"ZeRO {z}": [(r[3], float(r[4])) for r in rows
                      if r[:3] == [size, network, z] and r[4]] for z in STAGES}, log_x=True,
        marks=True)
        for size in ("mt5-base", "mt5-xxl") for network in NETWORKS]
    chart.draw(HERE / "simulated.svg", panels)


def measured(study, rates):
    rows = emulated.measured(study, rates)
    small_runs.write_csv(HERE / "measured.csv", [
        "model", "nodes", "zero", "rate_mbit", "step_s", "quickest_s", "exposed_s",
        "megabytes_sent_a_rank_and_step", "megabytes_of_the_busiest_link_a_step", "state_mib",
        "arena_mib"], [
        [r["size"], r["nodes"], r["zero"], r["rate_mbit"], f"{r['step_s']:.3f}",
         f"{r['quickest_s']:.3f}", f"{r['exposed_s']:.3f}", f"{r['bytes_step'] / 1e6:.2f}",
         f"{r['link_bytes_step'] / 1e6:.2f}", f"{r['state_bytes'] / 2**20:.2f}",
         f"{r['arena_bytes'] / 2**20:.2f}"] for r in rows])
    times = {f"seconds a step, {rate} Mbit/s": ([r for r in rows if r["rate_mbit"] == rate],
                                                lambda r: r["step_s"]) for rate in rates}
    arena = {"arena of a rank, MiB": (times[f"seconds a step, {rates[0]} Mbit/s"][0],
                                      lambda r: r["arena_bytes"] / 2**20)}
    panels = [chart.Panel(f"{size} on hosts of one rank", "hosts", title, {
        f"ZeRO {z}": [(r["nodes"], value(r)) for r in of if r["size"] == size and r["zero"] == z]
        for z in STAGES}, marks=True)
        for size in emulated.SIZES for title, (of, value) in (times | arena).items()]
    chart.draw(HERE / "measured.svg", panels, across=1 + len(rates))


def data(study):
    study.corpus(emulated.VOCABULARY, emulated.MEGABYTES, "unigram", "--sentinels",
                 emulated.SENTINELS)
    encoded, megabytes_a_token = data_stages.encoding(study)
    stages = data_stages.reading(study) + encoded + data_stages.rows(study, megabytes_a_token)
    small_runs.write_csv(HERE / "data.csv", [
        "stage", "workers", "mb_per_s", "mb_per_s_of_a_busy_thread", "tokens_per_s_of_a_busy_thread"],
        stages)
    waits = data_stages.waits(study)
    small_runs.write_csv(HERE / "waits.csv", ["model", "objective", "step_ms", "waits_us",
                                              "waits_percent", "longest_percent"], waits)
    for row in stages + waits:
        print(*row, sep="\t")


def main():
    parser = small_runs.parser(__doc__, "zero_stages")
    parser.add_argument("parts", nargs="*", default=["simulated", "measured", "data"])
    parser.add_argument("--rates", type=int, nargs="*", default=[100, 1000],
                        help="of each emulated link, Mbit/s")
    options = parser.parse_args()
    study = small_runs.Study(options)
    if "simulated" in options.parts:
        simulated_picture(simulated())
    if "measured" in options.parts:
        measured(study, options.rates)
    if "data" in options.parts:
        data(study)


if __name__ == "__main__":
    main()

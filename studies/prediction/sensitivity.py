#!/usr/bin/env python3
"""What each constant of a machine and its software is worth: all predictions with it moved by 10 %.

usage: studies/prediction/sensitivity.py TABLES

One line a constant and table: by how much the predicted step times change in the mean when it is 10 %
lower, and what the mean error becomes then and when it is 10 % higher (a share at most 1).
TABLES as for predict.py.
Writes sensitivity.csv beside this file and the table of constants in docs/prediction.md.
Needs: ninja -C build plan_rows
"""
import csv
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent, HERE.parent / "frontier", HERE.parent / "trainium", HERE):
    sys.path.insert(0, str(folder))
import frontier  # noqa: E402
import predict  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402
import trainium  # noqa: E402

FIGURES = ["device.bf16_flops_per_s", "device.matrix_efficiency", "device.memory_bytes_per_s",
           "device.memory_efficiency", "device.attention_efficiency", "device.processors",
           "device.kernel_s", "node.bytes_per_s", "node.package_bytes_per_s", "node.efficiency",
           "node.latency_s", "network.bytes_per_s", "network.adapters", "network.efficiency",
           "network.latency_s", "software.launch_s"]
WHOLE = {"device.processors", "network.adapters"}


def a100(folder):
    for name, entries in rows.tables(folder).items():
        yield ("a100-80gb", predict.Table(name, entries), [m for _, m, _ in entries])


def frontier_rows():
    t = frontier.rows_of([frontier.keys(*r[1:7]) for r in frontier.RUNS])
    t.name = "frontier"
    work = [p["flops"]["counter"] / p["devices"] / 1e12 for p in t.predictions()]
    return "mi250x-frontier", t, [w / r[7] for w, r in zip(work, frontier.RUNS)]


def trainium_rows():
    t = trainium.rows_of([trainium.keys(*r[:5]) for r in trainium.ROWS])
    t.name = "trainium"
    return "trn1", t, [r[4] / r[5] for r in trainium.ROWS]


def read_figures(path, prefix=""):
    """The figures of a cluster or software file: {"device.kernel_s": (2e-6, "where it is from")}."""
    found, section = {}, ""
    for line in path.read_text().splitlines():
        words, _, comment = line.partition("#")
        if ":" not in words:
            continue
        key, value = (w.strip() for w in words.split(":", 1))
        if not words.startswith(" "):
            section = key + "." if not value else ""
        try:
            found[prefix + section + key] = (float(value), comment.strip())
        except ValueError:
            pass
    return found


def moved(figure, value, factor):
    value *= factor
    if figure.endswith("efficiency"):
        return min(value, 1.0)
    return round(value) if figure in WHOLE else value


def errors(seconds, measured):
    return statistics.mean(abs(100 * (s / m - 1)) for s, m in zip(seconds, measured))


def figures_of(cluster, software):
    configs = table.ROOT / "configs"
    return {**read_figures(configs / "clusters" / f"{cluster}.yaml"),
            **read_figures(configs / "software" / f"{software}.yaml", "software.")}


def lines_of(cluster, t, measured):
    known = figures_of(cluster, t.software)
    now = t.seconds({})
    for figure in FIGURES:
        value, source = known.get(figure, (0, ""))
        if not value:
            continue
        up, down = (t.seconds({figure: moved(figure, value, f)}) for f in (1.1, 0.9))
        change = 100 * (statistics.mean(d / n for d, n in zip(down, now)) - 1)
        yield dict(cluster=cluster, table=t.name, constant=figure, value=f"{value:g}",
                   source=source, time_at_minus_10_percent=f"{change:+.1f}",
                   mean_error_percent=f"{errors(now, measured):.2f}",
                   error_at_plus_10=f"{errors(up, measured):.2f}",
                   error_at_minus_10=f"{errors(down, measured):.2f}")


def write_docs(lines):
    """One row a constant: how much longer steps take with 10 % less of it, by table."""
    path = table.ROOT / "docs" / "prediction.md"
    text = path.read_text()
    begin, end = (text.index(f"<!-- {w} of the constants -->") for w in ("begin", "end"))
    out = "<!-- begin of the constants -->\n"
    for cluster in dict.fromkeys(line["cluster"] for line in lines):
        mine = [line for line in lines if line["cluster"] == cluster]
        names = list(dict.fromkeys(line["table"] for line in mine))
        out += f"\n`{cluster}`:\n\n| constant | value | source | {' | '.join(names)} |\n"
        out += "|---" * (3 + len(names)) + "|\n"
        for constant in dict.fromkeys(line["constant"] for line in mine):
            of = {line["table"]: line for line in mine if line["constant"] == constant}
            any_of = next(iter(of.values()))
            cells = [of[n]["time_at_minus_10_percent"] if n in of else "" for n in names]
            out += (f"| `{constant}` | {any_of['value']} | {any_of['source']} | "
                    f"{' | '.join(cells)} |\n")
    path.write_text(text[:begin] + out + "\n" + text[end:])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = []
    for cluster, t, measured in (*a100(sys.argv[1]), frontier_rows(), trainium_rows()):
        for line in lines_of(cluster, t, measured):
            lines.append(line)
            print("  ".join(f"{w:>12}" for k, w in line.items() if k != "source"), flush=True)
        t.close()
    with open(HERE / "sensitivity.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    write_docs(lines)


if __name__ == "__main__":
    main()

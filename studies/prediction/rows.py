"""The rows of the three public A100 tables, each as the keys of a run file (over megatron.yaml)."""
import csv
import pathlib

HERE = pathlib.Path(__file__).parent

# Korthikanti et al. 2022, tables 3 and 5: layers, hidden, heads, TP, PP, interleave, batch, micro,
# seconds with full recomputation and with sequence parallelism and selective recomputation.
KORTHIKANTI = [
    ("22B", 48, 6144, 64, 8, 1, 1, 4, 4, 1.42, 1.10),
    ("175B", 96, 12288, 96, 8, 8, 3, 64, 1, 18.13, 13.75),
    ("530B", 105, 20480, 128, 8, 35, 3, 280, 1, 49.05, 37.83),
    ("1T", 128, 25600, 160, 8, 64, 1, 512, 1, 94.42, 71.49),
]


def keys(layers, hidden, heads, sequence, tensor, pipeline, data, batch, micro, interleave=1,
         recompute="full", sequence_parallel="false"):
    chunks = pipeline * interleave
    if layers % chunks:
        raise ValueError(f"{layers} layers on {chunks} chunks")
    schedule = "interleaved_1f1b" if interleave > 1 else "1f1b"
    stages = ",".join(str(layers // chunks) for _ in range(chunks))
    return (f"model.layers={layers} model.hidden={hidden} model.heads={heads} "
            f"model.context={sequence} data.sequence_length={sequence} layout.tensor={tensor} "
            f"layout.pipeline={pipeline} layout.data={data} layout.interleave={interleave} "
            f"layout.pipeline_schedule={schedule} layout.stages=[{stages}] batch.global={batch} "
            f"batch.micro={micro} layout.recompute={recompute} "
            f"layout.sequence_parallel={sequence_parallel}")


def korthikanti():
    for name, layers, hidden, heads, t, p, v, batch, micro, full, selective in KORTHIKANTI:
        yield (f"{name} full", full,
               keys(layers, hidden, heads, 2048, t, p, 1, batch, micro, v))
        yield (f"{name} selective", selective,
               keys(layers, hidden, heads, 2048, t, p, 1, batch, micro, v, "selective", "true"))


def table(path):
    for number, row in enumerate(csv.DictReader(open(path))):
        get = lambda name: int(row[name])
        t, p, d = (get(f"{a} parallelism") for a in ("tensor", "pipeline", "data"))
        yield (f"row {number} t{t} p{p} d{d} b{row['micro batch']} L{row['# layers']} "
               f"h{row['hidden size']}",
               float(row["iteration time (ms)"]) / 1e3,
               keys(get("# layers"), get("hidden size"), get("attention heads"),
                    get("sequence length"), t, p, d, get("global batch"), get("micro batch")))


def tables(folder):
    """{name: [(row, measured seconds, keys)]}; `folder` has the two CSV tables, None: without them."""
    if folder is None:
        return {"korthikanti": list(korthikanti())}
    folder = pathlib.Path(folder)
    return {
        "korthikanti": list(korthikanti()),
        "multi_node": list(table(folder / "a100_megatron_deepspeed_multi_node.csv")),
        "single_node": list(table(folder / "a100_megatron_deepspeed_single_node.csv")),
    }

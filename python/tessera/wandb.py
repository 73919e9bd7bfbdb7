"""Writes the metrics of a run to Weights & Biases: python -m tessera.wandb RUN --project PROJECT [--offline]

Needs the package wandb. The names are those of the run's TensorBoard files. With --offline nothing is sent: wandb
writes a folder below the run directory, which `wandb sync` sends later.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import warnings
from typing import Any, Iterator

from tessera.lines import read_lines

# Key of metrics.jsonl: name in TensorBoard, as in docs/metrics.md.
TAGS = {
    "tokens": "train/tokens",
    "loss": "train/loss",
    "z_loss": "train/z_loss",
    "mtp_loss": "train/mtp_loss",
    "grad_norm": "train/grad_norm",
    "noise_scale": "train/noise_scale",
    "learning_rate": "train/learning_rate",
    "loss_scale": "train/loss_scale",
    "skipped": "train/skipped",
    "step_s": "throughput/step_s",
    "data_s": "throughput/data_s",
    "tokens_per_s": "throughput/tokens_per_s",
    "model_flops_per_s": "throughput/model_flops_per_s",
    "model_flops_share": "throughput/model_flops_share",
    "resident_bytes": "memory/resident_bytes",
    "communication_hidden_s": "communication/hidden_s",
    "communication_exposed_s": "communication/exposed_s",
    "bubble_share": "communication/bubble_share",
    "bytes_sent.{axis}": "communication/bytes_sent/{axis}",
    "slowest_rank": "communication/slowest_rank",
    "slowest_over_mean": "communication/slowest_over_mean",
    "router_loss": "experts/router_loss",
    "busiest_expert": "experts/busiest_expert",
    "load_entropy": "experts/load_entropy",
    "dropped_share": "experts/dropped_share",
    "rewards_chosen": "rewards/chosen",
    "rewards_rejected": "rewards/rejected",
    "rewards_margins": "rewards/margins",
    "rewards_accuracies": "rewards/accuracies",
    "logps_chosen": "logps/chosen",
    "logps_rejected": "logps/rejected",
    "kl": "kl",
    "nll_loss": "nll_loss",
    "source_loss": "train/source_loss/{source}",
    "source_tokens": "train/source_tokens/{source}",
    "validation_loss": "validation/loss/{dataset}",
    "bits_per_byte": "validation/bits_per_byte/{dataset}",
    "validation_rewards_chosen": "validation/rewards/chosen/{dataset}",
    "validation_rewards_rejected": "validation/rewards/rejected/{dataset}",
    "validation_rewards_margins": "validation/rewards/margins/{dataset}",
    "validation_rewards_accuracies": "validation/rewards/accuracies/{dataset}",
    "validation_logps_chosen": "validation/logps/chosen/{dataset}",
    "validation_logps_rejected": "validation/logps/rejected/{dataset}",
    "validation_kl": "validation/kl/{dataset}",
    "validation_nll_loss": "validation/nll_loss/{dataset}",
    "examples": "task/{task}/examples",
    "{metric}": "task/{task}/{metric}",
    "{metric}_error": "task/{task}/{metric}_error",
}


def values_of(line: dict[str, Any]) -> dict[str, float]:
    """Returns the numbers of a line of metrics.jsonl by their names. A number that is null is left out."""
    values = {}
    for key, value in line.items():
        if key == "step" or value is None or isinstance(value, str):
            continue
        if "task" in line:
            values[f"task/{line['task']}/{key}"] = float(value)
        elif isinstance(value, dict):
            for axis, number in value.items():
                values[TAGS[key + ".{axis}"].format(axis=axis)] = float(number)
        elif key in TAGS:
            values[TAGS[key].format(dataset=line.get("name"), source=line.get("source"))] = float(value)
    return values


def read_steps(path: pathlib.Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields each step with all its values, in order. Damaged lines are left out with a warning."""
    steps: dict[int, dict[str, float]] = {}
    for line in read_lines(path):
        steps.setdefault(line["step"], {}).update(values_of(line))
    yield from sorted(steps.items())


def export(directory: pathlib.Path, project: str, offline: bool) -> int:
    """Writes the run as a new run of the project. Returns the number of its steps."""
    import wandb
    import yaml  # a dependency of wandb

    path = directory / "metrics.jsonl"
    if not path.is_file():
        raise ValueError(f"{path}: does not exist. Expected a run directory of tessera train.")
    resolved = directory / "run.resolved.yaml"
    settings = resolved if resolved.is_file() else directory / "run.yaml"
    config = yaml.safe_load(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    name = (config.get("run") or {}).get("name") or directory.resolve().name
    run = wandb.init(project=project, name=name, config=config, dir=str(directory),
                     mode="offline" if offline else "online")
    count = 0
    for step, values in read_steps(path):
        run.log(values, step=step)
        count += 1
    run.finish()
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tessera.wandb", description=__doc__.split(":")[0] + ".")
    parser.add_argument("run", type=pathlib.Path, metavar="RUN", help="run directory")
    parser.add_argument("--project", required=True, help="project of Weights & Biases")
    parser.add_argument("--offline", action="store_true", help="write files only; `wandb sync` sends them later")
    asked = parser.parse_args()
    warnings.showwarning = lambda message, *_: print(f"tessera: warning: {message}", file=sys.stderr)
    try:
        count = export(asked.run, asked.project, asked.offline)
    except (ValueError, OSError) as error:
        print(f"tessera: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"tessera: the package {error.name} is missing. Install it: pip install wandb", file=sys.stderr)
        return 1
    print(f"{count} steps written to the project {asked.project}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

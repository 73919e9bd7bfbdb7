"""Reads a file for Prometheus with promtool, if it is installed, and with the package prometheus_client.

usage: prometheus_parse_test.py SAMPLE FOLDER    (77: skipped, without a network)
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import venv

READ = r"""
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[s.name, s.labels, str(s.value), f.type, f.documentation]
                  for f in text_string_to_metric_families(sys.stdin.read()) for s in f.samples]))
"""


def main():
    sample, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    text = subprocess.run([sample], check=True, capture_output=True, text=True).stdout
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, check=False, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    python = folder / "venv/bin/python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    if subprocess.run([python, "-m", "pip", "install", "--quiet", "prometheus-client"], check=False).returncode:
        print("skipped: prometheus-client cannot be installed from PyPI here")
        return 77
    out = subprocess.run([python, "-c", READ], input=text, check=True, capture_output=True, text=True).stdout
    samples = {(name, labels.get("dataset", labels.get("metric", labels.get("axis", "")))): (labels, float(value), kind, text)
               for name, labels, value, kind, text in json.loads(out)}
    assert len(samples) == sum(not line.startswith("#") for line in text.splitlines()), samples
    for labels, _, kind, documentation in samples.values():
        assert labels["run"] == 'a\\b "c"\nd', labels
        assert kind == "gauge" and documentation.endswith("."), (kind, documentation)
    value = {key: entry[1] for key, entry in samples.items()}
    assert value["tessera_loss", ""] == math.inf and math.isnan(value["tessera_grad_norm", ""])
    assert value["tessera_step", ""] == 8 and value["tessera_sent_bytes", "tensor"] == 2000
    assert value["tessera_validation_loss", "wiki"] == 3.5 and value["tessera_task_standard_error", "accuracy"] == 0.03125
    return 0


if __name__ == "__main__":
    sys.exit(main())

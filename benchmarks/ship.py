"""Makes the directory of an encoder that comes with the package from a pretrained model.

Run as `python -m benchmarks.ship RESULTS/pretrain/v4 ../shared/data/corpus aam/pretrained/v4`, in
the checkout that pretrained it: weights in bf16 without the heads that are not used again, with
the ASVs that it knows, and a manifest of where everything comes from.
"""

import argparse
import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file

from aam.model.sketch import SKETCHED
from aam.model.store import CONFIG, WEIGHTS, load_config, write_tensors
from aam.util.atomic import atomic_path, read_json, write_json

COMMAND = "snakemake --cores 2 --configfile config/corpus.yaml -- {}"
SCORES = ("training_samples", "held_out_samples", "wall_s", "device")
ROW = re.compile(r"\| (\w+) \| (\S+) `([^`]+)`.*?\| `([0-9a-f]{40})` \| ([\w.-]+) \|")
"""A source in the corpus's README: study, repository, path, blob, licence."""


def sources(readme: str) -> list[dict[str, str]]:
    """Return every study of the corpus, with its repository, path, blob and licence."""
    keys = "study", "repository", "path", "blob", "licence"
    return [dict(zip(keys, found, strict=True)) for found in ROW.findall(readme)]


def ship(folder: Path, corpus: Path, target: Path) -> None:
    """Write the directory `target`."""
    config, metrics = load_config(folder / "model"), read_json(folder / "metrics.json")
    studies = sources((corpus / "README.md").read_text(encoding="utf-8"))
    metadata = pd.read_csv(corpus / "metadata.tsv", sep="\t", dtype=str)
    assert {source["study"] for source in studies} == {*metadata["study"]}
    kept = ("encoder.", f"distances.{SKETCHED}.")
    state = load_file(folder / "model" / WEIGHTS)
    small = {
        name: x.to(torch.bfloat16) if x.is_floating_point() else x
        for name, x in state.items()
        if name.startswith(kept)
    }
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with atomic_path(target) as partial:
        partial.mkdir(parents=True)
        write_tensors(partial / WEIGHTS, small)
        write_json(partial / CONFIG, {**config, "distances": [SKETCHED]})
        names = (CONFIG, WEIGHTS)
        manifest = {
            "commit": commit,
            "command": COMMAND.format(folder / "metrics.json"),
            "held_out_samples_of_the_same_studies": {
                name: value
                for name, value in metrics.items()
                if name.startswith(SKETCHED) or name in SCORES
            },
            "sha256": {
                name: hashlib.sha256((partial / name).read_bytes()).hexdigest() for name in names
            },
            "studies": studies,
        }
        write_json(partial / "MANIFEST.json", manifest)


def main(arguments: Sequence[str] | None = None) -> None:
    """Ship a model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    for name in ("model", "corpus", "target"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args(arguments)
    ship(given.model, given.corpus, given.target)


if __name__ == "__main__":
    main()

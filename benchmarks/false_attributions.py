"""How many of the ASVs that a network's attributions name are false: a half-synthetic study.

    python -m benchmarks.false_attributions ../shared/data FOLDER [--labels 12] [--samples 300]

Labels are planted in samples of the mackerels as in `benchmarks.false_clades`, all of them numbers,
and one run of the workflow in FOLDER pretrains a network and fits a kernel on its embeddings and on
log-reads to each (`recipe: kernel`). Attributions name the ten ASVs of the largest mean integrated
gradients, as a forest does in the other benchmark. Further rows have those of these ASVs that lie
in a clade that the tests name, all ASVs of such clades, and, counted by clades, what the tests name
and which of these clades the networks pass, too. A clade is false where nothing is planted within
or around it. Noise is the number of labels without a signal for which anything is named.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from aam.data.table import write_biom
from aam.data.trees import read_tree, write_newick
from aam.evaluate.clade_tests import Clades
from aam.report.page.named_clades import PASSED
from aam.util.seeds import generator
from benchmarks.false_clades import DEPTH, STRENGTHS, draw_rows, plant, read_study

STUDY = "mackerel"
LARGEST = 10
PLANTED = ("ASVs", "clades", "large clades", "ratios")
EVERY = 4
"""Every so many labels one is noise alone."""


def main() -> None:
    """Plant, run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=int, default=12)
    parser.add_argument("--samples", type=int, default=300)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    planted, clades, features = write_study(given.data, given.folder, given.labels, given.samples)
    command = [sys.executable, "-m", "aam", "run", "config.yaml", "--cores", "2"]
    subprocess.run(command, cwd=given.folder, check=True)
    results = given.folder / "results/mine"
    rows = []
    for number, nodes in enumerate(planted):
        name = f"label{number}"
        of_clade = pd.read_csv(results / f"clades/{name}.features.tsv", sep="\t", index_col=0)
        tested = of_clade.index[of_clade["clade"].notna()]
        of_network = pd.read_csv(results / f"finetune/base/{name}/clades.tsv", sep="\t")
        passed = of_network["clade"][of_network["p"] <= PASSED]
        importance = pd.read_csv(results / f"finetune/base/{name}/importance.tsv", sep="\t")
        largest = importance["feature-id"].head(LARGEST)
        asvs = {
            "gradients, ten largest": largest,
            "of these, in a named clade": largest[largest.isin(tested)],
            "ASVs of named clades": tested,
        }
        named = {method: [[asv] for asv in names] for method, names in asvs.items()}
        members = {clade: part.index.tolist() for clade, part in of_clade.groupby("clade")}
        named["named clades"] = [*members.values()]
        named["clades that networks pass"] = [members[clade] for clade in passed]
        for method, names in named.items():
            tips = [
                np.flatnonzero(np.isin(clades.tip_B, [features[asv] for asv in asvs_of_name]))
                for asvs_of_name in names
            ]
            judged = judge(clades, nodes, [one.tolist() for one in tips if len(one)])
            rows.append({"method": method, **judged})
    table = (
        pd.DataFrame(rows)
        .groupby("method", sort=False)
        .agg({"names": "mean", "false": "sum", "of": "sum", "found": "mean", "noise": "sum"})
    )
    table["false"] /= table["of"]
    print(table.to_markdown(floatfmt=".3f"))


def write_study(
    data: Path, folder: Path, labels: int, samples: int
) -> tuple[list[list[int]], Clades, dict[str, int]]:
    """Write the study; return what is planted in each label, the clades, and the ASVs' numbers."""
    study = read_study(STUDY, data)
    rng = generator("false_attributions")
    rows = draw_rows(study.unit_N, samples, rng)
    table = study.table.select_samples(rows)
    write_biom(folder / "table.biom", table, {})
    tree = study.tree.shear(table.feature_ids)
    write_newick(folder / "tree.nwk", tree)
    clades = Clades.of_table(
        table.counts, table.feature_ids, read_tree(folder / "tree.nwk", table.feature_ids)
    )
    unit_N = study.unit_N[rows]
    unit_of_N = np.unique(unit_N, return_inverse=True)[1]
    metadata = pd.DataFrame({"sample-id": table.sample_ids, "host": unit_N})
    planted = []
    for number in range(labels):
        signal_N, nodes = plant(clades, PLANTED[number % len(PLANTED)], rng)
        strength = 0.0 if number % EVERY == EVERY - 1 else STRENGTHS[number % len(STRENGTHS)]
        noise_N = rng.normal(size=len(rows)) + rng.normal(size=unit_of_N.max() + 1)[unit_of_N]
        label_N = np.sqrt(strength) * signal_N + np.sqrt((1 - strength) / 2) * noise_N
        metadata[f"label{number}"] = label_N.round(6)
        planted.append(nodes if strength else [])
    metadata.to_csv(folder / "metadata.tsv", sep="\t", index=False)
    task = {"dataset": "mine", "kind": "regression", "folds": {"k": 5, "groups": "host"}}
    files = {"table": "table.biom", "tree": "tree.nwk", "metadata": "metadata.tsv"}
    config = {
        "data_dir": ".",
        "datasets": {"mine": files},
        "rarefaction": {"depth": DEPTH, "views": 1},
        "models": {"base": {}},
        "pretraining": {"epochs": 12},
        "finetuning": {"recipe": "kernel"},
        "tasks": {
            f"label{number}": task | {"column": f"label{number}"} for number in range(labels)
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return planted, clades, {name: number for number, name in enumerate(table.feature_ids)}


def judge(
    clades: Clades, planted: Sequence[int], named: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return what is true and false of the ASVs, or clades, that are named for a label.

    Parameters
    ----------
    clades
        The clades of the table.
    planted
        Nodes that the label was made of; none: it is noise.
    named
        The tips of each name: one of an ASV, all of a clade.
    """
    if not planted:
        return {"noise": float(bool(named))}

    def overlaps(tips: Sequence[int], other: int) -> bool:
        return any(clades.overlap(tip, other) for tip in tips)

    is_false = [not any(overlaps(tips, other) for other in planted) for tips in named]
    found = [any(overlaps(tips, other) for tips in named) for other in planted]
    return {
        "names": len(named),
        "false": sum(is_false),
        "of": len(named),
        "found": float(np.mean(found)),
    }


if __name__ == "__main__":
    main()

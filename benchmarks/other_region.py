"""What baselines predict of samples that were read in another region than those of training.

    aam reference get greengenes
    python -m benchmarks.other_region ../shared/data FOLDER [STUDY ...]

The ASVs of each study become genes, cut to V4, V3-V4 and V1-V2 (`benchmarks.regions`), with the
genes themselves left out of the reference that AAM uses. One half of the units is learned from in
V4, as the first answer does it, and the other half is predicted in each region.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from sklearn.metrics import balanced_accuracy_score, mean_absolute_error

from aam.config.references import GREENGENES
from aam.data.importing.table import load_table
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.data.trees import write_newick
from aam.reference_tree.genes import build_reference
from aam.util.atomic import write_text
from aam.util.seeds import generator
from benchmarks.leaderboard import labels
from benchmarks.placing import Greengenes
from benchmarks.qiime import CORES, run
from benchmarks.regions import PRIMERS, simulate

TASKS = {
    "mackerel": ("day", "host", "regression"),
    "westernization": ("town", "host", "classification"),
    "ecam": ("day_of_life", "host_subject_id", "regression"),
    "oral": ("host_age", None, "regression"),
}
"""Column that is predicted, the units, and the kind of the task, by study."""
TRAINED = "V4"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("studies", nargs="*", default=[*TASKS])
    given = parser.parse_args()
    rows = []
    for study in given.studies:
        folder = given.folder / study
        if not (folder / "references").is_dir():
            write_study(study, given.data, folder)
        rows.append({"study": study, **measure(study, folder)})
        print(rows[-1], flush=True)
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3f"))


def read_study(study: str, data: Path) -> tuple[FeatureTable, pd.DataFrame]:
    """Return the table of a study, and columns `label` and `unit` by sample ID."""
    column, unit, _ = TASKS[study]
    if (data / study).is_dir():
        table = load_table(data / study / "table.biom")
        metadata = pd.read_csv(data / study / "metadata.tsv", sep="\t", index_col=0, dtype=str)
        metadata.index = metadata.index.map(str)
        if "mom_child" in metadata:
            metadata = metadata[metadata["mom_child"] == "C"]
    else:
        table = load_table(data / "corpus/table.biom")
        whole = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
        metadata = labels(study, whole[whole["study"] == study])
    found = pd.DataFrame({"label": metadata[column]})
    found["unit"] = metadata.index if unit is None else metadata[unit]
    found = found.replace("", np.nan).dropna()
    found = found.loc[found.index.intersection(table.sample_ids)]
    return table.select_samples(pd.Index(table.sample_ids).get_indexer(found.index)), found


def write_study(study: str, data: Path, folder: Path) -> None:
    """Write tables of both halves, their metadata, and the reference without the study's genes."""
    greengenes = Greengenes.open()
    table, found = read_study(study, data)
    genes, _, pieces = simulate(table, greengenes)
    units = np.unique(found["unit"].to_numpy(str))
    drawn = set(generator("other_region", study).permutation(units)[: len(units) // 2].tolist())
    is_trained_N = found["unit"].isin(drawn).to_numpy()
    folder.mkdir(parents=True)
    for region, texts in pieces.items():
        # A dash stands for bases that are not known.
        known = [text.replace("-", "N") for text in texts]
        write_fasta(folder / f"{region}.fasta", dict(zip(genes.feature_ids, known, strict=True)))
    for half, is_half_N in (("known", is_trained_N), ("new", ~is_trained_N)):
        part = genes.select_samples(np.flatnonzero(is_half_N))
        write_biom(folder / f"{half}.biom", part, {})
    found.rename_axis("sample-id").to_csv(folder / "metadata.tsv", sep="\t")
    left_out = {*genes.feature_ids}
    kept = [name for name in greengenes.genes.names if name not in left_out]
    texts_kept = {
        name: greengenes.search.text(greengenes.row_of[name]).replace("-", "N") for name in kept
    }
    write_fasta(folder / "genes.fasta", texts_kept)
    rows = np.arange(len(greengenes.genes.names))
    whole = greengenes.tree.tree_of(greengenes.genes.names, rows, np.zeros(len(rows)))
    write_newick(folder / "genes.nwk", whole)
    build_reference(
        folder / "references/aam/references" / GREENGENES,
        sequences=folder / "genes.fasta",
        tree=folder / "genes.nwk",
    )


def measure(study: str, folder: Path) -> dict[str, object]:
    """Return the score of the other half by region, and of guessing."""
    kind = TASKS[study][2]
    dataset = {"table": "known.biom", "sequences": f"{TRAINED}.fasta", "metadata": "metadata.tsv"}
    folds = {"k": 5, "groups": "unit"} | ({"stratified": True} if kind != "regression" else {})
    config = {
        "data_dir": ".",
        "datasets": {"study": dataset},
        "models": {},
        "tasks": {"task": {"dataset": "study", "column": "label", "kind": kind, "folds": folds}},
        "predictions": {
            region.replace("-", "_"): {
                "tasks": ["task"],
                "table": "new.biom",
                "sequences": f"{region}.fasta",
            }
            for region in PRIMERS
        },
    }
    write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    os.environ["XDG_DATA_HOME"] = str((folder / "references").resolve())
    run(["aam", "run", "config.yaml", "--cores", str(CORES)], folder)
    label = pd.read_csv(folder / "metadata.tsv", sep="\t", index_col=0, dtype=str)["label"]
    row: dict[str, object] = {}
    for region in PRIMERS:
        path = folder / f"results/study/predict/first/task/{region.replace('-', '_')}.tsv"
        predicted = pd.read_csv(path, sep="\t", index_col=0, dtype=str)["predicted"]
        row[region] = score(kind, label.loc[predicted.index], predicted)
    known = label.loc[read_biom(folder / "known.biom").sample_ids]
    new = label.loc[predicted.index]
    guess = known.mode()[0] if kind != "regression" else str(known.astype(float).median())
    row["guessing"] = score(kind, new, pd.Series(guess, index=new.index))
    return row


def score(kind: str, observed: pd.Series, predicted: pd.Series) -> float:
    """Return the mean absolute error, or the balanced accuracy."""
    if kind == "regression":
        return float(mean_absolute_error(observed.astype(float), predicted.astype(float)))
    return float(balanced_accuracy_score(observed, predicted))


if __name__ == "__main__":
    main()

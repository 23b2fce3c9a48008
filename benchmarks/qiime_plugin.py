"""The plugin q2-aam beside q2-sample-classifier: what a user of QIIME 2 waits for either, and gets.

`python -m benchmarks.qiime_plugin ../shared/data plugin` needs the command `qiime` on the path with
q2-sample-classifier and q2-aam (docs/how-to/qiime2.md). Both programs get the same artifacts and
labels, two jobs, and default settings. q2-sample-classifier's forest is also fitted on the folds of
the page, so that both are scored on the same samples, all of which are held out. The table goes to
standard output.
"""

import argparse
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aam.util.atomic import write_text
from benchmarks.qiime import CORES, Cost, Labelled, predict_folds, run
from benchmarks.speed.tables import markdown_table

ANSWERS = "*/data/answers/*/first/predictions.tsv"


@dataclass(frozen=True)
class Case:
    """A column of a study."""

    study: str
    """Folder of the data."""
    column: str
    kind: str
    groups: str
    """Column whose samples stay together."""
    where: tuple[str, str] | None = None
    """Column and value of the samples that count; None: all."""


CASES = (
    Case("moving-pictures", "BodySite", "classification", "Subject"),
    Case("ecam", "delivery", "classification", "host_subject_id", ("mom_child", "C")),
    Case("ecam", "day_of_life", "regression", "host_subject_id", ("mom_child", "C")),
)
CLASSIFIER = {"classification": "classify-samples", "regression": "regress-samples"}
FIT = {"classification": "fit-classifier", "regression": "fit-regressor"}


def prepare(case: Case, data: Path, folder: Path) -> None:
    """Write the artifacts and the labels of a case into a folder, and remove what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = (data / case.study).resolve()
    for name, semantic_type, options in (
        ("table.biom", "FeatureTable[Frequency]", ["--input-format", "BIOMV210Format"]),
        ("tree.nwk", "Phylogeny[Rooted]", []),
    ):
        output = ["--output-path", f"{Path(name).stem}.qza"]
        files = ["--type", semantic_type, "--input-path", str(source / name), *options, *output]
        run(["qiime", "tools", "import", *files], folder)
    metadata = pd.read_csv(source / "metadata.tsv", sep="\t", dtype=str)
    metadata = metadata[metadata.iloc[:, 0] != "#q2:types"].set_index(metadata.columns[0])
    if case.where is not None:
        column, value = case.where
        metadata = metadata[metadata[column] == value]
    labels = metadata[[case.column, case.groups]].dropna()
    number = "numeric" if case.kind == "regression" else "categorical"
    lines = [f"sample-id\t{case.column}\t{case.groups}", f"#q2:types\t{number}\tcategorical"]
    lines += ["\t".join(row) for row in labels.itertuples(name=None)]
    write_text(folder / "labels.tsv", "\n".join(lines) + "\n")


def time_commands(case: Case, folder: Path) -> dict[str, Cost]:
    """Return what each command takes on the files of `prepare`, by its name."""
    table = ["--i-table", "table.qza"]
    tree = ["--i-phylogeny", "tree.qza"]
    column = ["--m-metadata-file", "labels.tsv", "--m-metadata-column", case.column]
    common = ["--p-random-state", "0", "--p-n-jobs", str(CORES), "--p-missing-samples", "ignore"]
    commands = {
        f"sample-classifier {CLASSIFIER[case.kind]}": [*table, *column],
        "aam first-answer": [
            *(*table, *tree, "--m-metadata-file", "labels.tsv"),
            *("--p-columns", case.column, "--p-groups", case.groups),
        ],
        f"aam {FIT[case.kind]}": [
            *(*table, *tree, *column),
            *("--m-groups-file", "labels.tsv", "--m-groups-column", case.groups),
        ],
    }
    return {
        name: run(
            ["qiime", *name.split(), *words, *common, "--output-dir", name.replace(" ", "-")],
            folder,
        )
        for name, words in commands.items()
    }


def read_answer(folder: Path) -> pd.DataFrame:
    """Return the cross-validated predictions of the page, as `read_folds` names their columns."""
    with zipfile.ZipFile(folder / "aam-first-answer" / "visualization.qzv") as archive:
        (name,) = [one for one in archive.namelist() if Path(one).match(ANSWERS)]
        with archive.open(name) as handle:
            return pd.read_csv(handle, sep="\t", dtype={"sample-id": str}, index_col="sample-id")


def compare(data: Path, folder: Path) -> str:
    """Return the table of all cases.

    Parameters
    ----------
    data
        Folder of the public studies.
    folder
        Folder to work in.
    """
    rows = []
    for case in CASES:
        work = folder / f"{case.study}-{case.column}"
        prepare(case, data, work)
        costs = time_commands(case, work)
        answer = read_answer(work)
        labelled = Labelled(case.kind, answer, work / "table.qza")
        forest = predict_folds(labelled, work)
        mixed = labelled.score(answer["predicted"])
        scores = dict(zip(costs, (forest, mixed, mixed), strict=True))
        for name, cost in costs.items():
            rows.append(
                [
                    f"{case.study}, {case.column} ({len(answer)})",
                    f"`{name}`",
                    f"{cost.clock_s:.1f}; {cost.processor_s:.1f}",
                    f"{cost.peak_mb:.0f}",
                    f"{scores[name]:.3g}",
                ]
            )
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    head = ["column (samples)", "command", "clock; processor time, s", "largest process, MB"]
    return markdown_table([*head, "on the folds of the page"], rows)


def main() -> None:
    """Compare the plugins, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the public studies")
    parser.add_argument("folder", type=Path, help="folder to work in")
    arguments = parser.parse_args()
    if shutil.which("qiime") is None:
        sys.exit("There is no command qiime on the path; docs/how-to/qiime2.md says how to get it.")
    print(compare(arguments.data, arguments.folder))


if __name__ == "__main__":
    main()

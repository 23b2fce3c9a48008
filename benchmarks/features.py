"""Which features of samples a kernel machine learns best from, by the number of labels.

`python -m benchmarks.features compare RESULTS CORPUS TABLE` compares, on the tasks of `TASKS`,
support vectors on log-ratios of reads, on the clades of the study's own tree, on those of a
reference tree that has not seen the study, on embeddings of the study's own pretraining, and on
pairs of these, with linear and Gaussian kernels. RESULTS is a folder of results with folds, sample
store, tokens, tree, unweighted UniFrac and, where there is one, the pretrained model `base` of
these studies; CORPUS is the folder of the corpus, from which the reference is made.

Some samples are drawn, their labels alone are learned from, and all samples of other groups are
predicted; all ways get the same draws. With all labels the folds of the task are left out in turn.
TABLE keeps a row per way and draw, so that a run that was ended goes on.
`python -m benchmarks.features summary TABLE` prints the means.

Shape suffixes: N labelled samples of the task, D numbers of a feature matrix.
"""

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from aam.data.importing.table import load_table
from aam.data.importing.tree import load_tree
from aam.data.stores import TokenStore
from aam.data.trees import find_branches
from aam.learners.baselines.log_ratios_and_pairs import (
    centred_log_ratios,
    clade_logs,
    support_vectors,
)
from aam.learners.baselines.problem import Problem, prevalent_reads
from aam.reference_tree.tree import ReferenceTree, place_sequences
from aam.util.atomic import write_tsv
from benchmarks.labels import keep_labels, read_problem, score
from benchmarks.speed.tables import markdown_table

TASKS = {
    "mackerel/mackerel_day_0": "regression",
    "mackerel/mackerel_site_0": "classification",
    "westernization/westernization_rank_0": "regression",
    "westernization/westernization_town_0": "classification",
}
"""Tasks that settings may be chosen on, and their kinds."""
NUMBERS = (10, 25, 50, 100)
ALL = 0
"""Stands for all labels."""
DRAWS = 10
THREADS = 2
KEYS = ["task", "labels", "draw", "features", "kernel"]
Features = Mapping[str, NDArray[np.float64]]


def reference_problem(task: Problem, corpus: Path, study: str, names: Sequence[str]) -> Problem:
    """Return a problem whose tree is that of the corpus without a study, with its ASVs placed.

    Parameters
    ----------
    task
        The problem on the study's own tree.
    corpus
        Folder of the corpus.
    study
        Name of the study that is left out: no sample of it names an ASV of the reference.
    names
        Sequences of the features of the problem.
    """
    table = load_table(corpus / "table.biom")
    metadata = pd.read_csv(corpus / "metadata.tsv", sep="\t", dtype=str).set_index("sample-id")
    is_other = (metadata.loc[table.sample_ids, "study"] != study).to_numpy()
    kept = set(table.select_samples(np.flatnonzero(is_other)).feature_ids)
    length = max(map(len, table.feature_ids))
    tree = ReferenceTree.from_tree(load_tree(corpus / "tree.nwk"), length)
    is_left_out = np.array([name not in kept for name in tree.sequences()])
    placed = place_sequences(tree.without(is_left_out), {name: name for name in names}).to_tree()
    above, lengths = find_branches(placed, names)
    return replace(task, above=above, lengths=lengths)


def embeddings(folder: Path, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the embeddings [N, D] of some samples, every number in its standard deviations."""
    table = pd.read_parquet(folder / "embeddings.parquet").set_index("sample_id")["embedding"]
    embedding_ND = np.array(table.loc[list(names)].tolist(), dtype=np.float64)
    return embedding_ND / (embedding_ND.std(axis=0) + 1e-6)


def features_of(
    task: Problem, reference: Problem, embedding_ND: NDArray[np.float64] | None
) -> Features:
    """Return the feature matrices [N, D] of a problem; those of trees look at its labels' samples.

    `reference` is the same problem on a reference tree.
    """
    features = {
        "log-ratios": centred_log_ratios(prevalent_reads(task)),
        "own tree": clade_logs(task)(task.counts),
        "reference": clade_logs(reference)(task.counts),
    }
    if embedding_ND is not None:
        features["embedding"] = embedding_ND
    return features


def kernels(task: Problem, blocks: Sequence[NDArray[np.float64]]) -> Features:
    """Return a linear and a Gaussian kernel [N, N] of features in blocks that count alike.

    Each block is centred and scaled as a whole; the mean square of the distance of two training
    samples is 2.
    """
    parts = []
    for block_ND in blocks:
        train_TD = block_ND[task.train]
        scale = np.sqrt(len(blocks) * train_TD.var(axis=0).sum()) or 1.0
        parts.append((block_ND - train_TD.mean(axis=0)) / scale)
    scaled_ND = np.hstack(parts)
    linear_NN = scaled_ND @ scaled_ND.T
    square_N = np.diag(linear_NN)
    gaussian_NN = np.exp(linear_NN - (square_N[:, None] + square_N) / 2)
    return {"linear": linear_NN, "Gaussian": gaussian_NN}


def scores(
    name: str, task: Problem, reference: Problem, embedding: NDArray | None, labels: int, draw: int
) -> pd.DataFrame:
    """Return the score of every way with some labels, or with all of them in fold `draw`."""
    if labels == ALL:
        part = replace(task, held_out=draw)
    else:
        part = keep_labels(task, labels, draw)
    other = replace(part, above=reference.above, lengths=reference.lengths)
    rows = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        features = features_of(part, other, embedding)
        ways = [*((way,) for way in features), *combinations(features, 2)]
        for way in ways:
            for kernel, matrix_NN in kernels(part, [features[block] for block in way]).items():
                predicted = support_vectors(part, [matrix_NN.__getitem__])[0]
                value = score(part, predicted)
                rows.append([name, labels, draw, " + ".join(way), kernel, value])
    return pd.DataFrame(rows, columns=[*KEYS, "score"])


def compare(results: Path, corpus: Path, path: Path) -> None:
    """Write a row for every way, number of labels and draw that has none yet."""
    parts = [pd.read_csv(path, sep="\t")] if path.exists() else []
    finished = {tuple(key) for part in parts for key in part[KEYS[:3]].drop_duplicates().to_numpy()}
    for key, kind in TASKS.items():
        study, name = key.split("/")
        task, names = read_problem(results / study, name, kind)
        sequences = TokenStore.open(results / study / "tokens/asvs.arrow").feature_ids
        reference = reference_problem(task, corpus, study, sequences)
        pretrained = results / study / "pretrain/base"
        # Without a pretrained model the embeddings are left out.
        is_pretrained = (pretrained / "embeddings.parquet").is_file()
        embedding = embeddings(pretrained, names) if is_pretrained else None
        numbers = [number for number in NUMBERS if number < 0.7 * len(task.target)]
        jobs = [(number, draw) for number in numbers for draw in range(DRAWS)]
        jobs += [(ALL, fold) for fold in sorted(set(task.fold.tolist()))]
        waiting = [job for job in jobs if (name, *job) not in finished]
        for start in range(0, len(waiting), 2 * THREADS):
            some = waiting[start : start + 2 * THREADS]
            parts += Parallel(THREADS)(
                delayed(scores)(name, task, reference, embedding, *job) for job in some
            )
            write_tsv(path, pd.concat(parts))
            print(name, some, flush=True)


def summary(table: pd.DataFrame) -> str:
    """Return a table of each task: mean scores and their standard errors over the draws."""
    text = []
    for name, part in table.groupby("task"):
        cells = part.groupby(["features", "kernel", "labels"])["score"].agg(["mean", "sem"])
        shown = cells.apply(lambda row: f"{row['mean']:.3g} ± {row['sem']:.1g}", axis=1)
        wide = shown.unstack("labels").reset_index()
        wide = wide.rename(columns={ALL: "all"})
        head = [str(column) for column in wide]
        text.append(f"{name}\n\n{markdown_table(head, wide.astype(str).to_numpy().tolist())}")
    return "\n\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the features, or print the table of a comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    comparer = commands.add_parser("compare")
    comparer.add_argument("results", type=Path)
    comparer.add_argument("corpus", type=Path)
    comparer.add_argument("table", type=Path)
    printer = commands.add_parser("summary")
    printer.add_argument("table", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "compare":
        compare(given.results, given.corpus, given.table)
    else:
        print(summary(pd.read_csv(given.table, sep="\t")))


if __name__ == "__main__":
    main()

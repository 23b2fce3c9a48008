"""How often the page says that a prediction holds in a study never seen, where it does and not.

`python -m benchmarks.studies DRAWS TABLE` draws samples of several studies, each of which moves the
reads of all its samples. In four cases the labels follow nothing; the batches alone, since studies
differ in how frequent a class is, or how large a number, and half of the studies share a laboratory
in which classes are frequent, too; the reads, in all studies alike; the reads, in each study
another way. Only in the third does the prediction hold in a study never seen: every claim of the
others is false. One learner answers both questions. TABLE keeps a row per draw.

Shape suffixes: N samples, S studies, F features.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.scores import is_better
from aam.evaluate.studies import compare_studies
from aam.evaluate.task_report import Guessing, Studies
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import JOINT_PREDICTORS
from aam.learners.nested_predictions import fold_predictions, split_of_fold, table_of
from aam.util.atomic import write_tsv
from benchmarks.speed.tables import markdown_table

STUDIES = 8
EACH = 20
"""Samples of a study."""
CASES = ("no signal", "in batches alone", "across studies", "within studies alone")
TARGETS = ("two classes", "numbers")
FEATURES = 40
READS = 1000
FOLDS = 5
LEARNER = "kernel_clr"
"""The quickest method, whose penalty is tuned within the training folds."""
BATCH = 1.0
"""Standard deviation of how a study moves the logarithm of a feature."""
EFFECT = 0.4
"""Standard deviation of how a label moves it, of a quarter of the features."""
LEVEL = 0.05

Floats = NDArray[np.float64]


def draw_studies(case: str, target: str, rng: np.random.Generator) -> Problem:
    """Return the samples of some studies, in folds of their own drawing.

    Parameters
    ----------
    case
        One of `CASES`.
    target
        One of `TARGETS`.
    rng
        What draws them.
    """
    study_N = np.repeat(np.arange(STUDIES), EACH)
    batch_SF = BATCH * rng.normal(size=(STUDIES, FEATURES))
    level_S = np.zeros(STUDIES)
    if case == "in batches alone":
        level_S = rng.normal(size=STUDIES)
        if target == "two classes":
            # Studies of one laboratory are alike, and have more of one class.
            of_lab = np.arange(STUDIES) % 2
            batch_SF = 0.5 * batch_SF + BATCH * rng.normal(size=(2, FEATURES))[of_lab]
            level_S = 0.5 * level_S + np.where(of_lab == 1, 0.8, -0.8)
    value_N = level_S[study_N] + rng.normal(size=len(study_N))
    label_N = np.where(value_N > 0, 1.0, -1.0) if target == "two classes" else value_N
    log_NF = 1.5 * rng.normal(size=FEATURES) + batch_SF[study_N]
    if case == "across studies":
        log_NF += np.outer(label_N, _loadings(rng))
    if case == "within studies alone":
        of_study_SF = np.stack([_loadings(rng) for _ in range(STUDIES)])
        log_NF += label_N[:, None] * of_study_SF[study_N]
    share_NF = np.exp(log_NF + rng.normal(size=log_NF.shape))
    share_NF /= share_NF.sum(axis=1, keepdims=True)
    counts_NF = np.stack([rng.multinomial(READS, share_F) for share_F in share_NF])
    is_number = target == "numbers"
    fold_N = np.concatenate([rng.permutation(np.arange(EACH) % FOLDS) for _ in range(STUDIES)])
    return Problem(
        kind="regression" if is_number else "classification",
        target=value_N if is_number else np.where(value_N > 0, "ill", "well"),
        classes=[] if is_number else ["ill", "well"],
        fold=fold_N,
        group=np.full(len(study_N), "", np.str_),
        counts=csr_array(counts_NF.astype(np.float64)),
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((FEATURES, 0)),
        lengths=np.zeros(0),
        seed=0,
    )


def _loadings(rng: np.random.Generator) -> Floats:
    """Return how much each feature follows a label: about a quarter of them do."""
    return EFFECT * rng.normal(size=FEATURES) * (rng.random(FEATURES) < 0.25)


def answer_twice(task: Problem) -> tuple[Studies, Guessing]:
    """Return the scores of both answers by study, and the second one by all samples together."""
    names = [f"s{row}" for row in range(len(task.target))]
    study_N = np.arange(len(task.target), dtype=np.int64) // EACH
    study = pd.Series(study_N.astype(str), names)
    unseen = _predict(replace(task, fold=study_N, group=study.to_numpy(np.str_)))
    studies = compare_studies(
        task.kind,
        "study",
        within=_predict(task),
        unseen=unseen,
        group=pd.Series("", names),
        study=study,
    )
    return studies, compare_with_guessing(task.kind, unseen, study)


def _predict(task: Problem) -> pd.DataFrame:
    """Return what one learner, tuned within the training folds, predicts for each fold."""
    encoded = task.encode()
    splits = [split_of_fold(encoded, fold) for fold in np.unique(task.fold).tolist()]
    predicted = JOINT_PREDICTORS[LEARNER](encoded, splits)
    tables = [
        table_of(encoded, rows, one) for (_, rows), one in zip(splits, predicted, strict=True)
    ]
    table = fold_predictions(task, LEARNER, tables)
    table["sample-id"] = table.pop("row").map("s{}".format)
    return table


def measure_draw(case: str, target: str, draw: int) -> dict[str, Any]:
    """Return what the page would say of one draw, and what it would by all samples together."""
    rng = np.random.default_rng([draw, CASES.index(case), TARGETS.index(target)])
    task = draw_studies(case, target, rng)
    studies, together = answer_twice(task)
    return {
        "case": case,
        "target": target,
        "draw": draw,
        "within": studies.within.score,
        "unseen": studies.unseen.score,
        "guessing": studies.unseen.guessing.score,
        "works unseen": _is_claimed(task.kind, studies.unseen.guessing),
        "works, samples together": _is_claimed(task.kind, together),
    }


def _is_claimed(kind: str, guessing: Guessing) -> bool:
    is_found = guessing.p is not None and guessing.p < LEVEL
    return is_found and is_better(kind, guessing.difference)


def summarize(table: pd.DataFrame) -> str:
    """Return the scores and the claims of each case, as Markdown."""
    head = ["target", "signal", "draws", "within", "never seen", "guessing"]
    head += ["said to hold in one never seen", "the same, samples together"]
    rows = []
    for target in TARGETS:
        for case in CASES:
            part = table[(table["target"] == target) & (table["case"] == case)]
            scores = [f"{part[name].mean():.2f}" for name in ("within", "unseen", "guessing")]
            claims = ["works unseen", "works, samples together"]
            rates = [f"{part[name].mean():.1%}" for name in claims]
            rows.append([target, case, str(len(part)), *scores, *rates])
    return markdown_table(head, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the draws, and print how often each claim is made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("draws", type=int)
    parser.add_argument("table", type=Path)
    given = parser.parse_args(arguments)
    rows = []
    for draw in range(given.draws):
        for case in CASES:
            rows += [measure_draw(case, target, draw) for target in TARGETS]
        write_tsv(given.table, pd.DataFrame(rows))
    print(summarize(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()

"""How many of the clades that AAM names are false, beside what others name: half-synthetic studies.

    python -m benchmarks.false_clades ../shared/data [--draws 200] [--rivals 40] [STUDY ...]
    python -m benchmarks.false_clades ../shared/data --replacements

A draw takes samples of at least 15 units of a real table, plants signals in it and makes a label of
them and of noise: the log-reads of ASVs, of clades of 4 to 30 ASVs or of a tenth to four tenths of
all, ratios of two ASVs, or presence. Half of the labels are classes; half of the noise is the same
in all samples of a unit, where there are units. In every fourth draw the label is noise alone.

A name is false if it contains nothing that was planted, and lies within nothing that was. A row has
the fraction of false ones among all names, its mean over draws (draws without a name count as 0),
the names per draw, the fraction of planted signals that a name lies within or around, the same of
names with at most three times as many ASVs, and in how many draws of noise anything is named.

Rivals name ASVs: those of the ten largest importances of a random forest; those whose importance by
permutation of held-out samples is above twice its standard deviation; those with a coefficient in a
cross-validated elastic net; and those that differ by a test of each alone (Spearman or
Kruskal-Wallis, Benjamini-Hochberg at 10 %).

The second command plants three ASVs in mackerels, and prints how many of the clades that they have
no part in reach p < 0.01: with reads of permuted samples, with those of similar samples, and with
these given the planted ASVs.
"""

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import ElasticNetCV, LogisticRegressionCV
from sklearn.model_selection import GroupKFold

import aam
from aam.data.importing.table import load_table, without_empty
from aam.data.importing.tree import load_tree
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.evaluate.clade_tests import STAND_INS, Clades, CladeTests
from aam.learners.baselines.problem import Problem
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator
from benchmarks.leaderboard import labels

DEPTH = 1000
SIZES = (60, 100, 200, 300)
STRENGTHS = (0.15, 0.3, 0.6)
"""Fraction of the label's variance that the planted signals make."""
KINDS = ("ASVs", "clades", "large clades", "ratios", "presence")
SIGNALS = 3
FOLDS = 5
LEAST_UNITS = 15
REPLACED_DRAWS = 20
UNITS = {"ecam": "host_subject_id", "oral": None, "mackerel": "host", "westernization": "host"}
"""Column of the units, by study."""
Names = list[int]
"""Nodes of the tree that are named."""


@dataclass(frozen=True, eq=False)
class Study:
    """A rarefied table with its tree and units."""

    table: FeatureTable
    tree: TreeNode
    unit_N: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Draw:
    """A half-synthetic study."""

    task: Problem
    clades: Clades
    planted: list[int]
    """Nodes; none: the label is noise."""
    kind: str
    strength: float


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("studies", nargs="*", default=[*UNITS])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument(
        "--replacements", action="store_true", help="only how reads of a clade are replaced"
    )
    parser.add_argument("--rivals", type=int, default=40, help="draws that rivals get, too")
    given = parser.parse_args()
    if given.replacements:
        compare_replacements(given.data)
        return
    rows = []
    for name in given.studies:
        study = read_study(name, given.data)
        for number in range(given.draws):
            drawn = draw(study, name, number)
            methods: dict[str, Callable[[Draw], Names]] = {"AAM": name_clades}
            if number < given.rivals:
                methods |= RIVALS
            for title, method in methods.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rows.append({"study": name, "method": title, **judge(drawn, method(drawn))})
        print_tables(pd.DataFrame(rows))


def read_study(name: str, data: Path) -> Study:
    """Return a study with its own tree, or one of the corpus on the tree of v4."""
    column = UNITS[name]
    if (data / name).is_dir():
        table = load_table(data / name / "table.biom")
        metadata = pd.read_csv(data / name / "metadata.tsv", sep="\t", index_col=0, dtype=str)
        metadata.index = metadata.index.map(str)
        tree = load_tree(data / name / "tree.nwk")
    else:
        table = load_table(data / "corpus/table.biom")
        whole = pd.read_csv(data / "corpus/metadata.tsv", sep="\t", dtype=str, index_col=0)
        whole = whole.loc[table.sample_ids]
        is_study_N = (whole["study"] == name).to_numpy()
        table = table.select_samples(np.flatnonzero(is_study_N))
        metadata = labels(name, whole[is_study_N])
    table = without_empty(rarefy(table, DEPTH, 0, 0))[0]
    if not (data / name).is_dir():
        tree = aam.reference("v4").tree({text: text for text in table.feature_ids})
    units = metadata.index.to_series() if column is None else metadata[column]
    return Study(table, tree, units.loc[table.sample_ids].fillna("").to_numpy(np.str_))


def draw(study: Study, name: str, number: int, **fixed: Any) -> Draw:
    """Return a half-synthetic study.

    Parameters
    ----------
    study
        The real one.
    name, number
        Seed of what is drawn.
    **fixed
        `size`, `kind` or `strength`, which are drawn otherwise.
    """
    rng = generator("false_clades", name, number)
    size = min(fixed.get("size", int(rng.choice(SIZES))), len(study.unit_N))
    rows = draw_rows(study.unit_N, size, rng)
    size = len(rows)
    counts = csr_array(study.table.counts[rows])
    clades = Clades.of_table(counts, study.table.feature_ids, study.tree)
    kind = fixed.get("kind", str(rng.choice(KINDS)))
    drawn_strength = 0.0 if number % 4 == 3 else float(rng.choice(STRENGTHS))
    strength = fixed.get("strength", drawn_strength)
    signal_N, planted = plant(clades, kind, rng)
    unit_of_N = np.unique(study.unit_N[rows], return_inverse=True)[1]
    noise_N = rng.normal(size=size)
    if rng.random() < 0.5 and unit_of_N.max() + 1 < size:
        noise_N = (noise_N + rng.normal(size=unit_of_N.max() + 1)[unit_of_N]) / np.sqrt(2)
    number_N = np.sqrt(strength) * signal_N + np.sqrt(1 - strength) * noise_N
    fold_N = np.empty(size, np.int64)
    shuffled = rng.permutation(unit_of_N.max() + 1)[unit_of_N]
    for fold, (_, test) in enumerate(GroupKFold(FOLDS).split(shuffled, groups=shuffled)):
        fold_N[test] = fold
    is_class = bool(rng.random() < 0.5)
    names_N = np.where(number_N > np.median(number_N), "high", "low")
    task = Problem(
        kind="classification" if is_class else "regression",
        target=names_N if is_class else number_N,
        classes=["high", "low"] if is_class else [],
        fold=fold_N,
        group=study.unit_N[rows],
        counts=counts,
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((counts.shape[1], 0)),
        lengths=np.zeros(0),
        seed=number,
    )
    return Draw(task, clades, planted if strength else [], kind, strength)


def draw_rows(unit_N: NDArray[np.str_], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return samples of units in a random order, so many of each that there are `LEAST_UNITS`."""
    most = max(size // LEAST_UNITS, 1)
    chosen: list[int] = []
    for unit in rng.permutation(np.unique(unit_N)).tolist():
        rows = rng.permutation(np.flatnonzero(unit_N == unit))[:most]
        chosen += rows[: size - len(chosen)].tolist()
    return np.sort(np.array(chosen))


def plant(
    clades: Clades, kind: str, rng: np.random.Generator, signals: int = SIGNALS
) -> tuple[NDArray[np.float64], list[int]]:
    """Return a signal of variance 1, and the nodes that it is made of.

    Parameters
    ----------
    clades
        The clades of a table.
    kind
        One of `KINDS`.
    rng
        Draws the nodes and their signs.
    signals
        How many it is made of at most; a ratio is of two.
    """
    nodes = np.arange(1, len(clades.parent_B))
    tips = np.array([len(clades.features(node)) for node in nodes.tolist()])
    prevalence = (clades.share_NB[:, 1:] > 0).mean(axis=0)
    suited = {
        "ASVs": (tips == 1) & (prevalence > 0.15),
        "ratios": (tips == 1) & (prevalence > 0.15),
        "presence": (tips == 1) & (prevalence > 0.2) & (prevalence < 0.8),
        "clades": (tips >= 4) & (tips <= 30) & (prevalence > 0.15),
        "large clades": (tips >= 0.1 * tips.max()) & (tips <= 0.4 * tips.max()),
    }[kind]
    planted: list[int] = []
    signal_N = np.zeros(len(clades.share_NB))
    for node in rng.permutation(nodes[suited]).tolist():
        if len(planted) >= signals * (2 if kind == "ratios" else 1):
            break
        share_N = clades.share_NB[:, node]
        logs_N = (share_N > 0).astype(float) if kind == "presence" else np.log(share_N + 5e-4)
        if logs_N.std() < 1e-6 or any(clades.overlap(node, other) for other in planted):
            continue
        planted.append(node)
        signal_N += rng.choice([-1, 1]) * (logs_N - logs_N.mean()) / logs_N.std()
    return (signal_N - signal_N.mean()) / signal_N.std(), planted


def judge(drawn: Draw, named: Names) -> dict[str, Any]:
    """Return what is true and false of the names of a draw."""
    clades = drawn.clades
    row: dict[str, Any] = {"strength": drawn.strength, "kind": drawn.kind, "named": len(named)}
    if not drawn.planted:
        return row | {"any": bool(named)}
    is_true = [any(clades.overlap(node, other) for other in drawn.planted) for node in named]
    is_found = [any(clades.overlap(node, other) for node in named) for other in drawn.planted]
    small = [
        any(
            clades.overlap(node, other)
            and len(clades.features(node)) <= 3 * len(clades.features(other)) + 2
            for node in named
        )
        for other in drawn.planted
    ]
    return row | {
        "false": 1 - float(np.mean(is_true)) if named else 0.0,
        "false names": len(named) - sum(is_true),
        "found": float(np.mean(is_found)),
        "found closely": float(np.mean(small)),
    }


def name_clades(drawn: Draw) -> Names:
    """Return what AAM names."""
    rows = np.arange(len(drawn.task.target))
    tests = CladeTests.of_task(drawn.task, rows, drawn.clades)
    return [found.node for found in tests.name()]


class PermutedTests(CladeTests):
    """Tests in which any samples stand in."""

    def find_stand_ins(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return permutations of all samples."""
        rng = generator("permuted", columns.tolist())
        return np.stack([rng.permutation(len(self.label_NC)) for _ in range(STAND_INS)], axis=1)


def compare_replacements(data: Path) -> None:
    """Print how often clades that a label does not depend on have small p-values.

    Parameters
    ----------
    data
        Folder of the studies.
    """
    study = read_study("mackerel", data)
    small: dict[str, list[bool]] = {}
    for number in range(REPLACED_DRAWS):
        drawn = draw(study, "mackerel", number, size=200, kind="ASVs", strength=0.6)
        rows = np.arange(len(drawn.task.target))
        similar = CladeTests.of_task(drawn.task, rows, drawn.clades)
        permuted = PermutedTests.of_task(drawn.task, rows, drawn.clades)
        tested = [child for children in drawn.clades.children for child in children]
        for node in tested:
            if any(drawn.clades.overlap(node, other) for other in drawn.planted):
                continue
            small.setdefault("permuted", []).append(permuted.test(node) < 0.01)
            small.setdefault("similar", []).append(similar.test(node) < 0.01)
            given = similar.test(node, drawn.planted)
            small.setdefault("similar, given the planted", []).append(given < 0.01)
    for title, is_small in small.items():
        print(f"{title}: {np.mean(is_small):.3f} of {len(is_small)}")


def tips_of(drawn: Draw) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[Any]]:
    """Return the tips, their log-shares, and the label."""
    tips = np.flatnonzero(drawn.clades.tip_B >= 0)
    return tips, np.log(drawn.clades.share_NB[:, tips] + 5e-4), drawn.task.target


def name_by_forest(drawn: Draw) -> Names:
    """Return the ASVs of the ten largest importances of a forest."""
    tips, logs_NP, target = tips_of(drawn)
    kind = RandomForestRegressor if drawn.task.regression else RandomForestClassifier
    forest = kind(n_estimators=100, random_state=0, max_features=0.33).fit(logs_NP, target)
    return tips[np.argsort(-forest.feature_importances_)[:10]].tolist()


def name_by_permutation(drawn: Draw) -> Names:
    """Return the ASVs whose permutation lowers the score of held-out samples."""
    tips, logs_NP, target = tips_of(drawn)
    is_test_N = drawn.task.fold == 0
    kind = RandomForestRegressor if drawn.task.regression else RandomForestClassifier
    forest = kind(n_estimators=100, random_state=0, max_features=0.33)
    forest.fit(logs_NP[~is_test_N], target[~is_test_N])
    found = permutation_importance(
        forest, logs_NP[is_test_N], target[is_test_N], n_repeats=5, random_state=0
    )
    return tips[found.importances_mean > 2 * found.importances_std].tolist()


def name_by_elastic_net(drawn: Draw) -> Names:
    """Return the ASVs with a coefficient."""
    tips, logs_NP, target = tips_of(drawn)
    scaled_NP = (logs_NP - logs_NP.mean(axis=0)) / np.maximum(logs_NP.std(axis=0), 1e-9)
    folds = [*GroupKFold(FOLDS).split(scaled_NP, groups=drawn.task.units)]
    if drawn.task.regression:
        model: Any = ElasticNetCV(l1_ratio=0.5, cv=folds, alphas=20, eps=0.03, max_iter=2000)
    else:
        model = LogisticRegressionCV(
            Cs=8, cv=folds, penalty="elasticnet", l1_ratios=[0.5], solver="saga", max_iter=300
        )
    model.fit(scaled_NP, target)
    return tips[np.atleast_2d(model.coef_).any(axis=0)].tolist()


def name_by_single_tests(drawn: Draw) -> Names:
    """Return the ASVs that differ, each tested alone."""
    tips, logs_NP, target = tips_of(drawn)
    p_values = []
    for logs_N in logs_NP.T:
        if drawn.task.regression:
            p_values.append(float(stats.spearmanr(logs_N, target).pvalue))
        else:
            parts = [logs_N[target == name] for name in drawn.task.classes]
            same = np.ptp(logs_N) == 0
            p_values.append(1.0 if same else float(stats.kruskal(*parts).pvalue))
    corrected = stats.false_discovery_control(np.nan_to_num(p_values, nan=1.0))
    return tips[corrected <= 0.1].tolist()


RIVALS: Mapping[str, Callable[[Draw], Names]] = {
    "forest, ten largest": name_by_forest,
    "permutation": name_by_permutation,
    "elastic net": name_by_elastic_net,
    "each ASV alone, BH": name_by_single_tests,
}


def print_tables(rows: pd.DataFrame) -> None:
    """Print means by study and method, and of AAM by strength and by kind."""
    columns = ["false", "found", "found closely", "any"]
    rows = rows.assign(any=rows.get("any", np.nan))
    for keys in (["study", "method"], ["study", "method", "strength"], ["method", "kind"]):
        part = rows if keys == ["study", "method"] else rows[rows["method"] == "AAM"]
        table = part.astype({"any": float}).groupby(keys)[columns].mean().reset_index()
        planted = part[part["strength"] > 0].groupby(keys)[["false names", "named"]].sum()
        shares = (planted["false names"] / planted["named"]).rename("false of all")
        table = table.merge(shares.reset_index(), on=keys, how="left")
        table["named"] = part.groupby(keys)["named"].mean().to_numpy()
        table["draws"] = part.groupby(keys).size().to_numpy()
        print(table.to_markdown(index=False, floatfmt=".3f"), flush=True)
        print()


if __name__ == "__main__":
    main()

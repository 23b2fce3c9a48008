"""The directory of a super learner: what is said of it, what is written and what is read again."""

import json

import numpy as np
import pandas as pd
import pytest
from problems import learners_of, predictions_of
from refusals import refused
from scipy.sparse import csr_array

from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.predictions import CROSS_VALIDATION, read_predictions
from aam.data.same_reads import Fingerprints
from aam.data.table import FeatureTable, TableFacts, read_biom, read_lineages, write_biom
from aam.learners import kept_mixture as module
from aam.learners.kept_mixture import (
    mix_targets,
    mixture_settings,
    read_clades,
    read_super_learner,
    study_facts,
    write_super_learner,
)
from aam.learners.mixture import Mixture
from aam.learners.super_learner import super_learner
from aam.version import __version__

ROWS = 20
UNITS = pd.Series([f"s{row}" for row in range(ROWS)], [f"s{row}" for row in range(ROWS)])
FOLDS = pd.DataFrame(
    {"fold": [0, 1, 0, -1, 1], "observed": list("12345"), "group": ["g", "", "g", "h", "i"]},
    pd.Index(["s1", "s2", "s3", "s4", "s5"], name="sample-id"),
)


def settings(**changes) -> SuperLearnerSettings:
    plain = {
        "kind": "regression",
        "classes": None,
        "bounds": (0.0, None),
        "baselines": None,
        "seed": 7,
        "dataset": "d",
        "task": "age",
        "answer": "first",
        "rarefaction": {"depth": 100},
        "tree": "made here",
    }
    return SuperLearnerSettings(**plain | changes)


def learners(seed: int, names: str):
    rng = np.random.default_rng(seed)
    observed = rng.normal(size=ROWS)
    fold = np.arange(ROWS) % 5 - 1
    guesses = {name: observed + rng.normal(size=ROWS) for name in names}
    return learners_of({name: predictions_of(observed, guesses[name], fold) for name in names})


def test_the_methods_of_every_target_are_mixed_and_a_lone_method_stays_as_it_is():
    by_target = {"age": learners(0, "ab"), "bmi": learners(1, "c")}
    mixtures, predictions = mix_targets(by_target, UNITS)
    mixed = super_learner(by_target["age"], UNITS)
    assert mixtures == {"age": mixed.mixture, "bmi": Mixture({"c": 1.0}, {"c": 1.0})}
    assert predictions["target"].tolist() == ["age"] * ROWS + ["bmi"] * ROWS
    assert predictions.index.tolist() == list(range(2 * ROWS))
    assert predictions["predicted"][:ROWS].tolist() == mixed.predictions["predicted"].tolist()
    alone = by_target["bmi"]["c"].predictions
    assert predictions["predicted"][ROWS:].tolist() == alone["predicted"].tolist()


def test_predictions_of_a_single_target_do_not_name_it():
    _, single = mix_targets({"": learners(1, "c")}, UNITS)
    assert "target" not in single


def mixture_of_classes(task: SuperLearnerSettings, model: str | None) -> dict:
    """Return what is written of a mixture of two methods for the classes x and y."""
    return mixture_settings(
        {"": Mixture({"a": 0.25, "b": 0.75}, {"a": 2.0, "b": 1.0})},
        predictions_of(["x"], ["x"], [0], np.array([[0.75, 0.25]]), ["x", "y"]),
        task,
        model=model,
        facts={"samples": 3},
        provenance={"aam.inputs": "i"},
    )


def test_settings_say_what_is_mixed_and_where_it_comes_from():
    assert mixture_of_classes(settings(), model=None) == {
        "format": module.FORMAT,
        "model": None,
        "classes": ["x", "y"],
        "kind": "regression",
        "bounds": (0.0, None),
        "seed": 7,
        "rarefaction": {"depth": 100},
        "mixtures": {"": {"weights": {"a": 0.25, "b": 0.75}, "temperatures": {"a": 2.0, "b": 1.0}}},
        "facts": {"task": "age", "tree": "made here", "samples": 3},
        "provenance": {"aam.version": __version__, "aam.inputs": "i"},
    }


def test_classes_stay_in_the_order_that_the_user_gave():
    found = mixture_of_classes(settings(kind="ordinal", classes=["y", "x"]), model="net")
    assert (found["classes"], found["model"]) == (["y", "x"], "net")


COUNTS = csr_array(np.array([[1, 2], [0, 3]]))


def test_facts_count_labelled_samples_and_their_groups():
    view = FeatureTable(["s1", "s2"], ["A", "B"], COUNTS, TableFacts(has_sequences=False))
    # Sample s4 is set aside, and with it the group h; s2 has no group.
    assert study_facts(FOLDS, view, {}) == {
        "samples": 4,
        "groups": 2,
        "features": 2,
        "noun": "ASV",
        "region": "",
    }


def test_facts_of_features_that_are_sequences_name_their_region():
    with_sequences = FeatureTable(["s1", "s2"], ["A", "B"], COUNTS)
    texts = {"A": "ACGT" * 40, "B": "GGCC" * 40}
    assert study_facts(FOLDS, with_sequences, texts)["region"]


def write(folder, **changes):
    """Write a study of five samples and its directory; return the directory."""
    study = folder / "study"
    study.mkdir()
    FOLDS.reset_index().to_csv(study / "folds.tsv", sep="\t", index=False)
    (study / "tree.nwk").write_text("(A,B);")
    (study / "sequences.fasta").write_text(">A\nACGT\n>B\nAACC\n")
    views = []
    for number, column in enumerate(("A", "B")):
        names = ["s5", "s4", "s3", "s2", "s1"]
        counts = csr_array(np.arange(1, 6)[:, None] + number)
        views.append(study / f"v{number}.biom")
        write_biom(views[-1], FeatureTable(names, [column], counts), {})
    (study / "clades.tsv").write_text("clade\tgain\n01\t2.5\n")
    (study / "clade_features.tsv").write_text("feature-id\tclade\n001\t01\n")
    (study / "models").mkdir()
    (study / "models" / "net.json").write_text("{}")
    given = {
        "folds": study / "folds.tsv",
        "tree": study / "tree.nwk",
        "sequences": study / "sequences.fasta",
        "views": views,
        "fit": lambda partial: ({"a": {"files": len(list(partial.iterdir()))}}, {"x": np.ones(2)}),
    }
    paths = {name: study / path for name, path in changes.items() if isinstance(path, str)}
    directory = folder / "made"
    table = predictions_of([1.0, 2.0], [1.5, 2.5], [0, 1])
    content = {"format": module.FORMAT, "model": None}
    write_super_learner(directory, content, table, **given | changes | paths)
    return directory


def test_a_directory_has_the_study_its_predictions_and_the_methods(tmp_path):
    directory = write(tmp_path)
    names = {path.name for path in directory.iterdir()}
    files = {"folds.tsv", "tree.nwk", "sequences.fasta", "view0.biom", "view1.biom"}
    files |= {CROSS_VALIDATION, "super_learner.json", "methods.safetensors"}
    assert files <= names
    assert not {"model", "clades.tsv", "clade_features.tsv", "fingerprints.safetensors"} & names
    assert (directory / "tree.nwk").read_text() == "(A,B);"
    assert (directory / "sequences.fasta").read_text().startswith(">A")
    predictions = read_predictions(directory / CROSS_VALIDATION)
    assert predictions["predicted"].tolist() == ["1.5", "2.5"]
    assert read_clades(directory) is None


def test_views_have_the_labelled_samples_in_the_order_of_the_folds_and_the_same_features(tmp_path):
    directory = write(tmp_path)
    for number, reads in enumerate(([5, 4, 3, 1], [6, 5, 4, 2])):
        view = read_biom(directory / f"view{number}.biom")
        assert (view.sample_ids, view.feature_ids) == (["s1", "s2", "s3", "s5"], ["A", "B"])
        expected = np.zeros((4, 2))
        expected[:, number] = reads
        assert view.counts.toarray().tolist() == expected.tolist()


def test_methods_are_fitted_when_the_files_of_the_study_are_there(tmp_path):
    # Folds, tree, sequences, two views and predictions are six files.
    assert read_super_learner(write(tmp_path)) == {
        "format": module.FORMAT,
        "model": None,
        "methods": {"a": {"files": 6}},
    }


def test_a_directory_may_have_no_tree_but_models_clades_and_fingerprints(tmp_path):
    prints = Fingerprints.from_counts(csr_array(np.array([[1, 2]])), ["ACGT", "CCGG"])
    directory = write(
        tmp_path,
        tree=None,
        models="models",
        clades="clades.tsv",
        clade_features="clade_features.tsv",
        fingerprints=prints,
        lineages={"A": ["k__Bacteria"], "B": ["k__Archaea"]},
    )
    assert not (directory / "tree.nwk").exists()
    assert json.loads((directory / "model" / "net.json").read_text()) == {}
    clades, features = read_clades(directory)
    assert clades["clade"].tolist() == ["01"]
    assert clades["gain"].tolist() == [2.5]
    assert features.to_dict("index") == {"001": {"clade": "01"}}
    opened = Fingerprints.open(directory / "fingerprints.safetensors")
    assert opened.part_P.tolist() == prints.part_P.tolist()
    assert read_lineages(directory / "view0.biom") == {"A": "k__Bacteria", "B": "k__Archaea"}


def test_nothing_is_left_of_a_directory_whose_methods_fail(tmp_path):
    def fail(partial):
        raise RuntimeError("no fit")

    with pytest.raises(RuntimeError, match="no fit"):
        write(tmp_path, fit=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_clades_are_kept_with_their_features_or_not_at_all(tmp_path):
    assert read_clades(write(tmp_path, clades="clades.tsv")) is None


def test_a_directory_with_a_file_that_was_changed_is_refused(tmp_path):
    directory = write(tmp_path)
    (directory / "folds.tsv").write_text("sample-id\tfold\n")
    with refused(r"folds\.tsv", "copy the directory again"):
        read_super_learner(directory)


def test_a_directory_of_another_version_is_refused(tmp_path):
    directory = write(tmp_path)
    (directory / "super_learner.json").write_text('{"format": 2}')
    with refused("got format 2, of another version", "expected format 3"):
        read_super_learner(directory)

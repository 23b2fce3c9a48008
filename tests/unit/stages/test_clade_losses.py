"""What the answer to a task loses without a clade."""

import numpy as np
import pandas as pd
import pytest
from baseline_studies import KINDS, write_study
from clade_files import write_clades
from stage_calls import as_outputs

from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.folds import units_of
from aam.data.predictions import read_predictions, read_results
from aam.data.table import read_biom
from aam.data.trees import read_tree
from aam.evaluate.clade_tests import Clades
from aam.evaluate.method_scores import headline_score
from aam.learners.super_learner import learners_by_target, super_learner
from aam.stages.clade_losses import measure_clade_losses
from aam.stages.super_learner import keep_super_learner

TARGETS = {"regression": [""], "classification": [""], "several": ["age", "weight"]}


def name_some(paths, targets: list[str], folder) -> dict:
    """Return tables that name the clade of most features for each target, and files of them."""
    view = read_biom(paths["views"][0])
    tree = read_tree(paths["tree"], view.feature_ids)
    clades = Clades.of_table(view.counts, view.feature_ids, tree)
    sizes = [len(clades.features(node)) for node in range(1, len(clades.end_B))]
    members = clades.features(1 + int(np.argmax(sizes)))
    names = [name for at, name in enumerate(view.feature_ids) if at in members]
    return write_clades(folder, view.feature_ids, names, targets)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_answer_whose_fits_and_weights_are_made_again(
    augmented, kind, tmp_path
):
    study = write_study(tmp_path, kind, augmented.table, augmented.sequences)
    named = name_some(study.paths, TARGETS[kind], tmp_path)
    given = {name: path for name, path in study.paths.items() if name != "distances"} | named
    settings = SuperLearnerSettings(**study.settings, dataset="d", task="t", answer="first")
    outputs = {"directory": tmp_path / "kept", "digest": tmp_path / "kept.json"}
    keep_super_learner(**given, settings=settings, **as_outputs(outputs))
    tables = {name: study.paths[name] for name in ("baselines", "nested_baselines")}
    measure_clade_losses(model=outputs["directory"], **tables, losses_out=tmp_path / "losses.tsv")
    losses = read_results(tmp_path / "losses.tsv")

    learners = learners_by_target(
        read_predictions(tables["baselines"]), pd.read_parquet(tables["nested_baselines"])
    )
    units = units_of(study.folds.set_index("sample-id")["group"])
    for target, mixed in learners.items():
        predictions = super_learner(mixed, units).predictions
        row = losses[losses["target"] == target] if target else losses
        is_error = kind != "classification"
        wanted = headline_score("regression" if is_error else kind, predictions)
        assert row["score"].item() == pytest.approx(wanted, rel=5e-6)
        assert row["loss"].item() != 0
        assert np.isfinite(row["loss"].item())


def test_where_no_clade_is_named_nothing_is_mixed(augmented, tmp_path, monkeypatch):
    study = write_study(tmp_path, "regression", augmented.table, augmented.sequences)
    named = name_some(study.paths, [], tmp_path)
    given = {name: path for name, path in study.paths.items() if name != "distances"} | named
    settings = SuperLearnerSettings(**study.settings, dataset="d", task="t", answer="first")
    outputs = {"directory": tmp_path / "kept", "digest": tmp_path / "kept.json"}
    keep_super_learner(**given, settings=settings, **as_outputs(outputs))
    monkeypatch.delattr("aam.stages.clade_losses.super_learner")
    tables = {name: study.paths[name] for name in ("baselines", "nested_baselines")}
    measure_clade_losses(model=outputs["directory"], **tables, losses_out=tmp_path / "losses.tsv")
    assert (tmp_path / "losses.tsv").read_text() == "clade\tscore\tloss\tlow\thigh\n"

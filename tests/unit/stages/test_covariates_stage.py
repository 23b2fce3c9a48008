"""From the metadata of a study to what its scores say of the covariates."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from baseline_studies import KINDS, BaselineStudy, write_study
from stage_calls import as_outputs

from aam.config.settings.tasks import SampleGroups, ScoreSettings
from aam.data.metadata import write_metadata
from aam.data.predictions import read_predictions
from aam.evaluate.task_report import TaskReport
from aam.learners import covariate_methods as methods
from aam.learners.baselines import decision_trees
from aam.stages.covariates import fit_covariates
from aam.stages.score import score_task
from aam.util.errors import InputError


@pytest.fixture(scope="module", params=KINDS)
def study(request, augmented, tmp_path_factory) -> BaselineStudy:
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decision_trees, "WHOLE_TREES", 8)
        patch.setattr(decision_trees, "TREES", 8)
        return write_study(folder, request.param, augmented.table, augmented.sequences)


@pytest.fixture
def answered(study, tmp_path, monkeypatch) -> Callable[..., TaskReport]:
    """Return what fits covariates and scores the task."""
    monkeypatch.setattr(methods, "TREES", 8)

    def answer(metadata: pd.DataFrame, covariates: list[str] | None) -> TaskReport:
        files = {name: study.paths[name] for name in ("baselines", "nested_baselines", "folds")}
        files |= {"metadata": tmp_path / "metadata"}
        write_metadata(files["metadata"], metadata, {})
        settings = {key: study.settings[key] for key in ("kind", "classes", "bounds")}
        if covariates is not None:
            files |= {name: tmp_path / name for name in ("covariates", "nested_covariates")}
            fit_covariates(
                folds=files["folds"],
                views=study.paths["views"],
                metadata=files["metadata"],
                covariates=covariates,
                **settings,
                predictions_out=files["covariates"],
                nested_out=files["nested_covariates"],
            )
        several = [name for name in study.folds if name.startswith("observed:")]
        outputs = {name: tmp_path / name for name in ("scores", "predictions")}
        score_task(
            **files,
            table=study.paths["table"],
            rarefied=study.paths["views"][0],
            settings=ScoreSettings(
                **settings,
                dataset="d",
                task="t",
                answer="first",
                columns=[name.removeprefix("observed:") for name in several] or ["label"],
                structure=SampleGroups(column=None, stated=False),
                report_by=[],
                covariates=covariates,
            ),
            **as_outputs(outputs),
        )
        return TaskReport.read(outputs["scores"])

    return answer


def metadata_of(study: BaselineStudy, **columns) -> pd.DataFrame:
    """Return metadata in another order than that of the folds."""
    frame = pd.DataFrame(columns, dtype=object)
    frame.index = pd.Index(study.folds["sample-id"], name="sample-id")
    return frame.iloc[::-1]


def test_every_target_is_answered_three_times_and_the_answer_of_the_page_stays(
    study, answered, tmp_path
):
    rng = np.random.default_rng(0)
    samples = len(study.folds)
    observed = study.folds["observed"]
    # What covariates say is joined by sample ID: in another order they would say nothing.
    known = {"age": observed.map(str)} if not study.classes else {"sex": observed}
    frame = metadata_of(study, **known, site=rng.choice(["a", "b"], samples))
    without = answered(frame, None)
    report = answered(frame, [*frame.columns])
    for target, before in zip(report.targets, without.targets, strict=True):
        found = target.addition
        assert found is not None
        assert found.covariates == tuple(frame.columns)
        name = report.headline
        assert found.features.score == pytest.approx(target.best.scores[name])
        guess = found.alone.guessing
        assert guess.skill(report.kind) > 0.7
        assert found.both.guessing.skill(report.kind) > 0.5
        assert target.model_copy(update={"addition": None}) == before
    # The file of a task without covariates has no such key.
    assert "addition" not in without.model_dump_json()
    # Made again, all files are the same.
    names = ("covariates", "nested_covariates", "scores")
    first = [(tmp_path / name).read_bytes() for name in names]
    answered(frame, [*frame.columns])
    assert [(tmp_path / name).read_bytes() for name in names] == first
    table = read_predictions(tmp_path / "covariates")
    assert [*table["baseline"].unique()] == [*methods.ALONE, *methods.JOINT]


def test_a_covariate_that_is_not_there_is_named(study, answered):
    frame = metadata_of(study, age=[str(number) for number in range(len(study.folds))])
    with pytest.raises(InputError, match="'agee'"):
        answered(frame, ["agee"])

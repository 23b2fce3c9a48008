"""What features add to covariates: a target predicted from either alone, and from both.

Covariates alone are a mixture of a spline and a forest, features alone are the leading method of
the page. What sees both mixes four: these two, and a ridge and a forest that learn from the
features what the spline leaves (`aam.learners.covariate_methods`). All weights are nested: no model
behind the prediction of a fold has seen the fold.

What is mixed was chosen on simulated studies: without the features alone, those that covariates say
nothing about are predicted worse; without the ridge and the forest, features that say little beside
strong covariates add nothing (docs/experiments.md).
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from aam.data.folds import units_of
from aam.evaluate.comparison import compare_with_guessing, measure_difference
from aam.evaluate.method_scores import headline_score
from aam.evaluate.task_report import Addition, Answered
from aam.learners.covariate_methods import ALONE, JOINT
from aam.learners.super_learner import Learner, mix_to_one, super_learner


def measure_addition(
    kind: str,
    *,
    covariates: Sequence[str],
    learners: Mapping[str, Learner],
    features: Mapping[str, Learner],
    group: pd.Series,
    classes: Sequence[str] = (),
) -> Addition:
    """Measure what features add to covariates.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    covariates
        Names of the covariates.
    learners
        What `aam.learners.covariate_methods` predicts, by the names of its methods.
    features
        What methods predict from features, all that the leading method mixes, or that one.
    group
        Group of each sample, by sample ID; "" where a sample is a unit by itself.
    classes
        Classes of an ordinal target, the lowest first.
    """
    units = units_of(group)
    alone = mix_to_one({name: learners[name] for name in ALONE}, units)
    from_features = mix_to_one(features, units)
    mixed = super_learner(
        {
            "covariates": alone,
            "features": from_features,
            **{name: learners[name] for name in JOINT},
        },
        units,
    )

    def answer(predictions: pd.DataFrame) -> Answered:
        scored = _scored(predictions)
        groups_N = group.loc[scored["sample-id"]].to_numpy()
        return Answered(
            score=headline_score(kind, scored),
            guessing=compare_with_guessing(kind, scored, groups_N, classes),
        )

    both = _scored(mixed.predictions)
    return Addition(
        covariates=tuple(covariates),
        alone=answer(alone.predictions),
        features=answer(from_features.predictions),
        both=answer(both),
        of_features=measure_difference(kind, both, _scored(alone.predictions), group),
        of_covariates=measure_difference(kind, both, _scored(from_features.predictions), group),
        weights=dict(mixed.mixture.weights),
    )


def _scored(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of fold 0 and above."""
    return predictions[predictions["fold"] >= 0]

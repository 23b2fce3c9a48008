"""What a column, or the number of reads, leaves of predictions: small simulated studies."""

import numpy as np
import pandas as pd
import pytest
from reference_statistics import median_elsewhere
from scipy import stats

from aam.data.confounding import Levels, Observed, RivalScore, list_rivals
from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.rivals import _judge, measure_rivals, p_within, score_within
from aam.evaluate.task_report import WithinLevels

CLASSES = ["ill", "well"]


def study(is_ill, certainty, fold, unit=None):
    """Return target and predictions of people by how sure a method is that each is ill."""
    observed = np.where(is_ill, *CLASSES)
    predictions = pd.DataFrame(
        {
            "sample-id": [f"s{number}" for number in range(len(is_ill))],
            "fold": fold,
            "observed": observed,
            "predicted": np.where(certainty > 0.5, *CLASSES),
            "probability:ill": certainty,
            "probability:well": 1 - certainty,
        }
    )
    target = predictions.set_index("sample-id")["observed"]
    units = np.arange(len(is_ill)).astype(str) if unit is None else unit.astype(str)
    return Observed.from_values(target, kind="classification", fold=fold, units=units), predictions


def measured(observed, predictions, column=None, name="sex", **numbers):
    index = pd.Index(predictions["sample-id"])
    metadata = pd.DataFrame(index=index)
    if column is not None:
        metadata[name] = np.asarray(column, object)
    given = {key: pd.Series(values, index=index) for key, values in numbers.items()}
    rivals = list_rivals(metadata, targets=["diagnosis"], numbers=given)
    return measure_rivals(observed, predictions, rivals, skill=skill(observed, predictions), seed=0)


def skill(observed, predictions):
    groups = observed.unit_N.astype(str)
    return compare_with_guessing(observed.kind, predictions, groups).skill(observed.kind)


def people(rng, n=200):
    """Return people of whom 75 % of the women and 25 % of the men are ill, and their folds."""
    is_woman = rng.random(n) < 0.5
    is_ill = rng.random(n) < np.where(is_woman, 0.75, 0.25)
    return is_woman, is_ill, np.arange(n) % 5


def test_a_method_that_learned_the_sex_alone_has_nothing_left():
    rng = np.random.default_rng(0)
    is_woman, is_ill, fold = people(rng)
    certainty = np.clip(np.where(is_woman, 0.7, 0.3) + rng.normal(0, 0.15, 200), 0.01, 0.99)
    (sex,) = measured(*study(is_ill, certainty, fold), np.where(is_woman, "f", "m"))
    assert sex.left == "nothing"
    assert (sex.role, sex.exactness, sex.guessing) == ("circumstance", None, 0.5)
    assert sex.score == pytest.approx(0.75, abs=0.07)
    assert sex.within.score == pytest.approx(0.5, abs=0.07)
    assert sex.within.p > 0.05
    assert sex.within.shrinkage > 2 * sex.within.error


def test_sex_explains_a_part_where_a_method_learned_more():
    rng = np.random.default_rng(1)
    is_woman, is_ill, fold = people(rng)
    base = 0.5 + np.where(is_woman, 0.12, -0.12) + np.where(is_ill, 0.12, -0.12)
    certainty = np.clip(base + rng.normal(0, 0.15, 200), 0.01, 0.99)
    (sex,) = measured(*study(is_ill, certainty, fold), np.where(is_woman, "f", "m"))
    assert sex.left == "less"
    assert sex.within.p < 0.001
    assert 0.6 < sex.within.score < 0.85


def test_a_method_that_reads_the_disease_loses_nothing_to_the_sex():
    rng = np.random.default_rng(2)
    is_woman, is_ill, fold = people(rng)
    certainty = np.clip(np.where(is_ill, 0.8, 0.2) + rng.normal(0, 0.2, 200), 0.01, 0.99)
    (sex,) = measured(*study(is_ill, certainty, fold), np.where(is_woman, "f", "m"))
    assert sex.p < 0.01, "sex says a part of the disease"
    assert sex.left == "all"
    assert sex.within.score > 0.85


def test_reads_alone_tell_the_disease():
    """Ill people have a fifth of the reads; on rarefied reads a method hardly tells them."""
    rng = np.random.default_rng(3)
    is_ill = rng.random(150) < 0.5
    reads = rng.lognormal(np.where(is_ill, 9.3, 11.0), 0.5)
    certainty = np.clip(0.5 + (10.2 - np.log(reads)) / 9 + rng.normal(0, 0.2, 150), 0.01, 0.99)
    (found,) = measured(*study(is_ill, certainty, np.arange(150) % 5), reads=reads)
    assert (found.name, found.role) == ("reads", "reads")
    assert found.score > 0.85
    assert found.left == "nothing"
    richness = measured(*study(is_ill, certainty, np.arange(150) % 5), richness=reads)
    assert richness[0].left == "less", "richness is of the reads themselves"


def test_a_plate_that_is_the_disease_leaves_nothing_to_compare():
    is_ill = np.arange(40) % 2 == 0
    certainty = np.where(is_ill, 0.9, 0.1)
    plate = np.where(is_ill, "p1", "p2")
    found = measured(*study(is_ill, certainty, np.arange(40) // 2 % 5), plate, "plate")
    facts = [(one.exactness, one.within, one.left) for one in found]
    assert facts == [("exactly", None, "nothing")]


def test_a_plate_that_is_nearly_the_disease_is_a_caution_where_predictions_hold_within_it():
    """Six of a hundred are on the plate of the others, and all are predicted right."""
    is_ill = np.arange(200) % 2 == 0
    is_there = is_ill.copy()
    is_there[:24] = ~is_there[:24]
    certainty = np.where(is_ill, 0.9, 0.1)
    plate = np.where(is_there, "p1", "p2")
    observed = study(is_ill, certainty, np.arange(200) // 2 % 5)
    (found,) = measured(*observed, plate, "plate")
    assert found.exactness == "nearly" or found.score > 0.85
    assert found.within.score == 1.0
    assert found.left in ("less", "all")


def test_columns_of_noise_and_methods_of_noise_raise_no_light():
    """Of 200 columns that have nothing to do with the disease."""
    rng = np.random.default_rng(4)
    is_ill = rng.random(80) < 0.4
    certainty = np.clip(np.where(is_ill, 0.6, 0.4) + rng.normal(0, 0.25, 80), 0.01, 0.99)
    observed, predictions = study(is_ill, certainty, np.arange(80) % 5)
    lights = 0
    for _ in range(10):
        columns = {}
        for number in range(20):
            columns[f"run {number}"] = rng.integers([2, 4, 9][number % 3], size=80).astype(str)
        metadata = pd.DataFrame(columns, index=predictions["sample-id"])
        rivals = list_rivals(metadata, targets=["diagnosis"])
        gained = skill(observed, predictions)
        found = measure_rivals(observed, predictions, rivals, skill=gained, seed=0)
        lights += any(one.left != "all" for one in found)
    assert lights <= 2


def test_repeated_people_are_one_person_each():
    """Ten people of forty samples: a sex that happens to be that of the ill is no evidence."""
    person = np.arange(400) % 10
    is_ill = person % 2 == 0
    certainty = np.clip(np.where(is_ill, 0.55, 0.45), 0.01, 0.99)
    sex = np.where(np.isin(person, [0, 2, 4, 1]), "f", "m")
    (by_person,) = measured(*study(is_ill, certainty, person // 2, person), sex)
    assert by_person.p > 0.05
    assert by_person.left == "all"
    (by_sample,) = measured(*study(is_ill, certainty, person // 2), sex)
    assert by_sample.p < 0.01


def of_town(town, age, predicted):
    """Return what a town leaves of predicted ages."""
    ids = [f"s{number}" for number in range(len(age))]
    fold = np.arange(len(age)) % 5
    predictions = pd.DataFrame(
        {"sample-id": ids, "fold": fold, "observed": age, "predicted": predicted}
    )
    target = predictions.set_index("sample-id")["observed"]
    units = np.arange(len(age)).astype(str)
    observed = Observed.from_values(target, kind="regression", fold=fold, units=units)
    (found,) = measured(observed, predictions, [f"t{one}" for one in town], "town")
    return found


def test_numbers_within_the_levels_of_a_town():
    """Ages differ by town; one method learned the town, another the age, one of both is shifted."""
    rng = np.random.default_rng(5)
    n = 200
    town = rng.integers(4, size=n)
    age = 20 + 12 * town + rng.normal(0, 6, n)
    guesses = {
        "town": 20 + 12 * town + rng.normal(0, 1, n),
        "age": age + rng.normal(0, 2, n),
        "shifted": age + 5 * town + rng.normal(0, 2, n),
    }
    left = {name: of_town(town, age, predicted) for name, predicted in guesses.items()}
    assert left["town"].left == "nothing"
    assert left["age"].left != "nothing"
    assert left["age"].within.score < 0.5 * left["age"].within.guessing
    assert left["shifted"].within.score == pytest.approx(left["age"].within.score, rel=0.3)


def test_the_error_of_what_is_left_of_numbers_is_its_spread_over_studies():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        town = rng.integers(4, size=100)
        age = 20 + 12 * town + rng.normal(0, 6, 100)
        found.append(of_town(town, age, age + rng.normal(0, 4, 100)).within)
    spread = np.std([within.shrinkage for within in found], ddof=1)
    assert np.mean([within.error for within in found]) == pytest.approx(spread, rel=0.4)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_town_that_says_the_number_exactly_leaves_nothing_whatever_its_size(scale):
    """As a rank that is one of the town's; one person would leave the rest without a spread."""
    town = np.arange(60) % 3
    fold = np.arange(60) // 12
    for rank in (town, np.where(np.arange(60) == 7, 9, town)):
        predictions = pd.DataFrame(
            {
                "sample-id": [f"s{number}" for number in range(60)],
                "fold": fold,
                "observed": scale * rank,
                "predicted": scale * (rank + 0.1 * np.cos(np.arange(60))),
            }
        )
        target = predictions.set_index("sample-id")["observed"]
        units = np.arange(60).astype(str)
        observed = Observed.from_values(target, kind="regression", fold=fold, units=units)
        (found,) = measured(observed, predictions, [f"t{one}" for one in town], "town")
        assert np.isfinite(found.score)
        assert found.score < found.guessing
        if rank is town:
            assert (found.exactness, found.within, found.left) == ("exactly", None, "nothing")
        else:
            assert np.isfinite([found.within.shrinkage, found.within.error]).all()


def jackknife(statistic, unit):
    """Return the standard error of a statistic of rows by leaving out one unit at a time."""
    found = np.array([statistic(unit != one) for one in np.unique(unit)])
    units = len(found)
    return np.sqrt((units - 1) / units * ((found - found.mean()) ** 2).sum())


def p_of_rest(target, guess, level, fold, unit):
    """Return the p-value of what least squares on levels and folds leave of both to have in common.

    Units that have nothing left are not counted.
    """
    dummies = [codes[:, None] == np.unique(codes) for codes in (level, fold)]
    design = np.concatenate(dummies, axis=1).astype(float)
    residual = np.eye(len(level)) - design @ np.linalg.pinv(design)
    product = (residual @ target * (residual @ guess)).sum(axis=1)
    sums = np.bincount(unit, weights=product)
    sums = sums[np.abs(sums) > 1e-9]
    return stats.t.sf(sums.sum() / np.sqrt(2 * (sums**2).sum()), len(sums) - 1)


def draw_classes(seed):
    """Return a target of three classes of 45 people of two samples, predictions, and levels."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(45), 2)
    names = np.array(["a", "b", "c"])
    observed = names[rng.integers(3, size=90)]
    # In the last level only one class is in several people.
    level = np.append(rng.integers(3, size=80), [3] * 10)
    observed[80:] = ["a"] * 6 + ["b", "b", "c", "c"]
    predicted = np.where(rng.random(90) < 0.6, observed, names[rng.integers(3, size=90)])
    share = rng.uniform(0.1, 1, (90, 3)) + (predicted[:, None] == names)
    share /= share.sum(axis=1, keepdims=True)
    columns = {f"probability:{name}": share[:, i] for i, name in enumerate(names)}
    table = {"sample-id": [f"s{i}" for i in range(90)], "fold": unit % 5}
    predictions = pd.DataFrame(table | {"observed": observed, "predicted": predicted} | columns)
    target = predictions.set_index("sample-id")["observed"]
    known = Observed.from_values(
        target, kind="classification", fold=unit % 5, units=unit.astype(str)
    )
    return known, predictions, level, unit


def test_classes_within_levels_are_scored_by_recalls_of_levels_that_have_them_in_several_people():
    observed, predictions, level, unit = draw_classes(0)
    truth = predictions["observed"].to_numpy(str)
    is_right = truth == predictions["predicted"].to_numpy(str)
    cells, weight = [], {}
    for one in range(3):
        of_level = [(level == one) & (truth == name) for name in "abc"]
        kept = [cell for cell in of_level if len(np.unique(unit[cell])) > 1]
        weight[one] = len(kept) ** 2 / sum(1 / cell.sum() for cell in kept)
        cells += [(one, len(kept), cell) for cell in kept]
    total = sum(weight.values())

    def within(is_in):
        recalls = [
            weight[one] / total / kept * is_right[cell & is_in].mean() for one, kept, cell in cells
        ]
        return sum(recalls)

    guessing = sum(weight[one] / total / kept**2 for one, kept, _ in cells)

    def shrinkage(is_in):
        of_all = np.mean([is_right[(truth == name) & is_in].mean() for name in "abc"])
        return (of_all - 1 / 3) / (2 / 3) - (within(is_in) - guessing) / (1 - guessing)

    everywhere = np.ones(90, bool)
    found = score_within(observed, predictions, level)
    assert (found.n, found.levels) == (80, 3)
    assert found.score == pytest.approx(within(everywhere))
    assert found.guessing == pytest.approx(guessing)
    assert found.shrinkage == pytest.approx(shrinkage(everywhere))
    assert found.error == pytest.approx(jackknife(shrinkage, unit))
    target = (truth[:, None] == np.array(["a", "b", "c"])).astype(float)
    shares = predictions[["probability:a", "probability:b", "probability:c"]].to_numpy()
    expected = p_of_rest(target, shares, level, unit % 5, unit)
    assert found.p == pytest.approx(expected, rel=1e-6)
    assert p_within(observed, predictions, level) == found.p


def test_a_class_of_a_level_is_scored_where_several_people_have_it():
    """One level has two people of each class, one has one person who is well, one has no other."""
    diagnosis = np.array(["ill"] * 4 + ["well"] * 4 + ["ill"] * 4 + ["well"] * 2 + ["ill"] * 4)
    level = np.repeat([0, 1, 2], [8, 6, 4])
    unit = np.arange(18) // 2
    is_ill = diagnosis == "ill"
    observed, predictions = study(is_ill, np.where(is_ill, 0.9, 0.1), unit % 3, unit)
    found = score_within(observed, predictions, level)
    assert (found.n, found.levels, found.score, found.guessing) == (8, 1, 1.0, 0.5)
    assert score_within(observed, predictions, np.where(level == 0, 2, level)) is not None
    assert score_within(observed, predictions, np.arange(18) // 4) is None


def draw_numbers(seed):
    """Return numbers of 40 people of two samples, predictions, and levels that say a part."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(40), 2)
    fold = unit % 4
    level = np.append(rng.integers(3, size=76), [3, 3, 4, 4])
    # One level lies in one fold, and cannot be predicted from another.
    level[(level == 2) & (fold != 1)] = 0
    value = 10.0 * level + rng.normal(0, 6, 80)
    predicted = value + 3.0 * level + rng.normal(0, 4, 80)
    ids = [f"s{i}" for i in range(80)]
    predictions = pd.DataFrame(
        {"sample-id": ids, "fold": fold, "observed": value, "predicted": predicted}
    )
    target = predictions.set_index("sample-id")["observed"]
    known = Observed.from_values(target, kind="regression", fold=fold, units=unit.astype(str))
    return known, predictions, level, unit


def test_numbers_within_levels_are_scored_around_the_medians_of_their_level_in_other_folds():
    observed, predictions, level, unit = draw_numbers(1)
    fold = predictions["fold"].to_numpy()
    value, predicted = (predictions[name].to_numpy() for name in ("observed", "predicted"))
    is_kept = np.array([len(np.unique(fold[level == one])) > 1 for one in level])
    assert 0 < is_kept.sum() < 80
    in_fold = np.bincount(fold)[fold]
    rest = value - predicted
    errors = {
        "within": np.abs(rest - median_elsewhere(rest, level, fold)) * is_kept / in_fold,
        "guessing within": np.abs(value - median_elsewhere(value, level, fold)) * is_kept / in_fold,
        "all": np.abs(rest) / in_fold,
        "guessing": np.abs(value - median_elsewhere(value, np.zeros(80), fold)) / in_fold,
    }

    def shrinkage(is_in):
        sums = {name: error[is_in].sum() for name, error in errors.items()}
        within = sums["within"] / sums["guessing within"]
        return within - sums["all"] / sums["guessing"]

    found = score_within(observed, predictions, level)
    assert (found.n, found.levels) == (is_kept.sum(), len(np.unique(level[is_kept])))
    weight = (is_kept / in_fold).sum()
    assert found.score == pytest.approx(errors["within"].sum() / weight)
    assert found.guessing == pytest.approx(errors["guessing within"].sum() / weight)
    assert found.shrinkage == pytest.approx(shrinkage(np.ones(80, bool)))
    assert found.error == pytest.approx(jackknife(shrinkage, unit))
    ranks = [stats.rankdata(values)[:, None] for values in (value, predicted)]
    expected = p_of_rest(*ranks, level, fold, unit)
    assert found.p == pytest.approx(expected, rel=1e-6)
    each_their_own = np.arange(80) // 2
    assert score_within(observed, predictions, each_their_own) is None, "a person is in one fold"


def test_predictions_are_evidence_within_levels_where_they_point_the_right_way():
    number = np.arange(40)
    is_ill = number % 2 == 0
    fold = number // 2 % 4
    level = np.zeros(40, int)
    rng = np.random.default_rng(0)
    certainty = np.where(is_ill, 0.8, 0.2) + rng.uniform(-0.1, 0.1, 40)
    assert p_within(*study(is_ill, certainty, fold), level) < 1e-4
    assert p_within(*study(is_ill, 1 - certainty, fold), level) > 1 - 1e-4


def test_what_is_constant_or_one_persons_or_said_by_the_level_is_no_evidence():
    number = np.arange(40)
    is_ill = number % 2 == 0
    fold = number // 2 % 4
    level = np.zeros(40, int)
    certainty = np.where(is_ill, 0.8, 0.2) + np.random.default_rng(0).uniform(-0.1, 0.1, 40)
    assert p_within(*study(is_ill, np.full(40, 0.5), fold), level) == 1.0
    assert p_within(*study(is_ill, certainty, fold, unit=number * 0), level) == 1.0
    assert p_within(*study(is_ill, certainty, fold), number % 2) == 1.0


def test_the_error_of_many_people_is_that_of_a_thousand_groups_of_them():
    number = np.arange(2100)
    rng = np.random.default_rng(3)
    is_ill = rng.random(2100) < 0.5
    certainty = np.clip(np.where(is_ill, 0.6, 0.4) + rng.normal(0, 0.2, 2100), 0.01, 0.99)
    level = rng.integers(2, size=2100)
    observed, predictions = study(is_ill, certainty, number % 5)
    joined, _ = study(is_ill, certainty, number % 5, number % 1000)
    expected = score_within(joined, predictions, level).error
    assert score_within(observed, predictions, level).error == pytest.approx(expected)


IS_ILL = np.arange(60) % 2 == 0
HALF = np.where(np.arange(60) < 30, IS_ILL, False)
RIVALS = [
    Levels("noise", "technical", np.random.default_rng(0).integers(2, size=60)),
    Levels("z", "technical", IS_ILL.astype(int)),
    Levels("half", "circumstance", HALF.astype(int)),
    Levels("a", "circumstance", IS_ILL.astype(int)),
]
"""Two that say who is ill, one that says it of half of the people, and one that says nothing."""


def test_the_rival_of_most_accuracy_comes_first_and_names_decide_among_equals():
    fold = np.arange(60) // 2 % 5
    observed, predictions = study(IS_ILL, np.where(IS_ILL, 0.9, 0.1), fold)
    found = measure_rivals(observed, predictions, RIVALS, skill=1.0, seed=0)
    assert [one.name for one in found] == ["a", "z", "half", "noise"]
    assert [one.role for one in found] == ["circumstance", "technical", "circumstance", "technical"]


def test_the_rival_of_least_error_comes_first():
    fold = np.arange(60) // 2 % 5
    value = np.where(IS_ILL, 10.0, 0.0) + np.random.default_rng(1).normal(size=60)
    ids = [f"s{number}" for number in range(60)]
    target = pd.Series(value, ids)
    units = np.arange(60).astype(str)
    observed = Observed.from_values(target, kind="regression", fold=fold, units=units)
    columns = {"sample-id": ids, "fold": fold, "observed": value, "predicted": value}
    found = measure_rivals(observed, pd.DataFrame(columns), RIVALS, skill=1.0, seed=0)
    assert [one.name for one in found] == ["a", "z", "half", "noise"]
    assert found[0].score < found[2].score < found[3].score
    assert found[3].within is None, "what predicts nothing is not looked into"


def test_of_few_samples_no_rival_is_measured():
    number = np.arange(8)
    observed, predictions = study(number % 2 == 0, number / 8, number // 2)
    plate = Levels("plate", "technical", number % 2)
    assert measure_rivals(observed, predictions, [plate], skill=0.5, seed=0) == ()


def rival_of(skill=0.5, p=0.01, exactness=None, role="circumstance"):
    """Return how well a column alone predicts a target; by default half of the way to perfect."""
    return RivalScore(
        name="sex", role=role, score=0.75, guessing=0.5, skill=skill, exactness=exactness, p=p
    )


def within_levels(p=0.01, shrinkage=0.3, error=0.1):
    """Return how well predictions do within levels: by default they lose three tenths of skill."""
    return WithinLevels(
        n=40, levels=2, score=0.7, guessing=0.5, shrinkage=shrinkage, error=error, p=p
    )


CERTAIN = {"skill": 0.6, "p": 0.01}
"""Skill and p-value of predictions that are better than guessing."""


@pytest.mark.parametrize(
    ("rival", "left", "given", "expected"),
    [
        # The rival predicts by chance, or no better than guessing.
        (rival_of(p=0.05), within_levels(), CERTAIN, "all"),
        (rival_of(p=0.049), within_levels(), CERTAIN, "less"),
        (rival_of(skill=0.0), within_levels(), CERTAIN, "all"),
        # Predictions that say nothing have nothing to lose, unless the rival is known to be exact.
        (rival_of(), within_levels(p=0.5), {"skill": 0.6, "p": 0.05}, "all"),
        (rival_of(exactness="exactly"), None, {"skill": 0.6, "p": 0.05}, "nothing"),
        (rival_of(p=0.5, exactness="nearly"), None, CERTAIN, "all"),
        (rival_of(p=0.5, exactness="nearly", role="technical"), None, CERTAIN, "nothing"),
        # Nothing is left within levels, where the score is smaller: by more than a tenth of the
        # skill of 0.6, which is 0.06, and by more than 1.96 standard errors of 0.1.
        (rival_of(), within_levels(p=0.05), CERTAIN, "nothing"),
        (rival_of(), within_levels(p=0.05, shrinkage=0.05, error=0.0), CERTAIN, "less"),
        (rival_of(), within_levels(p=0.05, shrinkage=0.06, error=0.0), CERTAIN, "less"),
        (rival_of(), within_levels(p=0.05, shrinkage=0.07, error=0.0), CERTAIN, "nothing"),
        (rival_of(), within_levels(p=0.05, shrinkage=0.19, error=0.1), CERTAIN, "less"),
        (rival_of(), within_levels(p=0.05, shrinkage=0.2, error=0.1), CERTAIN, "nothing"),
        (rival_of(), None, CERTAIN, "less"),
        (rival_of(exactness="nearly"), within_levels(p=0.05, shrinkage=0.0), CERTAIN, "nothing"),
        # Richness is of the reads themselves.
        (rival_of(role="richness"), within_levels(p=0.05), CERTAIN, "less"),
        (rival_of(role="reads"), within_levels(p=0.05), CERTAIN, "nothing"),
        # Something is left.
        (rival_of(), within_levels(), CERTAIN, "less"),
        (rival_of(), within_levels(shrinkage=0.0), CERTAIN, "all"),
        (rival_of(exactness="nearly"), within_levels(shrinkage=0.0), CERTAIN, "less"),
        (rival_of(skill=0.6), within_levels(shrinkage=0.0), CERTAIN, "less"),
        (rival_of(skill=0.59), within_levels(shrinkage=0.0), CERTAIN, "all"),
    ],
)
def test_what_a_rival_leaves_of_a_score(rival, left, given, expected):
    assert _judge(rival, left, **given) == expected

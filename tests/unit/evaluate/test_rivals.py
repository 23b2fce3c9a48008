"""What a column, or the number of reads, leaves of predictions: small simulated studies."""

import numpy as np
import pandas as pd
import pytest

from aam.data.confounding import Observed, list_rivals
from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.rivals import measure_rivals

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

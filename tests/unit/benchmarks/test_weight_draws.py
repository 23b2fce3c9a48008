import numpy as np
import pytest

from aam.data.predictions import DRAW
from aam.util.errors import InputError
from benchmarks.weight_draws import errors_of_sets, main


def test_independent_networks_vary_less_when_they_are_averaged():
    rng = np.random.default_rng(0)
    observed_L = rng.normal(size=50)
    predicted_DL = observed_L + rng.normal(size=(12, 50))
    alone, spread_alone = errors_of_sets(observed_L, predicted_DL, 1, np.random.default_rng(1))
    averaged, spread_averaged = errors_of_sets(
        observed_L, predicted_DL, 3, np.random.default_rng(1)
    )
    assert averaged < 0.7 * alone
    assert spread_averaged < spread_alone


def test_equal_networks_have_the_error_of_one_and_no_spread():
    observed_L = np.array([0.0, 1.0, 2.0])
    predicted_DL = np.tile(np.array([1.0, 1.0, 5.0]), (6, 1))
    for size in (1, 2, 3):
        mean, spread = errors_of_sets(observed_L, predicted_DL, size, np.random.default_rng(0))
        assert mean == pytest.approx(4 / 3)
        assert spread == pytest.approx(0)


def test_draws_of_a_table_are_found(tmp_path, capsys):
    path = tmp_path / "rank" / "predictions.tsv"
    path.parent.mkdir()
    head = ["sample-id", "observed", "predicted", *(f"{DRAW}{number}" for number in range(6))]
    lines = ["\t".join(head)]
    lines += ["\t".join([f"s{row}", str(row), "0", *["0.5"] * 6]) for row in range(4)]
    path.write_text("\n".join(lines) + "\n")
    main([str(path)])
    assert "| rank" in capsys.readouterr().out


def test_a_table_of_one_network_is_refused(tmp_path):
    path = tmp_path / "predictions.tsv"
    path.write_text("sample-id\tobserved\tpredicted\ns0\t1\t2\n")
    with pytest.raises(InputError, match=r"finetuning\.networks"):
        main([str(path)])

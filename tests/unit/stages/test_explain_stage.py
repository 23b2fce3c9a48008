import json

import numpy as np
import pandas as pd
import pytest

from aam.data.importing.metadata import load_metadata
from aam.data.samples import write_samples
from aam.data.target import Target
from aam.data.tokens import write_tokens
from aam.data.vocabulary import untokenize
from aam.model.predictor import Predictor
from aam.runtime.run_options import RunOptions
from aam.stages import explain
from aam.util.errors import InputError


@pytest.fixture(scope="module")
def inputs(tiny, new_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    files = {name: folder / name for name in ("model", "folds", "tokens", "samples")}
    sites = [["gut", "skin"][number % 2] for number in range(20)]
    target = Target.fit("classification", ["site"], [[s] for s in sites], np.ones(20, bool))
    for name, seed in (("fold0", 1), ("fold0-1", 2), ("fold1", 3)):
        encoder = new_encoder(20, seed=seed, asv_layers=1)
        Predictor(encoder, target, seed=seed).save(files["model"] / name, {})
    columns = {"sample-id": tiny.store.sample_ids, "fold": [-1, -1, *np.arange(18) % 2]}
    frame = pd.DataFrame({**columns, "observed": sites, "group": ""})
    frame.to_csv(files["folds"], sep="\t", index=False)
    tokens = tiny.tokens
    write_tokens(files["tokens"], tokens.feature_ids, tokens.tokens, tokens.lengths, {})
    write_samples(files["samples"], tiny.store, {})
    return files


def run(inputs, folder, **changes):
    outputs = {name: folder / name for name in ("importance", "check")}
    cfg = {"samples": 4, "checked": 2, "seed": 0, **changes}
    explain.run(cfg, inputs=inputs, outputs=outputs, runtime=RunOptions())
    table = pd.read_csv(outputs["importance"], sep="\t", dtype={"feature-id": str})
    return table, json.loads(outputs["check"].read_text()), outputs


def test_importance_of_the_asvs_that_held_out_samples_have(tiny, inputs, tmp_path):
    table, check, outputs = run(inputs, tmp_path, samples=100)
    assert (check["samples"], check["checked"]) == (18, 4)
    assert check["outputs"] == ["gut", "skin"]
    assert check["completeness"]["gap_max"] < 1e-3
    assert {"aam.version", "aam.settings"} <= set(check["provenance"])
    has_NU = tiny.store.view_matrix(0, 30).toarray()[2:] > 0
    expected = dict(zip(tiny.tokens.feature_ids, has_NU.sum(axis=0), strict=True))
    assert dict(zip(table["feature-id"], table["samples"], strict=True)) == {
        name: number for name, number in expected.items() if number
    }
    assert table["importance"].is_monotonic_decreasing
    assert table["importance"].iloc[0] > 0
    np.testing.assert_allclose(table["direction:gut"], -table["direction:skin"], rtol=1e-3)
    sequences = untokenize(tiny.tokens.tokens, tiny.tokens.lengths)
    known = dict(zip(tiny.tokens.feature_ids, sequences, strict=True))
    assert dict(zip(table["feature-id"], table["sequence"], strict=True)).items() <= known.items()
    again = run(inputs, tmp_path / "again", samples=100)[2]
    assert again["importance"].read_bytes() == outputs["importance"].read_bytes()


def test_the_seed_chooses_samples_of_each_fold_and_qiime_2_reads_the_table(inputs, tmp_path):
    table, check, outputs = run(inputs, tmp_path)
    assert (check["samples"], check["checked"]) == (8, 4)
    metadata = load_metadata(outputs["importance"])
    assert list(metadata.index) == table["feature-id"].tolist()
    assert list(metadata.columns) == list(table.columns[1:])
    other, _, _ = run(inputs, tmp_path, seed=1)
    assert not table.equals(other)


def test_a_fold_without_a_model_is_the_users_problem(inputs, tmp_path):
    frame = pd.read_csv(inputs["folds"], sep="\t", dtype=str, na_filter=False)
    frame.loc[3, "fold"] = "2"
    frame.to_csv(tmp_path / "folds.tsv", sep="\t", index=False)
    with pytest.raises(InputError, match=r"no folder fold2; .*Hint: fine-tune again"):
        run({**inputs, "folds": tmp_path / "folds.tsv"}, tmp_path)

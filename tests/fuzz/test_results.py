"""Damaged results, checkpoints and model directories: refused, or read as they were written."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fuzzing import VALUES, damaged, fuzzed, refused
from hypothesis import given
from hypothesis import strategies as st
from model_directories import write_models, write_pretrained

from aam.data.target import Target
from aam.inference.bundle import ModelBundle
from aam.inference.pretrained import PretrainedEncoder
from aam.model.asv_encoders import Architecture
from aam.model.encoder import build_encoder
from aam.model.known_asvs import KnownAsvs
from aam.model.predictor import Predictor
from aam.model.store import KNOWN_ASVS
from aam.train.checkpoint import Checkpoints
from aam.util.digests import MANIFEST, write_manifest
from aam.util.records import check_digests, write_digests

SITE = Target.fit("classification", ("site",), [["gut"], ["skin"]], np.ones(2, bool))


@fuzzed
@given(data=st.data())
def test_every_change_of_a_result_is_seen(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "folds.tsv"
    path.write_bytes(b"sample-id\tfold\ns1\t0\ns2\t1\n" * 4)
    write_digests([path])
    changed = data.draw(st.sampled_from([path, tmp_path / ".folds.tsv.sha256"]))
    before, cut = changed.read_bytes(), bytes.strip if changed != path else bytes
    after = data.draw(damaged(before))
    changed.write_bytes(after)
    assert refused(lambda: check_digests([path])) == (cut(before) != cut(after))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("checkpoints")
    run = Checkpoints(folder, "a", background=False)
    for step in (1, 2):
        weights = torch.full((9, 8), 1.0 / step)
        run.save(step, {"weights": weights, "history": [{"loss": step / 3, "step": step}]})
    return folder, [
        torch.load(folder / "a" / f"step-{step:09d}.pt", weights_only=True) for step in (1, 2)
    ]


@fuzzed
@given(data=st.data())
def test_a_damaged_checkpoint_is_read_as_written_or_not_at_all(
    checkpoint: tuple[Path, list[Any]], tmp_path: Path, data: Any
) -> None:
    folder, states = checkpoint
    run = shutil.copytree(folder, tmp_path / "run", dirs_exist_ok=True)
    path = run / "a" / "step-000000002.pt"
    path.write_bytes(data.draw(damaged((folder / "a" / path.name).read_bytes())))
    found = Checkpoints(run, "a", background=False).load()
    shutil.rmtree(run)
    assert found is not None
    assert repr(found) == repr(states[found["step"] - 1])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of two models of a classification, and of a pretrained one."""
    shape, found = Architecture("transformer", 16, 2, 2, 2, 3, 2, 20), {}
    for seed in range(2):
        encoder = build_encoder(shape, seed=seed, backend="auto")
        found[f"fold{seed}"] = Predictor(encoder, SITE, seed=seed)
    folder = tmp_path_factory.mktemp("models")
    known = KnownAsvs(np.random.default_rng(0).integers(0, 4, (40, 20), np.uint8))
    write_pretrained(folder / "encoder", shape, known)
    about = pd.DataFrame({"fold": [0, 1], "observed": ["gut"] * 2, "predicted": ["gut", "skin"]})
    about.index = pd.Index(["s1", "s2"], name="sample-id")
    bundle = write_models(folder / "bundle", found, ["ACGT"], np.eye(5, 16), about)
    return {"bundle": bundle, "encoder": folder / "encoder"}


KINDS = {
    "bundle": (
        ModelBundle,
        "fold0/config.json fold1/model.safetensors asvs.txt shares.json "
        "reference.safetensors cross_validation.tsv",
    ),
    "encoder": (PretrainedEncoder, f"config.json model.safetensors {KNOWN_ASVS}"),
}


@pytest.mark.parametrize("kind", KINDS)
@fuzzed
@given(data=st.data(), listed=st.booleans())
def test_a_changed_model_is_refused_unless_somebody_made_a_whole_one(
    models: Any, kind: str, data: Any, listed: bool
) -> None:
    (reader, files), model = KINDS[kind], models[kind]
    path = model / data.draw(st.sampled_from(files.split()))
    before = {each: each.read_bytes() for each in (path, path.parent / MANIFEST, model / MANIFEST)}
    if path.suffix == ".json" and data.draw(st.booleans()):
        changed = json.dumps(data.draw(other_facts(json.loads(before[path])))).encode()
    else:
        changed = data.draw(damaged(before[path]) | st.just(before[path]))
    path.write_bytes(changed)
    for folder in (path.parent, model) if listed else ():
        write_manifest(folder)
    try:
        assert refused(lambda: reader.load(model)) == (changed != before[path]) or listed
    finally:
        for each, content in before.items():
            each.write_bytes(content)


@st.composite
def other_facts(draw: Any, facts: Any) -> Any:
    """Return JSON one value of which is another, or not there."""
    if not isinstance(facts, dict | list) or not facts or draw(st.integers(0, 5)) == 0:
        return draw(VALUES | st.sampled_from([0, -1, 10**9, 1e308]))
    keys = sorted(facts) if isinstance(facts, dict) else range(len(facts))
    changed, key = facts.copy(), draw(st.sampled_from(keys))
    if draw(st.integers(0, 5)) == 0:
        del changed[key]
    else:
        changed[key] = draw(other_facts(facts[key]))
    return changed

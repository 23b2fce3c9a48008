"""First answers, and studies whose configuration asks for no networks."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from checkouts import TINY, Checkout

pytestmark = pytest.mark.workflow

WITHOUT = {
    **TINY,
    "models": {},
    "predictions": {"newcomers": {"tasks": ["environment", "site"]}},
    "outputs": {"qza": True},
}
AGAIN = """
import sys
import aam
folder, table, found = sys.argv[1:]
result = aam.load(folder).predict(table)
result.to_csv(found, sep="\\t", float_format="%.9g", lineterminator="\\n")
"""


def test_the_default_run_begins_with_what_the_first_answers_need(fresh: Any) -> None:
    planned = fresh.dry_run(*fresh.configured(), "--", "first")
    for message in ("Fitting the baselines of site", "Scoring the answer first to environment"):
        assert message in planned
    for network in ("Tokenizing", "Gathering the views", "Pretraining", "Fine-tuning"):
        assert network not in planned
    assert {"Putting the first answers to demo on a page"} < fresh.messages()


def test_a_study_without_models_ends_with_its_page_and_needs_no_torch(
    cold: Any, fresh: Any
) -> None:
    # A package of this name that cannot be imported, before the real one.
    (cold.root / "before" / "torch").mkdir(parents=True)
    (cold.root / "before" / "torch" / "__init__.py").write_text("raise ImportError('torch')\n")
    environment = {"PYTHONPATH": str(cold.root / "before")}
    checkout: Checkout = replace(cold, study=WITHOUT, environment=environment)
    done = checkout.run()
    assert done.returncode == 0, done.stdout[-4000:]
    results = checkout.root / "results" / "demo"
    assert "open results/demo/report.html" in done.stdout
    # Most reads of the newcomers are near those of the study.
    assert "Predictions, light" not in done.stdout
    for name in ("first.html", "report.html"):
        page = (results / name).read_text(encoding="utf-8")
        assert "environment is off by" in page
        assert "models: {base: {}}" in page
    assert not (results / "pretrain").exists()
    for task, told in (("environment", "lower"), ("site", "probability:gut")):
        predictions = results / "predict" / "first" / task / "newcomers.tsv"
        head = predictions.read_text(encoding="utf-8").partition("\n")[0].split("\t")
        assert head[:2] == ["sample-id", "predicted"]
        assert head[-3:] == ["unseen_asvs", "near_reads", "in_training"]
        assert told in head
        assert predictions.with_suffix(".qza").is_file()
        # In Python, where torch cannot be imported either.
        files = [results / "answers" / task / "first" / "super_learner"]
        files += [results / "simulated" / "new_table.biom", checkout.root / "again.tsv"]
        program = [sys.executable, "-c", AGAIN, *map(str, files)]
        subprocess.run(program, check=True, cwd=checkout.root, env=os.environ | environment)
        assert files[-1].read_bytes() == predictions.read_bytes()
    assert "Predictions for newcomers by the super learner" in page
    planning = replace(fresh, study=WITHOUT)
    assert planning.planned() == {}
    # A model that is added later finds the baselines fitted and scored.
    later = replace(planning, study={**WITHOUT, "models": TINY["models"]}).planned()
    made = ("import_table", "rarefy", "unifrac", "folds", "baselines")
    assert [rule for rule in made if rule in later] == []
    assert (later["pretrain"], later["finetune"], later["first_page"]) == (2, 4, 1)
    assert (later["score"], later["plot_answer"]) == (4, 4), "those of the networks"

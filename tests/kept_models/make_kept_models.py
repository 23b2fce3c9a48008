"""Write the kept models of this version, which later versions must read and predict alike.

`PYTHONPATH=tests python -m kept_models.make_kept_models` writes `tests/kept_models/VERSION.zip`:
of a number and of classes a folder of a super learner in which every baseline counts alike, and the
table, its sequences and the predictions. An archive is never written again.
"""

import tempfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import aam
from aam.config.baselines import BASELINES
from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.importing.sequences import load_sequences
from aam.data.rarefaction import rarefy
from aam.data.same_reads import fingerprint_samples
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.inference.with_baselines import SuperLearner
from aam.learners.kept_mixture import mixture_settings, study_facts, write_super_learner
from aam.learners.mixture import Mixture
from aam.stages.super_learner import fit_kept

HERE = Path(__file__).parent
KINDS = ("regression", "classification")
CLASSES = ["gut", "skin", "tongue"]
LABELLED, OTHERS, FEATURES, DEPTH = 24, 6, 20, 100
DIGITS = "%.9g"


def predict(folder: Path) -> str:
    """Return what the model of a folder says of the table in it, as text."""
    kept = SuperLearner.load(folder / "model")
    assert kept is not None
    table = read_biom(folder / "table.biom")
    features = kept.reads.nearest_features(table, load_sequences(folder / "sequences.fasta"))
    drawn = kept.reads.draw(table, features, table.sample_ids)
    values = pd.DataFrame(kept.predict_reads(drawn, 1)[""], table.sample_ids)
    return values.to_csv(float_format=DIGITS, lineterminator="\n")


def write_model(folder: Path, kind: str) -> None:
    """Write a model, and files of samples that it has not seen."""
    rng = np.random.default_rng(1)
    names = [f"f{number}" for number in range(FEATURES)]
    texts = {name: "".join(rng.choice(list("ACGT"), 100)) for name in names}
    level = rng.permutation(LABELLED + OTHERS) / 4
    counts = rng.poisson(12 * rng.random((LABELLED + OTHERS, FEATURES)) ** 2)
    counts[:, 0] += (8 * level).astype(int)
    counts[:, 1] += 40
    samples = [f"s{number}" for number in range(LABELLED + OTHERS)]
    table = FeatureTable(samples, names, csr_array(counts.astype(np.int64)))
    known = table.select_samples(np.arange(LABELLED))
    study = folder / "study"
    study.mkdir(parents=True)
    parts = list(names)
    while len(parts) > 1:
        parts.append(f"({parts.pop(0)}:0.1,{parts.pop(0)}:0.2)")
    (study / "tree.nwk").write_text(parts[0] + ";")
    write_fasta(study / "sequences.fasta", texts)
    rarefaction = {"depth": DEPTH, "seed": 0, "views": 2}
    views = [study / f"view{number}.biom" for number in range(2)]
    for number, path in enumerate(views):
        write_biom(path, rarefy(known, DEPTH, 0, number), {})
    observed = level[:LABELLED]
    if kind == "classification":
        observed = np.array(CLASSES)[np.digitize(observed, [2.5, 5.0])]
    fold = np.arange(LABELLED) % 4
    columns = {"sample-id": known.sample_ids, "fold": fold, "observed": observed, "group": ""}
    folds = pd.DataFrame(columns)
    folds.to_csv(study / "folds.tsv", sep="\t", index=False)
    mixed = folds.assign(predicted=observed)
    if kind == "classification":
        for name in CLASSES:
            mixed[f"probability:{name}"] = np.where(observed == name, 0.8, 0.1)
    suited = {"both", "numbers" if kind == "regression" else "classes"}
    methods = [
        name
        for name, facts in BASELINES.items()
        if not facts.is_constant and facts.tree is not False and facts.targets in suited
    ]
    settings = SuperLearnerSettings(
        kind=kind,
        classes=CLASSES if kind == "classification" else None,
        bounds=(None, None),
        baselines=methods,
        seed=0,
        dataset="d",
        task="t",
        answer="first",
        rarefaction=rarefaction,
        tree="the study",
    )
    content = mixture_settings(
        {"": Mixture.equal(methods)},
        mixed,
        settings,
        model=None,
        facts=study_facts(folds.set_index("sample-id"), read_biom(views[0]), texts),
        provenance={},
    )
    write_super_learner(
        folder / "model",
        content,
        mixed,
        folds=study / "folds.tsv",
        tree=study / "tree.nwk",
        sequences=study / "sequences.fasta",
        views=views,
        fingerprints=fingerprint_samples(table, known.sample_ids, texts),
        fit=partial(fit_kept, content),
    )
    write_biom(folder / "table.biom", table.select_samples(np.arange(LABELLED, len(samples))), {})
    write_fasta(folder / "sequences.fasta", texts)
    (folder / "expected.csv").write_text(predict(folder))


def main() -> None:
    """Write the archive of this version."""
    archive = HERE / f"{aam.__version__}.zip"
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(archive, "x", 8) as written:
        for kind in KINDS:
            write_model(Path(name) / kind, kind)
        for path in sorted(Path(name).rglob("*")):
            place = path.relative_to(name)
            if path.is_file() and place.parts[1] != "study":
                written.write(path, place)


if __name__ == "__main__":
    main()

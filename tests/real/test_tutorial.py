"""`docs/tutorial.md`, command by command, on the studies that it is about."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from checkouts import REPOSITORY, TABLE, copy_of_the_workflow
from qiime_artifacts import artifact

from aam.data.importing.table import load_table
from aam.data.table import write_biom

DATA = REPOSITORY.parent / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
]
PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(bash|yaml|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"`((?:aam|biom|git|make|mamba|pip|python|qiime|snakemake|wget) [^`]+)`")
NOT_RUN = {
    "git clone ADDRESS aam && cd aam": "a copy of this checkout stands for it",
    "make env": "the environment of the tests stands for it",
    "source .venv/bin/activate": "likewise",
    **{line: "files are made below" for line in PAGE.splitlines() if line.startswith("wget ")},
}
"""Lines of the page that are not run, and why."""
SHORTENED = "pretraining: {epochs: 120}", "pretraining: {epochs: 6}"
"""No line that is compared depends on how long the network of the page is pretrained."""
COLUMNS = (
    "sample-id barcode-sequence body-site year month day subject reported-antibiotic-usage "
    "days-since-experiment-start"
)
METADATA = "9dbfbedd90776d77c431faa914d81b0d6299fff10c364216dbcd5c6df5382cc9"
"""SHA-256 of the file that the page downloads, as a public repository records it."""


def write_study(folder: Path) -> None:
    """Write moving pictures as QIIME 2 offers it: hashes in place of sequences."""
    source = DATA / "moving-pictures"
    table = load_table(source / "table.biom")
    names = {text: hashlib.md5(text.encode()).hexdigest() for text in table.feature_ids}
    write_biom(folder / "hashed.biom", replace(table, feature_ids=[*names.values()]), {})
    counts = (folder / "hashed.biom").read_bytes()
    artifact(folder / "table.qza", "FeatureTable[Frequency]", "feature-table.biom", counts)
    fasta = "".join(f">{name}\n{text}\n" for text, name in names.items())
    artifact(folder / "rep-seqs.qza", "FeatureData[Sequence]", "dna-sequences.fasta", fasta)
    newick = (source / "tree.nwk").read_text(encoding="utf-8")
    tree = re.sub("[ACGT]{100,}", lambda found: names[found[0]], newick)
    artifact(folder / "rooted-tree.qza", "Phylogeny[Rooted]", content=tree)
    lines = (source / "metadata.tsv").read_text(encoding="utf-8").splitlines()[1:]
    cells = [line.split("\t") for line in lines]
    rows = [COLUMNS.split(), *([*row[:2], *row[3:10]] for row in cells)]
    metadata = "\r\n".join("\t".join(row) for row in rows).encode()
    assert hashlib.sha256(metadata).hexdigest() == METADATA
    (folder / "sample-metadata.tsv").write_bytes(metadata)


def test_every_command_runs_and_says_what_the_page_quotes(tmp_path: Path) -> None:
    root = copy_of_the_workflow(tmp_path / "aam").root
    # Of one's own, where there are some.
    for name in ("first", "network", "mine"):
        (root / "config" / f"{name}.yaml").unlink(missing_ok=True)
    (root / "data" / "moving-pictures").mkdir(parents=True)
    write_study(root / "data" / "moving-pictures")
    # The one that is installed would run the package of this checkout, not its copy.
    program = tmp_path / "bin" / "aam"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aam "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    assert SHORTENED[0] in PAGE
    left_out, printed = set(PROGRAM.findall(PAGE)), [""]
    for kind, block in BLOCK.findall(PAGE):
        lines = block.splitlines()
        if kind == "yaml":
            text = block.replace(*SHORTENED)
            (root / lines[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        elif kind == "text":
            assert [line for line in lines if line not in "".join(printed).splitlines()] == []
        else:
            left_out.update(line for line in lines if line in NOT_RUN)
            script = "\n".join(line for line in lines if line not in NOT_RUN)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=root,
                env=os.environ | variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert done.returncode == 0, done.stdout[-4000:]
            printed.append(done.stdout)
    assert left_out == NOT_RUN.keys()
    truth = pd.read_csv(
        root / "results/hosts/simulated/new_metadata.tsv", sep="\t", index_col=0, comment="#"
    )
    newcomers = "results/hosts/predict/first/environment/newcomers.tsv"
    predicted = pd.read_csv(root / newcomers, sep="\t", index_col=0)
    error = (predicted["predicted"] - truth["environment"]).abs()
    assert error.mean() < 0.7
    assert (error < (predicted["upper"] - predicted["lower"]) / 2).mean() > 0.7
    assert round(predicted.loc["new-03", "predicted"], 1) == 7.5
    named = re.findall(r"`(results/[^`]+)`", PAGE)
    assert len(named) > 2
    assert [name for name in named if not (root / name).exists()] == []
    (changed,) = [text for text in printed if "params have changed since last execution" in text]
    stale = {name for name, _ in TABLE.findall(changed.partition("Job stats:")[2])}
    assert {"rarefy", "baselines", "summary"} <= stale
    kept = {"import_table", "import_metadata", "import_tree", "rarefaction_curve"}
    assert not stale & kept

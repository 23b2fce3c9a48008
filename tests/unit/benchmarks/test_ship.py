import hashlib
import subprocess

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from aam.inference.pretrained import TableEmbedder
from aam.util.atomic import read_json
from benchmarks.ship import ship

README = """
| study | repository and path | blob | licence | in | kept | what |
|---|---|---|---|---|---|---|
| horse | someone/paper `tables/all.biom` (more: `other`) | `{}` | MIT | 106 | 106 | faeces |
"""


@pytest.mark.usefixtures("study")
def test_a_shipped_model_is_the_pretrained_one_in_half_the_bytes(pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    author = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    corpus, target = tmp_path / "corpus", tmp_path / "shipped"
    corpus.mkdir()
    (corpus / "README.md").write_text(README.format("2bfa" * 10))
    (corpus / "metadata.tsv").write_text("sample-id\tstudy\na\thorse\n")
    folder = pretrained["model"].parent
    link = tmp_path / "pretrained"
    link.mkdir()
    (link / "model").symlink_to(folder / "model")
    (link / "metrics.json").symlink_to(pretrained["metrics"])
    ship(link, corpus, target)
    manifest = read_json(target / "MANIFEST.json")
    assert manifest["studies"] == [
        {
            "study": "horse",
            "repository": "someone/paper",
            "path": "tables/all.biom",
            "blob": "2bfa" * 10,
            "licence": "MIT",
        }
    ]
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert manifest["commit"] == head.stdout.strip()
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((target / name).read_bytes()).hexdigest() == digest
    whole = load_file(folder / "model/model.safetensors")
    small = load_file(target / "model.safetensors")
    assert not any(x.dtype == torch.float32 for x in small.values())
    assert not any(name.startswith(("nucleotides", "faith_pd")) for name in small)
    for name, value in small.items():
        np.testing.assert_allclose(value.float(), whole[name].float(), rtol=0.01, atol=1e-6)
    assert [*TableEmbedder.load(target).heads] == ["unweighted"]

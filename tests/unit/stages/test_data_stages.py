import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from scipy.sparse import csr_array
from stage_calls import call
from unifrac_cases import needs_programs

import aam
from aam.cli import main
from aam.config import slices
from aam.config.configuration import load
from aam.config.references import reference_digest, references_folder
from aam.data.metadata import read_metadata
from aam.data.predictions import read_results
from aam.data.sequences import read_fasta, write_fasta
from aam.data.stores import SampleStore, TokenStore
from aam.data.table import FeatureTable, TableFacts, read_biom, write_biom
from aam.data.trees import read_newick
from aam.reference_tree.genes import build_reference
from aam.report.page.details import left_out_sentences
from aam.stages import import_tree, rarefaction_curve
from aam.stages.describe import describe_study
from aam.stages.find_genes import find_genes
from aam.stages.import_metadata import import_metadata
from aam.stages.import_table import import_table
from aam.stages.import_taxonomy import import_taxonomy
from aam.stages.rarefaction_curve import compute_rarefaction_curves
from aam.stages.rarefy import rarefy_table
from aam.stages.store_samples import store_samples
from aam.stages.tokenize import tokenize_asvs
from aam.util.errors import InputError
from aam.util.scikit_bio import TreeNode

HASHES = ["d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661"]
TSV = "#OTU ID\t0001\t2\tblank\n{}\t3\t0\t0\n{}\t1\t4\t0\nunseen\t0\t0\t0\n".format(*HASHES)
FASTA = "".join(f">{name}\nacgu{letter}\n" for name, letter in zip(HASHES, "AC", strict=True))
OUTPUTS = ("table", "sequences", "dropped", "tree", "metadata", "taxonomy", "genes", "notes")
STAR = TreeNode(children=[TreeNode("a", length=1.0), TreeNode("b", length=1.0)])


@pytest.fixture
def run(tmp_path):
    """Write texts to files beside the inputs that are there, run a stage, return its outputs."""

    def run(
        stage,
        inputs=None,
        folder="out",
        root="given",
        reference=None,
        candidates=("v4",),
        digest="",
        is_asked=False,
        **texts,
    ):
        files = dict(inputs or {})
        for name, text in texts.items():
            files[name] = tmp_path / f"{name}.txt"
            files[name].write_text(text)
        out = {name: tmp_path / folder / name for name in OUTPUTS}
        settings = {
            "root": root,
            "reference": reference,
            "candidates": candidates,
            "digest": digest,
            "is_asked": is_asked,
        }
        call(stage, settings, files, out, threads=2, work=tmp_path / "work")
        return {name: path for name, path in out.items() if path.exists()}

    return run


@pytest.fixture
def imported(tmp_path):
    """Return a table of two samples and three features, and their sequences, as imported."""
    features, counts = ["a", "b", "c"], csr_array(np.ones((2, 3), dtype=np.int64))
    write_biom(tmp_path / "table.biom", FeatureTable(["0001", "0002"], features, counts), {})
    write_fasta(tmp_path / "s.fasta", {name: "ACGT" * 9 + name.upper() for name in features})
    return {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}


def test_a_table_with_hashes_is_imported(run):
    out = run(import_table, table=TSV, sequences=FASTA)
    table = read_biom(out["table"])
    assert (table.sample_ids, table.feature_ids) == (["0001", "2"], HASHES)
    assert table.counts.toarray().tolist() == [[3, 1], [0, 4]]
    expected = [(HASHES[0], "ACGTA"), (HASHES[1], "ACGTC")]
    assert list(read_fasta(out["sequences"]).items()) == expected
    dropped = "what\tid\twhy\nsample\tblank\tno reads\nfeature\tunseen\tno reads\n"
    assert out["dropped"].read_text() == dropped
    with h5py.File(out["table"]) as handle:
        inputs = json.loads(json.loads(handle.attrs["generated-by"])["aam.inputs"])
    assert inputs.keys() == {"table", "sequences"}
    again = run(import_table, folder="again", table=TSV, sequences=FASTA)
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in out.items())


def test_features_of_one_sequence_are_one_under_any_of_their_names(run, caplog):
    """The tree knows the second name, the taxonomy the third."""
    table = "#OTU ID\ts1\ts2\tTotal\na\t1\t0\t1\nb\t2\t5\t7\nc\t4\t4\t8\nd\t0\t9\t9\n"
    texts = {"a": "ACGT", "b": "acgu", "c": "ACGT", "d": "ACGTA"}
    fasta = "".join(f">{name}\n{text}\n" for name, text in texts.items())
    out = run(import_table, table=table, sequences=fasta)
    imported = read_biom(out["table"])
    assert (imported.sample_ids, imported.feature_ids) == (["s1", "s2"], ["a", "d"])
    assert imported.counts.toarray().tolist() == [[7, 0], [9, 9]]
    assert read_fasta(out["sequences"]) == {"a": "ACGT", "d": "ACGTA"}
    assert out["dropped"].read_text() == (
        "what\tid\twhy\nsample\tTotal\tthe sum of the other samples\n"
        "feature\tb\tsame sequence as a\nfeature\tc\tsame sequence as a\n"
    )
    dropped = read_results(out["dropped"])
    assert [*left_out_sentences([dropped], drops_long_branches=False)] == [
        "2 features with the same sequence as another",
        "1 sample with the sum of the other samples",
    ]
    assert "2 features ('b', 'c') have the same sequence as others ('b' as 'a')" in caplog.text
    files = {name: out[name] for name in ("table", "sequences", "dropped")}
    tree = run(import_tree.import_tree, files, "out2", tree="((b:1,x:1):1,d:3);")["tree"]
    assert tree.read_text() == "(d:3.0,a:2.0);\n"
    text = "Feature ID\tTaxon\nc\tg__Rothia\nd\tg__Y\n"
    taxa = run(import_taxonomy, files, "out2", taxonomy=text)["taxonomy"]
    assert taxa.read_text() == "feature-id\ttaxon\na\tg__Rothia\nd\tg__Y\n"


def test_a_tree_is_cut_to_the_table(run, imported, caplog):
    out = run(import_tree.import_tree, imported, tree="(((a:1,x:1):1,b:2):1,(c:1,y:1):1);")
    assert out["tree"].read_text() == "((b:2.0,a:2.0):1.0,c:2.0);\n"
    warning = "3 of the ASVs lie behind branches longer than 0.6 substitutions per site, which"
    assert warning in caplog.text


@needs_programs
def test_a_tree_is_made_where_there_is_none(run, imported):
    tree = read_newick(run(import_tree.import_tree, imported)["tree"])
    assert sorted(tip.name for tip in tree.tips()) == ["a", "b", "c"]


def test_reads_of_a_reference_are_placed_in_its_tree(run, tmp_path, monkeypatch):
    known = aam.reference("v4").tree_of_known.sequences()[100:120]
    names = [f"asv{number}" for number in range(20)]
    sequences = dict(zip(names, known, strict=True))
    sequences["asv0"] = "T" * 90
    for reads, reference, is_placed in ((20, None, True), (1000, None, False), (1000, "v4", True)):
        # The reads of the one ASV that lies nowhere near; each other one has a hundred.
        counts = csr_array(np.array([[reads, *[100] * 19], [0, *[100] * 19]]))
        write_biom(tmp_path / "table.biom", FeatureTable(["a", "b"], names, counts), {})
        write_fasta(tmp_path / "s.fasta", sequences)
        inputs = {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}
        with monkeypatch.context() as patched:
            build = Mock(return_value=STAR)
            patched.setattr(import_tree, "build_tree", build)
            out = run(import_tree.import_tree, inputs, reference=reference)
        assert build.called != is_placed
        if is_placed:
            expected = aam.reference("v4").tree(sequences)
            assert sorted(tip.name for tip in read_newick(out["tree"]).tips()) == sorted(names)
            found = read_newick(out["tree"]).cophenet().filter(names).data
            np.testing.assert_allclose(found, expected.cophenet().filter(names).data, atol=1e-9)


def test_reads_of_another_region_are_placed_among_whole_genes(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    genes = {f"g{number}": "".join(rng.choice(list("ACGT"), 500)) for number in range(4)}
    write_fasta(tmp_path / "genes.fasta", genes)
    (tmp_path / "genes.nwk").write_text("((g0:1,g1:1):1,(g2:1,g3:1):1);")
    files = {"sequences": tmp_path / "genes.fasta", "tree": tmp_path / "genes.nwk"}
    build_reference(references_folder() / "greengenes", **files)
    known = {"reference": "greengenes", "digest": reference_digest("greengenes")}
    read = {name: genes[gene][100:300] for name, gene in (("a", "g3"), ("b", "g0"), ("c", "g2"))}
    counts = csr_array(np.ones((2, 3), dtype=np.int64))
    write_biom(tmp_path / "table.biom", FeatureTable(["1", "2"], [*read], counts), {})
    write_fasta(tmp_path / "s.fasta", read)
    inputs = {"table": tmp_path / "table.biom", "sequences": tmp_path / "s.fasta"}
    inputs["genes"] = run(find_genes, inputs, **known)["genes"]
    expected = "(b:2.0,(c:1.0,a:1.0):1.0);\n"
    for reference, candidates in (("greengenes", ["greengenes"]), (None, ["greengenes", "v4"])):
        out = run(import_tree.import_tree, inputs, reference=reference, candidates=candidates)
        assert out["tree"].read_text() == expected
    assert "placed in the reference tree greengenes" in out["notes"].read_text()
    write_fasta(tmp_path / "s.fasta", dict.fromkeys(read, "".join(rng.choice(list("ACGT"), 200))))
    inputs["genes"] = run(find_genes, inputs, **known)["genes"]
    with pytest.raises(InputError, match="a reference that was made after this run"):
        run(find_genes, inputs, reference="greengenes", digest="other")
    with pytest.raises(InputError, match="greengenes, which 0% of the reads lie near"):
        run(import_tree.import_tree, inputs, reference="greengenes", candidates=["greengenes"])


def test_a_reference_of_another_region_is_refused(run, imported):
    with pytest.raises(InputError, match=r"v4, which 0% of the reads lie near"):
        run(import_tree.import_tree, imported, reference="v4")


def test_metadata_follows_the_order_of_the_table(run, imported):
    text = "#SampleID\tage\n#q2:types\tnumeric\nother\t1\n0002\t09\n"
    out = run(import_metadata, {"table": imported["table"]}, metadata=text)
    frame = read_metadata(out["metadata"])
    assert list(frame.index) == ["0001", "0002"]
    assert frame["age"].isna().tolist() == [True, False]
    assert frame.loc["0002", "age"] == "09"
    schema = pq.read_schema(out["metadata"])
    assert schema.field("age").metadata == {b"q2:type": b"numeric"}
    assert b"aam.inputs" in schema.metadata
    run(import_metadata, {"table": imported["table"]})
    assert pq.read_table(out["metadata"]).to_pydict() == {"sample_id": ["0001", "0002"]}


def test_taxa_follow_the_order_of_the_table(run, imported):
    text = "Feature ID\tTaxon\nc\tg__Rothia\nother\tg__Y\na\tk__NA\n"
    out = run(import_taxonomy, {"table": imported["table"]}, taxonomy=text)
    assert out["taxonomy"].read_text() == "feature-id\ttaxon\na\tk__NA\nb\t\nc\tg__Rothia\n"


def test_genes_name_features_where_neither_the_user_nor_the_table_does(run, imported, tmp_path):
    header = "feature-id\ttaxon\tconfidence\n"
    genes = header + "a\tk__B; g__Rothia\t0.75\nb\tk__B\t1.0\nc\t\t0.0\n"
    out = run(import_taxonomy, {"table": imported["table"]}, genes=genes, reference="greengenes")
    assert read_results(out["taxonomy"])["taxon"].fillna("").tolist() == [
        "k__B; g__Rothia",
        "k__B",
        "",
    ]
    assert read_results(out["taxonomy"])["confidence"].tolist() == [0.75, 1.0, 0.0]
    # One read of three per sample is of a genus.
    assert "genes of greengenes" in out["notes"].read_text()
    assert "33 % of the reads" in out["notes"].read_text()
    # What the table says of its features goes before, unless the reference is asked for.
    told = tmp_path / "told.biom"
    counts = csr_array(np.ones((2, 3), dtype=np.int64))
    own = {"a": ["g__Y"], "b": ["g__Z"]}
    write_biom(told, FeatureTable(["1", "2"], ["a", "b", "c"], counts), {}, lineages=own)
    known = {"genes": genes, "reference": "greengenes"}
    for is_asked, first in ((False, "g__Y"), (True, "k__B; g__Rothia")):
        out = run(import_taxonomy, {"table": told}, is_asked=is_asked, **known)
        assert read_results(out["taxonomy"])["taxon"][0] == first
    with pytest.raises(InputError, match=r"taxonomy.*has no lineages|taxonomy.*knows by sequences"):
        run(import_taxonomy, {"table": told}, is_asked=True, **(known | {"genes": header}))


def test_files_are_described_and_configured_before_a_run(tmp_path, capsys, monkeypatch):
    texts = {"table": TSV, "sequences": FASTA, "metadata": "id\tage\n0001\t5\n2\t6\n"}
    texts["taxonomy"] = f"Feature ID\tTaxon\n{HASHES[0]}\tg__Rothia\n"
    files = {name: tmp_path / f"{name}.txt" for name in texts}
    for name, path in files.items():
        path.write_text(texts[name])
    raw = {"datasets": {"mine": {"table": "table.txt"}}, "rarefaction": {"depth": 1}}
    text = describe_study(slices.describe(load(raw), "mine"), **files)
    for said in ("2 samples, 2 ASVs, 8 reads", "2 samples and ASVs have no", "50% of the ASVs"):
        assert said in text
    assert re.search(
        r"on two cores of this machine, .*:\n(?:  .*\n)*  pretraining of AAM: \d+ s\n", text
    )
    task = {"dataset": "mine", "column": "age", "kind": "regression", "folds": {"k": 3}}
    raw["tasks"] = {"age": task}
    with pytest.raises(InputError, match="at least as many as folds, 3"):
        describe_study(slices.describe(load(raw), "mine"), **files)
    monkeypatch.chdir(tmp_path)
    command = "init table.txt metadata.txt --sequences sequences.txt --output mine.yaml".split()
    main(command)
    written = load(yaml.safe_load((tmp_path / "mine.yaml").read_text()))
    assert written.datasets["mine"].sequences == "sequences.txt"
    with pytest.raises(SystemExit, match="mine.yaml exists; choose another --output"):
        main(command)


def test_a_bad_file_leaves_nothing_behind(run, imported, tmp_path):
    with pytest.raises(InputError, match=r"no feature of the table; its IDs are 'z'"):
        run(import_taxonomy, imported, taxonomy="Feature ID\tTaxon\nz\tg__Y\n")
    with pytest.raises(InputError, match="look like hashes"):
        run(import_table, table=TSV)
    with pytest.raises(
        InputError, match=r"its IDs are '1', '2', .*'0001' and '1' \(zeros before a number"
    ):
        run(import_metadata, imported, metadata="id\tage\n1\t5\n2\t6\n")
    assert not (tmp_path / "out").exists()


SAMPLES = 24
RNG = np.random.default_rng(0)
DENSE = RNG.poisson(5, (SAMPLES + 1, 30))
DENSE[5] = 2 * (np.arange(30) == 3)
IDS = [f"{i:04d}" for i in range(SAMPLES + 1)]
SEQUENCES = {f"asv{j}": "".join(RNG.choice(list("ACGT"), 12)) for j in range(30)}
CONFIG = load(
    {
        "datasets": {"d": {"table": "t.biom"}},
        "rarefaction": {"depth": 60, "views": 2},
        "tokens": {"max_length_bp": 10},
        "augmentation": {"asv_dropout": 0.25, "cutmix": 0.5},
    }
)


def prepare(folder: Path) -> dict[str, Path]:
    views = ["view0", "view1"]
    names = ("table", "sequences", "curve", "tokens", "samples", *views)
    files = {name: folder / name for name in [*names, *(f"{view}.dropped" for view in views)]}
    table = FeatureTable(IDS, list(SEQUENCES), csr_array(DENSE.astype(np.int64)))
    write_biom(files["table"], table, {})
    write_fasta(files["sequences"], SEQUENCES)
    for number, view in enumerate(views):
        outputs = {"table": files[view], "dropped": files[f"{view}.dropped"]}
        call(rarefy_table, slices.rarefy(CONFIG, "d", number), {"table": files["table"]}, outputs)
    call(compute_rarefaction_curves, {}, files, files)
    inputs = {name: files[name] for name in ("table", "sequences")}
    call(tokenize_asvs, slices.tokenize(CONFIG, "d"), inputs, files)
    inputs = {name: files[name] for name in ("table", "tokens")}
    inputs["views"] = [files[view] for view in views]
    call(store_samples, slices.store_samples(CONFIG, "d"), inputs, files)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("prepared"))


def test_every_artifact_has_the_same_bytes_again(files, tmp_path):
    again = prepare(tmp_path)
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in files.items())


def test_a_depth_beyond_all_samples_writes_nothing(files, tmp_path):
    outputs = {name: tmp_path / name for name in ("table", "dropped")}
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 5000"):
        call(rarefy_table, {"depth": 5000, "seed": 0, "view": 0}, files, outputs)
    assert not list(tmp_path.iterdir())


def test_stores_hold_the_tokens_of_the_table_its_views_and_augmented_rows(files):
    tokens = TokenStore.open(files["tokens"])
    store = SampleStore.open(files["samples"])
    assert tokens.feature_ids == list(SEQUENCES)
    assert tokens.tokens.shape == (30, 10)
    assert "".join("_ACGT"[token] for token in tokens.tokens[0]) == SEQUENCES["asv0"][:10]
    assert files["view0.dropped"].read_text() == "sample-id\treads\tdepth\n0005\t2\t60\n"
    assert store.sample_ids == [name for name in IDS if name != IDS[5]]
    view = read_biom(files["view1"])
    columns = [list(SEQUENCES).index(name) for name in view.feature_ids]
    stored = store.view_matrix(1, 30).toarray()
    assert np.array_equal(stored[:, columns], view.counts.toarray())
    is_augmented = store.row_view == -1
    assert is_augmented.sum() == 2 * SAMPLES + 2 * (SAMPLES // 2)


def test_curves_end_at_the_richness_of_the_sample(files, tmp_path, monkeypatch):
    curve = pd.read_csv(files["curve"], sep="\t", dtype={"sample-id": str})
    ends = curve.groupby("sample-id").last()
    assert ends["richness"].to_numpy() == pytest.approx((DENSE > 0).sum(axis=1), abs=1e-3)
    assert ends["depth"].tolist() == DENSE.sum(axis=1).tolist()
    assert (curve.groupby("sample-id")["richness"].diff().dropna() > -1e-6).all()
    # Of a large table, some samples have one.
    monkeypatch.setattr(rarefaction_curve, "MAX_SAMPLES", 4)
    call(compute_rarefaction_curves, {}, files, {"curve": tmp_path / "curve"})
    assert pd.read_csv(tmp_path / "curve", sep="\t")["sample-id"].nunique() == 4


def test_asvs_behind_long_branches_are_left_out_before_the_draw(files, tmp_path):
    """The others get the same reads as in a table that never had them."""
    inputs, names = {"table": files["table"], "tree": tmp_path / "tree"}, list(SEQUENCES)
    junk, *others = names
    inputs["tree"].write_text(f"({junk}:0.7,({','.join(f'{name}:0.1' for name in others)}):0.1);")
    without = {"table": tmp_path / "without"}
    write_biom(without["table"], read_biom(files["table"]).without_features([junk]), {})
    found = []
    for given in (inputs, without):
        outputs = {name: tmp_path / f"{name}{len(found)}" for name in ("table", "dropped")}
        call(rarefy_table, slices.rarefy(CONFIG, "d", 0), given, outputs)
        found.append(read_biom(outputs["table"]))
    assert junk in read_biom(files["view0"]).feature_ids
    assert found[0].feature_ids == found[1].feature_ids
    assert np.array_equal(found[0].counts.toarray(), found[1].counts.toarray())
    assert junk not in found[0].feature_ids


def test_branches_whose_unit_is_unknown_leave_nothing_out(files, tmp_path, caplog):
    names = list(SEQUENCES)
    tree = tmp_path / "tree"
    tree.write_text(f"({','.join(f'{name}:10' for name in names)});")
    outputs = {name: tmp_path / name for name in ("table", "dropped")}
    settings = slices.rarefy(CONFIG, "d", 0)
    with pytest.raises(InputError, match="a long branch above every feature"):
        call(rarefy_table, settings, {"table": files["table"], "tree": tree}, outputs)
    genera = tmp_path / "genera"
    whole = read_biom(files["table"])
    write_biom(genera, replace(whole, facts=TableFacts(has_sequences=False, noun="genus")), {})
    call(rarefy_table, settings, {"table": genera, "tree": tree}, outputs)
    assert "no feature is left out behind a long branch" in caplog.text
    found = read_biom(outputs["table"])
    call(rarefy_table, settings, {"table": genera}, outputs)
    assert found.feature_ids == read_biom(outputs["table"]).feature_ids


def test_a_table_to_predict_for_is_checked_before_anything_is_trained(tmp_path):
    rng = np.random.default_rng(3)
    sequences = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(12)]
    counts = csr_array(rng.poisson(9, (6, 12)).astype(np.int64) + 1)
    ids = [f"s{i}" for i in range(6)]
    complement = str.maketrans("ACGT", "TGCA")
    turned = [text.translate(complement)[::-1] for text in sequences]
    for name, features in (("mine", sequences), ("new", sequences), ("turned", turned)):
        write_biom(tmp_path / f"{name}.biom", FeatureTable(ids, features, counts), {})
    raw = {
        "data_dir": str(tmp_path),
        "datasets": {"mine": {"table": "mine.biom"}},
        "rarefaction": {"depth": 20},
        "models": {},
        "tasks": {"t": {"dataset": "mine", "column": "a", "kind": "regression", "folds": {"k": 2}}},
        "predictions": {"others": {"table": "new.biom", "tasks": ["t"]}},
    }
    settings = slices.describe(load(raw), "mine")
    assert settings.predictions == {"others": {"table": str(tmp_path / "new.biom")}}
    for name, is_refused in (("new", False), ("turned", True)):
        files = {"others": {"table": str(tmp_path / f"{name}.biom")}}
        asked = settings.model_copy(update={"tasks": {}, "predictions": files})
        if is_refused:
            with pytest.raises(InputError, match=r"turned\.biom: got 6 samples .*everse"):
                describe_study(asked, table=tmp_path / "mine.biom")
        else:
            text = describe_study(asked, table=tmp_path / "mine.biom")
    assert "Table others, to predict for: 6 samples at depth 20; 100% of their reads" in text

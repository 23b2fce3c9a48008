"""References of whole genes: what is nearest to a sequence, and how references are made."""

import gzip
import hashlib
import io
import tarfile

import edlib
import numpy as np
import pytest
from qiime_artifacts import artifact
from scipy.sparse import csr_array

import aam
from aam.cli import main
from aam.config.references import GENES, GREENGENES, gene_references, references_folder
from aam.data.table import FeatureTable
from aam.reference_tree import greengenes
from aam.reference_tree.gene_placement import (
    FAR_BRANCH,
    NOWHERE,
    GenePlacement,
    nearest_placed,
    place_in_genes,
)
from aam.reference_tree.genes import GeneReference, build_reference, nearest_sequences
from aam.reference_tree.nearest import reverse_complement
from aam.reference_tree.tree import PER_DIFFERENCE
from aam.util.errors import InputError
from aam.util.notes import collect_notes

LETTERS = np.array(list("ACGT"))
FAMILIES = 12
RELATIVES = 15
BEFORE = 24
"""Sequences of the exhaustive comparison."""


def random_gene(rng, length=600):
    return "".join(LETTERS[rng.integers(0, 4, length)])


def mutate(rng, text, substitutions, indels):
    letters = []
    for letter in text:
        draw = rng.random()
        if draw < substitutions:
            letters.append(LETTERS[(LETTERS.tolist().index(letter) + rng.integers(1, 4)) % 4])
        elif draw < substitutions + indels / 2:
            letters += [letter, LETTERS[rng.integers(4)]]
        elif draw >= substitutions + indels:
            letters.append(letter)
    return "".join(letters)


def write_files(folder, genes):
    fasta = folder / "genes.fasta"
    fasta.write_text("".join(f">{name} an annotation\n{text}\n" for name, text in genes.items()))
    tree = folder / "tree.nwk"
    # A ladder: the order of the tips is that of the genes.
    text = "".join(f"({name}:0.1," for name in [*genes][:-1]) + [*genes][-1] + ":0.1"
    tree.write_text(text + "):0.01" * (len(genes) - 2) + ");\n")
    taxonomy = folder / "taxonomy.tsv"
    rows = [f"{name}\tk__Bacteria; g__G{name[1]}" for name in genes]
    taxonomy.write_text("\n".join(["Feature ID\tTaxon", *rows]) + "\n")
    return {"sequences": fasta, "tree": tree, "taxonomy": taxonomy}


@pytest.fixture(scope="module")
def genes():
    rng = np.random.default_rng(3)
    named = {}
    ancestor = random_gene(rng)
    for family in range(FAMILIES):
        founder = mutate(rng, ancestor, 0.15, 0.01)
        for relative in range(RELATIVES):
            named[f"f{family}r{relative}"] = mutate(rng, founder, 0.04, 0.004)
    return named


@pytest.fixture(scope="module")
def reference(genes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("genes")
    build_reference(folder / "reference", **write_files(folder, genes))
    return GeneReference.open(folder / "reference")


def fewest_edits(query, genes):
    """Compare a sequence with all genes on both strands: slow, and without any choice."""
    return min(
        edlib.align(text, gene, mode="HW", task="distance")["editDistance"]
        for gene in genes.values()
        for text in (query, reverse_complement(query))
    )


def pieces(genes, rng, number):
    """Return mutated pieces from within genes, every third of the other strand."""
    names = [*genes]
    found = []
    for count in range(number):
        gene = genes[names[rng.integers(len(names))]]
        length = int(rng.integers(100, 400))
        start = int(rng.integers(60, len(gene) - 60 - length + 1)) if length < 440 else 60
        piece = mutate(rng, gene[start : start + length], rng.choice([0, 0.02, 0.06]), 0.006)
        found.append(reverse_complement(piece) if count % 3 == 0 else piece)
    return found


def test_the_nearest_gene_is_that_of_an_exhaustive_comparison(reference, genes):
    queries = pieces(genes, np.random.default_rng(4), BEFORE)
    hits = nearest_sequences(reference, queries)
    assert hits.edits_H[hits.offset_Q[:-1]].tolist() == [
        fewest_edits(query, genes) for query in queries
    ]
    assert hits.is_reversed_Q.tolist() == [number % 3 == 0 for number in range(BEFORE)]


def test_all_genes_that_are_equally_near_are_hits(reference, genes, tmp_path):
    rng = np.random.default_rng(5)
    core = random_gene(rng, 200)
    twins = {
        f"t{number}": random_gene(rng, 80) + core + random_gene(rng, 80) for number in range(40)
    }
    build_reference(tmp_path / "twins", **write_files(tmp_path, twins))
    hits = nearest_sequences(GeneReference.open(tmp_path / "twins"), [core.lower()])
    assert hits.is_nearest_H.sum() == len(twins)
    assert (hits.begin_H == 80).all()
    assert (hits.end_H == 280).all()


def test_what_hangs_over_the_end_of_a_gene_is_not_compared(reference, genes):
    rng = np.random.default_rng(6)
    gene = genes["f2r3"]
    front = random_gene(rng, 20) + gene[:130]
    back = gene[-130:] + random_gene(rng, 20)
    hits = nearest_sequences(reference, [front, back])
    first_H = hits.offset_Q[:-1]
    assert hits.row_H[first_H].tolist() == [reference.names.index("f2r3")] * 2
    assert (hits.edits_H[first_H] <= 1).all()
    assert (np.abs(hits.compared_H[first_H] - 130) <= 2).all()
    assert hits.begin_H[first_H[0]] == 0
    assert hits.end_H[first_H[1]] == len(gene)


def test_threads_change_nothing(reference, genes):
    queries = pieces(genes, np.random.default_rng(7), 201)
    one = nearest_sequences(reference, queries)
    two = nearest_sequences(reference, queries, threads=2)
    for name in ("offset_Q", "row_H", "edits_H", "compared_H", "begin_H", "end_H"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_a_gene_that_is_left_out_is_no_hit(reference, genes):
    is_left_out_U = np.array([name == "f1r1" for name in reference.names])
    hits = nearest_sequences(reference, [genes["f1r1"]], is_left_out_U=is_left_out_U)
    assert hits.distance_Q[0] > 0
    assert reference.names.index("f1r1") not in hits.row_H


def test_nothing_is_near_to_an_unrelated_sequence(reference):
    hits = nearest_sequences(reference, [random_gene(np.random.default_rng(8), 200), "ACGT"])
    assert not hits.has_hit_Q.any()
    assert hits.distance_Q.tolist() == [1, 1]


def test_a_long_row_of_unknown_bases_is_like_nothing(tmp_path):
    rng = np.random.default_rng(9)
    core = random_gene(rng, 300)
    genes = {
        "full": core,
        "few": f"{core[:100]}N{core[101:]}",
        "gap": core[:100] + "N" * 100 + core[200:],
    }
    build_reference(tmp_path / "gaps", **write_files(tmp_path, genes))
    reference = GeneReference.open(tmp_path / "gaps")
    hits = nearest_sequences(reference, [core[80:180]])
    assert [reference.names[row] for row in hits.row_H] == ["full", "few"]
    assert hits.edits_H.tolist() == [0, 0]


def test_a_reference_keeps_what_it_was_made_of(reference, genes):
    assert reference.names == [*genes]
    assert reference.search.text(7) == genes[reference.names[7]]
    assert reference.lineages[20] == f"k__Bacteria; g__G{reference.names[20][1]}"
    assert reference.tips.length_B[reference.tips.tip_U[3]] == np.float32(0.1)
    assert reference.manifest["sequences"] == len(genes)


@pytest.mark.parametrize("kind", ["text", "qza"])
def test_aligned_rna_in_lower_case_is_the_same_reference(kind, genes, tmp_path):
    some = {name: genes[name] for name in [*genes][:6]}
    files = write_files(tmp_path, some)
    text = files["sequences"].read_text()
    odd = (
        "".join(
            line if line.startswith(">") else f"--{line[:9]}.-{line[9:]}-".lower().replace("t", "u")
            for line in text.splitlines(keepends=True)
        )
        .replace("\n-", "\n")
        .replace("-\n", "\n")
    )
    if kind == "qza":
        member = "aligned-rna-sequences.fasta"
        path = tmp_path / "genes.qza"
        files["sequences"] = artifact(path, "FeatureData[AlignedRNASequence]", member, odd)
    else:
        files["sequences"].write_text(odd)
    build_reference(tmp_path / "odd", **files)
    found = GeneReference.open(tmp_path / "odd")
    assert [found.search.text(row) for row in range(6)] == [*some.values()]


def test_what_is_in_one_file_alone_is_said(genes, tmp_path):
    files = write_files(tmp_path, {name: genes[name] for name in [*genes][:6]})
    lines = files["sequences"].read_text().splitlines()
    files["sequences"].write_text("\n".join([*lines[2:], ">other", "ACGT" * 50]) + "\n")
    with collect_notes() as notes:
        manifest = build_reference(tmp_path / "part", **files)
    assert manifest["sequences"] == 5
    assert sum("'other'" in note.text for note in notes) == 1
    assert sum(f"'{[*genes][0]}'" in note.text for note in notes) == 1


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("tree", "(a:1,b:1);", "belong together"),
        ("taxonomy", "Feature ID\tTaxon\nx\tk__Bacteria; g__G\n", "none of the sequences"),
        ("sequences", ">f0r0\nACGT\n>f0r0\nACGA\n", "more than once"),
        ("sequences", ">f0r0\nMKVLLPQ\n", "proteins"),
    ],
)
def test_files_that_make_no_reference_are_one_message(file, text, message, genes, tmp_path):
    files = write_files(tmp_path, {name: genes[name] for name in [*genes][:6]})
    files[file].write_text(text)
    with pytest.raises(InputError, match=message):
        build_reference(tmp_path / "none", **files)
    assert not (tmp_path / "none").exists()


@pytest.fixture
def archive(genes, tmp_path):
    """Return an archive like the package's, with other genes in it."""
    files = write_files(tmp_path, {name: genes[name] for name in [*genes][:6]})
    path = tmp_path / "package.tar.gz"
    contents = {
        member: gzip.compress(files[name].read_bytes())
        for name, member in greengenes._MEMBERS.items()
    }
    contents[greengenes._LICENCE_TEXT] = b"share alike"
    with tarfile.open(path, "w:gz") as tar:
        for member, content in contents.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def own_references(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_greengenes_comes_from_its_archive(archive, own_references, monkeypatch, capsys):
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(greengenes.get_greengenes, "__kwdefaults__", {"sha256": digest})
    main(["reference", "get", GREENGENES, "--archive", str(archive)])
    assert (references_folder() / GREENGENES / GENES).is_file()
    assert (references_folder() / GREENGENES / "LICENSE.txt").read_text() == "share alike"
    capsys.readouterr()
    main(["reference", "list"])
    assert "6 genes" in capsys.readouterr().out


def test_another_archive_is_refused(archive, own_references):
    with pytest.raises(SystemExit, match="SHA-256"):
        main(["reference", "get", GREENGENES, "--archive", str(archive)])
    assert gene_references() == {}


def test_sequences_lie_below_their_genes_and_what_is_far_below_the_root(genes, reference):
    # The middle of a gene, of the other strand, and another that differs in three bases of 300.
    one, other = genes["f0r0"][100:400], genes["f5r3"][100:400]
    changed = "".join({"A": "C"}.get(letter, "A") for letter in other[150:153])
    far = random_gene(np.random.default_rng(9), 300)
    sequences = {
        "same": reverse_complement(one),
        "near": other[:150] + changed + other[153:],
        "far": far,
    }
    placement = place_in_genes(reference, sequences)
    reads_Q = np.array([50, 30, 20])
    assert placement.share_near(reads_Q) == pytest.approx(0.8)
    with collect_notes() as notes:
        placement.warn(reads_Q)
    tree = placement.to_tree()
    assert sorted(tip.name for tip in tree.tips()) == ["far", "near", "same"]
    assert tree.find("far").parent is tree
    assert tree.find("far").length == FAR_BRANCH
    told = " ".join(note.text for note in notes)
    assert "'far' of 3, with 20.0 % of the reads" in told
    assert "50 % of the reads lie near as reverse complements" in told
    # Between the two lies what lies between their genes in the whole tree, and three differences.
    whole = place_in_genes(reference, {"a": genes["f0r0"], "b": genes["f5r3"]}).to_tree()
    between = whole.find("a").distance(whole.find("b"))
    given = tree.find("same").distance(tree.find("near"))
    assert given == pytest.approx(between + PER_DIFFERENCE * 3 / 300, abs=1e-6)


def test_neither_the_order_nor_other_sequences_move_a_sequence(genes, reference):
    queries = pieces(genes, np.random.default_rng(4), 40)
    sequences = {f"s{number}": query for number, query in enumerate(queries)}
    names = [*sequences]
    distances = []
    for order in (names, names[::-1], names[:10]):
        some = {name: sequences[name] for name in order}
        tree = place_in_genes(reference, some).to_tree()
        distances.append(tree.shear(names[:10]).cophenet().filter(names[:10]).data)
    np.testing.assert_allclose(distances[1], distances[0], atol=1e-6)
    np.testing.assert_allclose(distances[2], distances[0], atol=1e-6)


def test_the_nearest_placed_sequence_is_that_of_the_shortest_way(genes, reference):
    rng = np.random.default_rng(5)
    some = dict(zip("abcdefghijklmnop", pieces(genes, rng, 16), strict=True))
    others = dict(zip("qrstuvwxyz", pieces(genes, rng, 10), strict=True))
    others["far"] = random_gene(rng, 300)
    known, asked = place_in_genes(reference, some), place_in_genes(reference, others)
    number_Q, way_Q = nearest_placed(known, asked)
    assert (number_Q[-1], way_Q[-1]) == (NOWHERE, np.inf)
    # The slow way: all distances on the tree of both.
    tree = place_in_genes(reference, some | others).to_tree()
    matrix = tree.cophenet()
    for name, number, way in zip(asked.ids[:-1], number_Q, way_Q, strict=False):
        ways = [matrix[name, other] for other in some]
        assert way == pytest.approx(min(ways), abs=1e-6)
        assert ways[number] == pytest.approx(min(ways), abs=1e-6)


def test_places_and_names_survive_their_file(genes, reference, tmp_path):
    sequences = {"near": genes["f0r0"][100:400], "far": random_gene(np.random.default_rng(9), 300)}
    for some in (sequences, {}):
        placement = place_in_genes(reference, some)
        placement.write(tmp_path / "genes.tsv")
        again = GenePlacement.read(tmp_path / "genes.tsv", reference)
        assert str(again.to_tree()) == str(placement.to_tree())
        assert again.name_Q == placement.name_Q
    frame = place_in_genes(reference, sequences).to_frame()
    assert frame["taxon"].tolist() == ["k__Bacteria; g__G0", ""]
    assert frame["nearest"].tolist() == ["f0r0", ""]


def test_a_reference_of_ones_own_has_a_name_of_its_own(genes, tmp_path, own_references, capsys):
    files = write_files(tmp_path, {name: genes[name] for name in [*genes][:6]})
    given = [f"--{name}={path}" for name, path in files.items()]
    main(["reference", "build", "mine", *given])
    assert [*gene_references()] == ["mine"]
    with pytest.raises(SystemExit, match="'v4'"):
        main(["reference", "build", "v4", *given])


def test_tables_are_compared_and_summed_on_whole_genes(genes, tmp_path, own_references):
    with pytest.raises(InputError, match="aam reference get greengenes"):
        aam.reference("greengenes")
    build_reference(references_folder() / "greengenes", **write_files(tmp_path, genes))
    known = aam.reference("greengenes")
    read = {
        "a": genes["f0r0"][100:400],
        "b": genes["f5r3"][50:350],
        "c": genes["f5r3"][200:500],
        "far": random_gene(np.random.default_rng(9), 300),
    }
    counts = csr_array(np.array([[5, 5, 0, 3], [0, 0, 8, 0], [0, 9, 0, 1]]))
    table = FeatureTable(["s1", "s2", "s3"], [*read], counts)
    # Two regions of one gene are no distance apart, and the same columns.
    distances = known.distances(table, read, metric="weighted_normalized")
    assert distances.loc["s2", "s3"] < 0.2 < distances.loc["s1", "s2"]
    near = FeatureTable(["s2", "s3"], ["b", "c"], csr_array(np.array([[0, 8], [9, 0]])))
    assert known.distances(near, read).loc["s2", "s3"] == pytest.approx(0, abs=1e-6)
    features = known.features(near, read)
    np.testing.assert_allclose(features.loc["s2"], features.loc["s3"], rtol=1e-6)
    assert known.features(table, read).shape[0] == 3
    taxa = known.taxa(table, read)
    assert taxa.to_dict("list") == {
        "k__Bacteria; g__G0": [5, 0, 0],
        "k__Bacteria; g__G5": [5, 8, 9],
        "unassigned": [3, 0, 1],
    }
    assert known.taxa(table, read, rank="phylum").columns[0] == "k__Bacteria"
    with pytest.raises(InputError, match="'genera'|genera"):
        known.taxa(table, read, rank="genera")
    with pytest.raises(InputError, match="without names"):
        aam.reference("v4").taxa(table, read)

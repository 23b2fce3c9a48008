import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, TableFacts, write_biom
from aam.inference.kept_reads import KeptReads
from aam.inference.tables import like_training, read_table
from aam.learners.kept_mixture import SEQUENCES
from aam.util.errors import InputError

TSV = "\tASV1\tASV2\tASV3\nnew1\t5\t0\t2\nblank\t0\t0\t0\nnew2\t1\t7\t3\n"
FASTA = ">ASV1\nACGTA\n>ASV2\nACGTC\n>ASV3\nacgua\n"


def test_a_table_to_predict_is_read_as_the_one_of_training(tmp_path, caplog):
    """Samples may be rows, and features of one sequence are one."""
    (tmp_path / "t.tsv").write_text(TSV)
    (tmp_path / "s.fasta").write_text(FASTA)
    read = read_table(tmp_path / "t.tsv", tmp_path / "s.fasta")
    table = read.table
    assert table.sample_ids == ["new1", "new2"]
    assert table.counts.toarray().tolist() == [[7, 0], [4, 7]]
    assert read.sequences == {"ASV1": "ACGTA", "ASV2": "ACGTC"}
    for said in ("its rows are samples", "ASV3' as 'ASV1", "have no reads and are left out: 'blan"):
        assert said in caplog.text
    counts = csr_array(np.array([[5, 0, 2], [1, 7, 3]]))
    again = read_table(
        FeatureTable(["new1", "new2"], ["ASV1", "ASV2", "ASV3"], counts), tmp_path / "s.fasta"
    ).table
    assert again.feature_ids == table.feature_ids
    assert (again.counts != table.counts).nnz == 0


def test_a_table_holds_amounts_where_methods_learned_from_amounts(tmp_path):
    path = tmp_path / "presence.tsv"
    path.write_text("#OTU ID\tnew1\tnew2\nRoseburia\t1\t0\nPrevotella\t1\t1\n")
    with pytest.raises(InputError, match="0 and 1"):
        read_table(path, None)
    facts = TableFacts(is_counted=False, has_sequences=False, noun="genus")
    table = like_training(read_table(path, None, facts).table, facts, "presence.tsv")
    assert table.counts.toarray().tolist() == [[1, 1], [0, 1]]


def test_kept_features_have_their_sequences_whatever_they_are_called(tmp_path):
    names = ["ASV1 Bacteroides", "ASV2 Prevotella"]
    facts = TableFacts(has_sequences=True)
    table = FeatureTable(["s1"], names, csr_array(np.array([[5, 2]])), facts)
    write_biom(tmp_path / "view0.biom", table, {})
    write_fasta(tmp_path / SEQUENCES, dict(zip(names, ["ACGTA", "ACGTC"], strict=True)))
    assert KeptReads.load(tmp_path, {"views": 1}).feature_texts == ["ACGTA", "ACGTC"]


def test_features_of_training_tell_the_axes_where_nothing_else_does(tmp_path):
    path = tmp_path / "rows_are_samples.csv"
    path.write_text(",Roseburia,Prevotella\nnew1,51,24\nnew2,13,97\nnew3,8,12\n")
    facts = TableFacts(has_sequences=False)
    known = ["Prevotella", "Roseburia", "Dialister"]
    assert read_table(path, None, facts, known).table.sample_ids == ["new1", "new2", "new3"]
    turned = tmp_path / "columns_are_samples.csv"
    turned.write_text(",new1,new2,new3\nRoseburia,51,13,8\nPrevotella,24,97,12\n")
    assert read_table(turned, None, facts, known).table.sample_ids == ["new1", "new2", "new3"]

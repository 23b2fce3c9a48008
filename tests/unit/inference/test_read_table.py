import numpy as np
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.inference.tables import read_table

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

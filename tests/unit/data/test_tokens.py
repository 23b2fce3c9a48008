import gc

import numpy as np
import pyarrow as pa
import pytest

from aam.data.tokens import TokenStore, write_tokens
from aam.data.vocabulary import tokenize

IDS = ["one", "zwei", "三"]


@pytest.fixture
def path(tmp_path):
    tokens, lengths = tokenize(["ACGTN", "AC", "GGGGGGG"], 7)
    write_tokens(tmp_path / "asvs.arrow", IDS, tokens, lengths, {"b": "2", "a": "1"})
    return tmp_path / "asvs.arrow"


def test_what_was_written_is_read_as_views_of_the_file(path):
    before = pa.total_allocated_bytes()
    store = TokenStore.open(path)
    gc.collect()
    tokens, lengths = tokenize(["ACGTN", "AC", "GGGGGGG"], 7)
    assert store.feature_ids == IDS
    assert np.array_equal(store.tokens, tokens)
    assert np.array_equal(store.lengths, lengths)
    flags = store.tokens.flags
    assert (flags.owndata, flags.writeable, flags.c_contiguous) == (False, False, True)
    assert pa.total_allocated_bytes() == before


def test_bytes_do_not_depend_on_the_order_of_provenance(path, tmp_path):
    tokens, lengths = tokenize(["ACGTN", "AC", "GGGGGGG"], 7)
    write_tokens(tmp_path / "again.arrow", IDS, tokens, lengths, {"a": "1", "b": "2"})
    assert (tmp_path / "again.arrow").read_bytes() == path.read_bytes()
    with pa.ipc.open_file(str(path)) as reader:
        assert reader.schema.metadata == {b"a": b"1", b"b": b"2"}
        assert reader.schema.field("tokens").type == pa.list_(pa.uint8(), 7)

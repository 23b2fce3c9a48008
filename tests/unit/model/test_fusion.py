import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.fusion import UNKNOWN_RATE, Fusion, Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = st.sampled_from(["", "gut", "skin", "tongue", "ear"])
VOCABULARY = Vocabulary(("sex", "site"), (("f", "m"), ("gut", "skin", "tongue")))
WIDTH = 8


def new_fusion() -> Fusion:
    torch.manual_seed(0)
    fusion = Fusion(VOCABULARY, WIDTH).eval()
    with torch.no_grad():
        for parameter in fusion.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return fusion


@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=9), training=st.integers(0, 9))
@settings(deadline=None)
def test_categories_are_numbered_by_the_training_samples(rows, training):
    vocabulary = Vocabulary.fit(["a", "b"], rows, np.arange(len(rows)) < training)
    number_NF = vocabulary.encode(np.array(rows, object))
    assert number_NF.dtype == np.int64
    assert (number_NF < vocabulary.sizes).all()
    for column, words in enumerate(zip(*rows, strict=True)):
        known = {*words[:training]} - {""}
        names = ("", *vocabulary.categories[column])
        found = [names[number] for number in number_NF[:, column]]
        assert found == [word if word in known else "" for word in words]


def test_training_now_and_then_takes_a_category_for_unknown():
    fusion = new_fusion()
    category_BF = torch.ones(4000, 2, dtype=torch.int64)
    unknown_FE = fusion.embed(torch.zeros(1, 2, dtype=torch.int64))[0]
    assert not (fusion.embed(category_BF) == unknown_FE).all(-1).any()
    fusion.train()
    torch.manual_seed(0)
    first_BFE = fusion.embed(category_BF)
    fraction_F = (first_BFE == unknown_FE).all(-1).float().mean(0)
    torch.testing.assert_close(fraction_F, torch.full((2,), UNKNOWN_RATE), atol=0.02, rtol=0)
    torch.manual_seed(0)
    assert torch.equal(fusion.embed(category_BF), first_BFE)


def test_categories_are_projected_together_with_the_sample():
    fusion = new_fusion()
    sample_BD = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))
    category_BF = torch.stack([torch.arange(5) % 3, torch.arange(5) % 4], dim=1)
    embedded = [table(category_BF[:, f]) for f, table in enumerate(fusion.tables)]
    expected_BD = fusion.project(torch.cat([sample_BD, *embedded], dim=1))
    torch.testing.assert_close(fusion(sample_BD, category_BF), expected_BD)

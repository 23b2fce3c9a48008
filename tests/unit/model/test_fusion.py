import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.model.batch import Batch, SampleBlock
from aam.model.fusion import FUSIONS, UNKNOWN_RATE, Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = st.sampled_from(["", "gut", "skin", "tongue", "ear"])
VOCABULARY = Vocabulary(("sex", "site"), (("f", "m"), ("gut", "skin", "tongue")))
WIDTH = 8


def fusion_of(name: str):
    torch.manual_seed(0)
    fusion = FUSIONS[name](VOCABULARY, width=WIDTH, heads=2, backend="auto").eval()
    with torch.no_grad():
        for parameter in fusion.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return fusion


def draw(samples: int = 5):
    sample_BD = torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(1))
    category_BF = torch.stack([torch.arange(samples) % 3, torch.arange(samples) % 4], dim=1)
    return sample_BD, category_BF


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
    fusion, category_BF = fusion_of("concat"), torch.ones(4000, 2, dtype=torch.int64)
    unknown_FE = fusion.embed(torch.zeros(1, 2, dtype=torch.int64))[0]
    assert not (fusion.embed(category_BF) == unknown_FE).all(-1).any()
    fusion.train()
    torch.manual_seed(0)
    first_BFE = fusion.embed(category_BF)
    fraction_F = (first_BFE == unknown_FE).all(-1).float().mean(0)
    torch.testing.assert_close(fraction_F, torch.full((2,), UNKNOWN_RATE), atol=0.02, rtol=0)
    torch.manual_seed(0)
    assert torch.equal(fusion.embed(category_BF), first_BFE)


def test_categories_stand_beside_the_sample():
    (sample_BD, category_BF), fusion = draw(), fusion_of("concat")
    embedded = [table(category_BF[:, f]) for f, table in enumerate(fusion.tables)]
    found_BD = fusion.on_sample(sample_BD, fusion.embed(category_BF), [], None)
    expected_BD = fusion.project(torch.cat([sample_BD, *embedded], dim=1))
    torch.testing.assert_close(found_BD, expected_BD)


@pytest.mark.parametrize("sizes", [(5,), (2, 3)])
def test_attention_asks_the_asvs_of_each_sample(sizes):
    """Against one sample and torch's attention at a time, in any division into blocks."""
    fusion, (sample_BD, category_BF) = fusion_of("attention"), draw()
    rng = torch.Generator().manual_seed(2)
    order_B = torch.tensor([3, 0, 4, 1, 2])
    # Two rows of padding stand behind the last block, as in inference.
    state_RAD = torch.randn(7, 6, WIDTH, generator=rng)
    present_RA = torch.rand(7, 6, generator=rng) < 0.6
    present_RA[:, 0] = True
    rows = [*sizes[:-1], sizes[-1] + 2]
    blocks = [SampleBlock(part.long(), part, part.float()) for part in present_RA.split(rows)]
    reference = torch.nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True)
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.eye(WIDTH).repeat(3, 1))
        reference.out_proj.weight.copy_(torch.eye(WIDTH))
        category_BFE = fusion.embed(category_BF)
        batch = Batch([], blocks, order_B, {}, {})
        found = fusion.on_sample(sample_BD, category_BFE, list(state_RAD.split(rows)), batch)
        for b, place in enumerate(order_B.tolist()):
            query_FD = fusion.query(category_BFE[b])
            state_AD = fusion.norm(state_RAD[place, present_RA[place]])
            answer_FD, _ = reference(query_FD, *fusion.key_value(state_AD).chunk(2, dim=-1))
            expected = sample_BD[b] + fusion.project((query_FD + answer_FD).mean(0))
            torch.testing.assert_close(found[b], expected)

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch

from aam.model.predictor import EMBEDDING
from aam.train.data.dataset import BatchDataset, EmbeddingDataset
from aam.train.data.masking import Masker

TRAINING = np.array([0, 2, 3, 5, 6, 7, 9, 11, 12, 15, 18])


@pytest.fixture(scope="module")
def dataset_of(augmented) -> Callable[..., BatchDataset]:
    def build(**changes) -> BatchDataset:
        settings = {"batch_size": 4, "epochs": 3, "seed": 1, **changes}
        values = {"age": np.arange(40, dtype=np.float32).reshape(20, 2)}
        return BatchDataset(
            store=augmented.store,
            tokens=augmented.tokens,
            samples=TRAINING,
            distances={"unweighted": augmented.distances},
            values=values,
            **settings,
        )

    return build


def parents_of(store, row: int) -> dict[int, float]:
    held = slice(store.parent_offsets[row], store.parent_offsets[row + 1])
    return dict(zip(store.parents[held].tolist(), store.weights[held].tolist(), strict=True))


def first_parents(store, rows) -> list[int]:
    return [int(store.parents[store.parent_offsets[row]]) for row in rows]


@pytest.mark.parametrize("batch_size", [2, 4, 5, 11, 64])
def test_every_training_sample_comes_once_per_epoch_in_a_new_order(dataset_of, batch_size):
    dataset = dataset_of(batch_size=batch_size)
    epochs = []
    for epoch in range(3):
        steps = range(epoch * dataset.steps_per_epoch, (epoch + 1) * dataset.steps_per_epoch)
        batches = [first_parents(dataset.store, dataset.rows(step)[0]) for step in steps]
        epochs.append([sample for batch in batches for sample in batch])
        sizes = {len(batch) for batch in batches}
        assert max(sizes) <= max(batch_size, 3)
        assert min(sizes) >= 2
        assert max(sizes) - min(sizes) <= 1
    assert len(dataset) == 3 * dataset.steps_per_epoch
    assert all(sorted(epoch) == TRAINING.tolist() for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_batch_is_a_function_of_the_step(dataset_of):
    forward = [dataset_of(masker=Masker(0.2, 0)) for _ in range(2)]
    backward = {step: forward[1][step] for step in reversed(range(len(forward[1])))}
    for step in range(len(forward[0])):
        here, there = forward[0][step], backward[step]
        assert torch.equal(here.order_B, there.order_B)
        assert torch.equal(here.distances["unweighted"], there.distances["unweighted"])
        assert torch.equal(here.asvs[0].tokens_US, there.asvs[0].tokens_US)
        assert torch.equal(here.asvs[0].masked.base_M, there.asvs[0].masked.base_M)
    whole = dataset_of(batch_size=64, masker=Masker(0.5, 0))
    counts = [[(b.tokens_US == 6).sum().item() for b in whole[step].asvs] for step in range(3)]
    assert counts[0] != counts[1] != counts[2], "masks change with the epoch"


def test_all_rows_but_those_with_a_held_out_parent_are_drawn(dataset_of):
    dataset = dataset_of(epochs=200)
    store, drawn = dataset.store, {int(r) for s in range(len(dataset)) for r in dataset.rows(s)[0]}
    assert all(set(parents_of(store, row)) <= set(TRAINING.tolist()) for row in drawn)
    allowed = {
        row
        for row in range(len(store.row_view))
        if set(parents_of(store, row)) <= set(TRAINING.tolist())
    }
    assert drawn == allowed
    assert any(len(parents_of(store, row)) == 2 for row in drawn)
    views = Counter(
        int(store.row_view[row]) for step in range(len(dataset)) for row in dataset.rows(step)[0]
    )
    assert set(views) == {-1, 0, 1}
    assert views[0] == pytest.approx(views[1], rel=0.25)


def test_distances_and_targets_are_those_of_the_parents_in_the_view(dataset_of):
    dataset = dataset_of(epochs=12)
    mixed = 0
    for step in range(len(dataset)):
        rows, view = dataset.rows(step)
        batch, shares = dataset[step], [parents_of(dataset.store, row) for row in rows]
        mixed += sum(len(share) == 2 for share in shares)
        for i, one in enumerate(shares):
            expected = sum(w * dataset.values["age"][p] for p, w in one.items())
            np.testing.assert_allclose(batch.values["age"][i], expected, rtol=1e-5)
            for j, other in enumerate(shares):
                distance = sum(
                    w * v * dataset.distances["unweighted"][view, p, q]
                    for p, w in one.items()
                    for q, v in other.items()
                )
                found = float(batch.distances["unweighted"][i, j])
                assert found == pytest.approx(0 if i == j else float(distance), abs=1e-6)
    assert mixed > 5


def test_a_dataset_of_embeddings_gives_those_of_the_same_rows(augmented, dataset_of):
    embedding = torch.arange(len(augmented.store.row_view), dtype=torch.float32)[:, None]
    plain = dataset_of()
    dataset = EmbeddingDataset(
        augmented.store,
        augmented.tokens,
        TRAINING,
        4,
        3,
        1,
        values=plain.values,
        embedding_RD=embedding,
    )
    for step in range(len(dataset)):
        batch = dataset[step]
        assert batch.values[EMBEDDING][:, 0].tolist() == plain.rows(step)[0].tolist()
        assert torch.equal(batch.values["age"], plain[step].values["age"])

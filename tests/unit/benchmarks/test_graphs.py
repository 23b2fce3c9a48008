"""Steps as graphs, recorded by stand-ins: a CPU has no graphs."""

import copy
import json

import pytest
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.train.options import step_options
from benchmarks import gpu, training_requests
from benchmarks.speed import graphs
from benchmarks.speed.graphs import GraphedSteps, called_again, new_step, pad_batch, tensors_of

OPTIONS = step_options(Optimization(precision="fp32"))


@pytest.fixture
def batches(make, new_feed) -> list:
    """Return batches of three lengths of sequences, of two epochs, some larger than others."""
    data = make(features=41, lengths=(20, 17, 9))
    feeds = [new_feed(data=data, batch_size=size) for size in (4, 10)]
    return [pad_batch(feed[step], bits=1) for feed in feeds for step in range(len(feed))]


@pytest.mark.parametrize("bits", [1, 3])
def test_a_padded_batch_has_the_same_loss_and_few_sizes(make, new_feed, new_model, bits):
    feed = new_feed(data=make(features=41, lengths=(20, 17, 9)))
    model = new_model()
    for step in range(3):
        batch = feed[step]
        padded = pad_batch(batch, bits)
        losses, expected = (
            {name: loss.item() for name, loss in model(one).items()} for one in (padded, batch)
        )
        assert losses == pytest.approx(expected, rel=1e-5)
        sizes = [len(block.tokens_US) for block in padded.asvs]
        sizes += [len(block.masked.asv_M) for block in padded.asvs]
        sizes += [block.asv_BA.shape[1] for block in padded.samples]
        assert all(len(f"{size:b}".rstrip("0")) <= bits for size in sizes)
        assert sizes != [len(block.tokens_US) for block in batch.asvs]


def test_steps_as_graphs_are_the_same_steps(batches, new_model, devices):
    """Each batch is copied to where the graph of its shape reads, and losses are kept apart."""
    recorded = []

    def capture(step):
        recorded.append(step)
        return called_again(step)

    training = Pretraining(learning_rate=3e-3)
    one = new_model()
    other = copy.deepcopy(one)
    plain = new_step(one, training, OPTIONS, devices)
    expected = [plain(batch) for batch in batches + batches]
    graphed = GraphedSteps(
        new_step(other, training, OPTIONS, devices), capture, lambda step: step()
    )
    losses = [graphed(batch) for batch in batches + batches]
    assert torch.equal(torch.stack(losses), torch.stack(expected))
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    shapes = {tuple(tensor.shape for tensor in tensors_of(batch)) for batch in batches}
    assert 1 < len(recorded) == len(shapes) < len(batches)
    assert sum(graphed.seen.values()) == 2 * len(batches)


def test_graphs_of_cuda_share_their_memory_and_replay_what_was_recorded(monkeypatch):
    used = []

    class Graph:
        def replay(self):
            used.append("replay")

    class Recording:
        def __init__(self, graph, pool):
            used.append((type(graph), pool))

        def __enter__(self):
            used.append("begin")

        def __exit__(self, *error):
            used.append("end")

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", Recording)
    capture = graphs.cuda_capture()
    loss = torch.ones(())
    for _ in range(2):
        replay, found = capture(lambda: used.append("step") or loss)
        assert found is loss
        replay()
    assert used == [(Graph, "pool"), "begin", "step", "end", "replay"] * 2


def test_a_comparison_tells_losses_times_and_utilisation(speed_cfg, files, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs.roofline, "peak_flops", lambda *_: 1e12)
    settings = speed_cfg(optimization={"precision": "fp32"})["training"]
    request = {"kind": "graphs", "settings": settings, "inputs": files, "threads": 1}
    found = training_requests.run(request)
    assert not found["is_graph"]
    assert 1 <= found["shapes"] <= found["batches"] <= graphs.BATCHES
    for mode in ("kernels", "graphs"):
        own = found[mode]
        assert len(own["losses"]) == graphs.PASSES * found["batches"]
        timed = graphs.PASSES - graphs.UNTIMED_PASSES
        assert len(own["step_s"]) == timed * found["batches"]
        assert 0 < own["model_flop_utilisation"] < 1
    assert found["graphs"]["losses"] == found["kernels"]["losses"]
    file = tmp_path / "graphs.json"
    file.write_text(json.dumps(found))
    page = gpu._graphs(file)
    assert "Their losses differ by at most 0 %" in page
    assert "nothing was recorded" in page
    monkeypatch.setattr(graphs, "called_again", refuse)
    failed = training_requests.run(request)
    assert failed["failed"] == "graphs: operation not permitted when stream is capturing"
    file.write_text(json.dumps(failed))
    assert gpu._graphs(file) == f"Failed: {failed['failed']}"


def refuse(step):
    raise RuntimeError("operation not permitted when stream is capturing\nand more")

import json
import logging
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from aam.train.monitoring.monitor import profile_steps


def train(folder: Path | None, steps: int | None, total: int, first_step: int = 0) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile_steps(folder, steps, first_step) as profile_step:
        for done in range(total):
            model(torch.randn(4, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profile_step()
            if folder and folder.is_dir() and steps:
                assert (folder / "trace.json").exists() == (done + 1 >= 4 + steps), "at once"
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("steps", "total", "heading", "products"),
    [(3, 10, "Steps 25 to 27, ", 6), (100, 6, "Steps 25 to 26, ", 4)],
    ids=["whole", "ended early"],
)
def test_the_steps_asked_for_are_recorded_and_no_weight_changes(
    tmp_path, steps, total, heading, products
):
    weights = train(tmp_path, steps, total, first_step=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["summary.txt", "trace.json"]
    names = {
        event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    assert sum(name.startswith("ProfilerStep#") for name in names) >= products // 2
    summary = (tmp_path / "summary.txt").read_text()
    assert summary.startswith(heading)
    by_operation, by_shape = summary.split("By operation and shapes of its inputs")
    linear = next(line for line in by_operation.splitlines() if "aten::addmm" in line)
    assert linear.split()[-1] == str(products)
    assert "[5], [4, 6], [6, 5]" in by_shape
    for one, other in zip(weights, train(None, 3, total), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "steps", "total", "said"),
    [
        ("new", 3, 0, ["nothing profiled: the run ended after 0 steps"]),
        ("new", 3, 4, ["nothing profiled: the run ended after 4 steps"]),
        ("new", 0, 8, []),
        ("file", 1, 8, ["the profile could not be written"]),
    ],
)
def test_what_is_not_written_costs_one_warning(tmp_path, caplog, name, steps, total, said):
    (tmp_path / "file").write_text("")
    train(tmp_path / name, steps, total)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [text[: len(words)] for text, words in zip(warned, said, strict=True)] == said

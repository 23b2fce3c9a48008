from pathlib import Path

import pytest

from aam.tasks.pretrain.inputs import PretrainInputs


def test_files_are_read_from_text_and_named_as_the_rule_names_them():
    given = {
        "tokens": "t",
        "samples": Path("s"),
        "distances": ["d", "e"],
        "tree": None,
        "more": "m",
    }
    inputs = PretrainInputs.read(given)
    assert inputs == PretrainInputs(Path("t"), Path("s"), [Path("d"), Path("e")])
    expected = {"tokens": Path("t"), "samples": Path("s"), "distances": [Path("d"), Path("e")]}
    assert inputs.named() == expected
    assert PretrainInputs.read(inputs.named()) == inputs
    with pytest.raises(TypeError, match="samples"):
        PretrainInputs.read({"tokens": "t"})

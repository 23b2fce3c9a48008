"""What `profiles/slurm` says about the rules; needs no SLURM."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
LIGHT_MB, LIGHT_MINUTES = 4000, 60
PROFILE = yaml.safe_load((REPOSITORY / "profiles" / "slurm" / "profile.yaml").read_text())


def _rules() -> dict[str, str]:
    """Return the text of every rule by name."""
    files = (REPOSITORY / "workflow" / "rules").glob("*.smk")
    texts = [*(path.read_text(encoding="utf-8") for path in files)]
    parts = [re.split(r"^(?:rule|checkpoint) (\w+):", text, flags=re.MULTILINE) for text in texts]
    return {name: body for part in parts for name, body in zip(part[1::2], part[2::2], strict=True)}


RULES = _rules()


def number(rule: str, key: str) -> int:
    """Return a resource of a rule, where it is a plain number; 0: it has none."""
    found = re.search(rf"^ +{key}=(\d+),", RULES[rule], re.MULTILINE)
    return int(found[1]) if found else 0


def heavy(rule: str) -> bool:
    """Tell whether a rule asks for a GPU, or for more than a light one."""
    return (
        "gpu=" in RULES[rule]
        or number(rule, "mem_mb") > LIGHT_MB
        or number(rule, "runtime") > LIGHT_MINUTES
    )


def test_every_heavy_rule_is_named() -> None:
    wanted = {rule for rule in RULES if heavy(rule)}
    assert {"pretrain", "finetune", "unifrac"} <= wanted
    assert wanted - PROFILE["set-resources"].keys() == set()


def test_every_named_rule_exists() -> None:
    assert PROFILE["set-resources"].keys() - RULES.keys() == set()


@pytest.mark.parametrize("rule", PROFILE["set-resources"])
def test_no_rule_gets_less_than_it_asks_for(rule: str) -> None:
    given: dict[str, Any] = {**PROFILE["default-resources"], **PROFILE["set-resources"][rule]}
    for key in ("mem_mb", "runtime"):
        attempts = [eval(str(given[key]), {"attempt": attempt}) for attempt in (1, 2, 3)]
        assert attempts[0] >= number(rule, key), key
        assert attempts == sorted(attempts)
        assert key == "runtime" or attempts[0] < attempts[1]


def test_the_profile_alone_owns_retries() -> None:
    assert PROFILE["retries"] > 0
    assert [rule for rule, text in RULES.items() if "retries:" in text] == []


def test_status_is_asked_of_squeue_and_soon_enough() -> None:
    assert PROFILE["slurm-status-command"] == "squeue"
    # SLURM's own default of MinJobAge; the executor wants thrice the seconds.
    assert 3 * PROFILE["slurm-init-seconds-before-status-checks"] <= 300

"""What users read where something is refused."""

import re
from typing import Any

import pytest

from aam.util.errors import InputError


def refused(*facts: str) -> Any:
    """Expect an error whose message has these facts, which are regular expressions, in order."""
    return pytest.raises(InputError, match=re.compile(".*".join(facts), re.DOTALL))

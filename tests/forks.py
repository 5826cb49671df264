"""For tests that fork beside threads: Python warns of that.

Where warnings are errors, os.fork of 3.15 raises, and has made the child by then: the test goes on twice.
"""

from __future__ import annotations

import re

import pytest

_WARNING = "This process (pid="

# In this process: a mark for the test.
forks = pytest.mark.filterwarnings(f"ignore:{re.escape(_WARNING)}:DeprecationWarning")

# In another one: a value for PYTHONWARNINGS, which has no patterns.
ERRORS_BUT_FORKS = f"error,ignore:{_WARNING}:DeprecationWarning"

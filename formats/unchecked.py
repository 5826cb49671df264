"""The annotations with numbers in brackets as mypy sees them; see the end of `annotations.py`."""

from typing import Any

Array: Any
Bytes: Any
Chars: Any

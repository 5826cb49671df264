"""What mypy sees for annotations that it has no spelling for; see the end of `annotations.py`."""

from typing import Any

Array: Any
Bytes: Any
Chars: Any

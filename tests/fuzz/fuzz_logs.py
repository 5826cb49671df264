"""Where fuzzing of logs begins: the golden log's segments, without their headers."""

from __future__ import annotations

import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "echo_core/logs/golden.echolog"
HEADER_BYTES = 4096


def main(corpus: Path) -> None:
    """Each with right checksums of everything, and with slices that are not looked at."""
    for segment in GOLDEN.glob("*.seg"):
        blocks = segment.read_bytes()[HEADER_BYTES:]
        for choice in (0, 4):
            (corpus / f"{segment.stem}-{choice}").write_bytes(bytes([choice]) + blocks)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Peers are installed where they can be had."""

from __future__ import annotations

import pytest

from bench import install


def test_a_peer_that_cannot_be_had_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With pip's reason; one that is there, or can be, is not spoken of."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(install, "peers", lambda: ["nowhere-to-be-found>=1", "pytest"])
    install.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("left out: nowhere-to-be-found>=1: ")
    assert "No matching distribution found" in line

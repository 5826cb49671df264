"""How long calls wait that wait for others."""

DEFAULT_WAIT_S = 10.0  # one default for all of them; where they take None, that means no limit

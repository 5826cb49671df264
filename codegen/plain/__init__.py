"""Events, plain values and bytes by walking layouts: slow, complete, and what all else is held to."""

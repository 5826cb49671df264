"""Events, plain values and bytes by walking layouts: slow, complete, the reference for all else."""

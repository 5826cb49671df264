"""Encoding and decoding events of one class, beside what else a Python user could take."""

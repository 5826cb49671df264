"""Expressions over events: text or a function -> a typed tree -> code that judges records and objects."""

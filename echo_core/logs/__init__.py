"""Event logs: folders of segments to which events are written as they lie, and from which they are read.

`docs/log-format.md` has the layout of the files.
"""

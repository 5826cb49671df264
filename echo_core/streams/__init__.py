"""Streams: the way of one source's events to one place, with one object at each end of it.

An `OutgoingStream` leads over a link, an `IncomingStream` is its other end, and a `LocalStream` leads to the
sinks of this process. A source's streams begin at its `Origin`; those that feed a sink end at its `Target`.
"""

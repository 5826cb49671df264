"""What derived channels save, and cost: at the source, at the receiver and on the wire."""

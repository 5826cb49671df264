"""Limits on expressions, so that a tree from a peer has a bounded cost; they hold for one's own as well."""

MAX_TEXT_BYTES = 4096  # of an expression, before anything parses it
MAX_NODES = 256
MAX_DEPTH = 32  # of nodes inside one another
MAX_LOOPS = 2  # reductions inside one another
MAX_PARAMETERS = 32  # named ones, and literals that are compared with
MAX_CONSTANT_BYTES = 4096  # of all constants, or of all parameters' values
MAX_SET_MEMBERS = 64  # of one `in (...)`
MAX_COST = 1000  # as `tree.Tree.cost` counts
MAX_STATES = 16  # what is remembered from event to event: 16 bytes each
MAX_EXPONENT = 4
MAX_OUTPUTS = 64  # computed fields of one `select`
MAX_TREE_BYTES = 96 * 1024  # in the wire form, with the metadata that goes along

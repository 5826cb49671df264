"""Events of one class to records and back: walked in C, compiled, or held as records."""

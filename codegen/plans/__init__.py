"""What is to be done with a record, as data, and the interpreter that does it."""

"""What a value of each type costs in an event, beside a msgspec Struct in the same run."""

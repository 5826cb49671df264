"""What grows: a module for each part of the system, with a function from options to growths."""

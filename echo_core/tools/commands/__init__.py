"""The commands, a module for each. One is imported when it is called, so that `--help` imports none."""

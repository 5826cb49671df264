"""The command line: `echoctl`, or `python -m echo_core`. It sees public names alone, as its users do."""

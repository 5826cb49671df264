"""The commands of `echoctl log`, a module for each."""

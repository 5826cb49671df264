"""Runs a command that dies with the process that started it: `python -I -S leash.py PARENT COMMAND...`.

Linux kills the command when its parent is gone, however it went (PR_SET_PDEATHSIG); elsewhere the command
just runs. It is a program of its own, not a function between fork and exec, for in a process with threads
nothing may be run there. It is run by its path and imports nothing of ours, so that it costs 20 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Become the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)  # as a shell says it


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

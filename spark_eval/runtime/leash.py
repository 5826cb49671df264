"""Runs a command that dies with the process that started it: `python -I -S leash.py PARENT COMMAND...`.

Linux kills the command when its parent dies for any reason (PR_SET_PDEATHSIG); on other systems the command
just runs. This is a separate program, not a function between fork and exec, because Python code there could
deadlock in a process with threads. It is run by its path and does not import echo_core, so that it takes 20
ms only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Replace this process by the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call
            sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)  # as a shell reports it


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""`python -m echo_core`: the command line, as `echoctl` is where scripts are installed."""

import sys

from echo_core.tools.entry import main

if __name__ == "__main__":
    sys.exit(main())

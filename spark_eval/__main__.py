"""`python -m echo_core.spark_eval COMMAND`: see cli.py."""

import sys

from echo_core.spark_eval.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""echo_core with Spark: events in columns of a DataFrame, and a comparison with other codecs on executors.

    with session() as spark: ...                      a session that is quiet and leaves nothing behind
    with cluster(workers=2) as it: ...                a real cluster on this machine
    decode_column(frame, "payload", Particle)         binary events to a column of structs
    encode_column(frame, "particle", Particle)        and back
    python -m echo_core.spark_eval doctor | compare | pipeline | cluster

An application of the library: it imports only public names of echo_core, and no other package imports it.
pyspark, pandas and the other packages of the extra `spark` are imported on first use, so others need not
install them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echo_core.spark_eval.columns.dataframes import decode_column, encode_column
    from echo_core.spark_eval.runtime.cluster import cluster
    from echo_core.spark_eval.runtime.session import session

__all__ = ["cluster", "decode_column", "encode_column", "session"]

_MODULE_BY_NAME = {
    "cluster": "runtime.cluster",
    "decode_column": "columns.dataframes",
    "encode_column": "columns.dataframes",
    "session": "runtime.session",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _MODULE_BY_NAME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
    globals()[name] = value  # so that this function is not called for it again
    return value

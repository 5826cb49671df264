"""Spark beside echo_core: the comparison job, and the data source that reads events into Spark.

The topmost room. It may import any other and none may import it; pyspark and pandas are imported
here alone, and only when they are first needed, so that nobody else has to install them.
"""

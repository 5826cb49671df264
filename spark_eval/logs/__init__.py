"""Event logs in Spark: `spark.read.format("echo").load(log)`, the same as a stream, and a writer."""

"""Event logs beside other files of records."""

"""What is compared, and how a cell is measured: nothing here knows Spark."""

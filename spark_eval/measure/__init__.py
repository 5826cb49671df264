"""The codecs and events of the comparison, and how a cell is measured. Independent of Spark."""

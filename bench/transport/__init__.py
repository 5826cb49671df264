"""What it costs to move events from process to process, beside plain C and what a Python user would take."""

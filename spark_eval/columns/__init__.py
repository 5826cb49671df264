"""Binary events in the columns of a DataFrame."""

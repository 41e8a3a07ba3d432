"""A user's own table: files or a data frame whose rows are events, with columns for the time, the edge and the label.

What is not named is guessed from names, types and values. Only the columns that are used are read.
"""

from alphaedge.data.table.columns import Table
from alphaedge.data.table.load import Description, count_by_edge, describe, from_frame, guess_columns, load

__all__ = ["Description", "Table", "count_by_edge", "describe", "from_frame", "guess_columns", "load"]

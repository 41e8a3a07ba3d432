"""Run the command line with ``python -m alphaedge``."""

from alphaedge.cli import app

app(prog_name="alphaedge")

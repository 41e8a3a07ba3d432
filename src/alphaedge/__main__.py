"""``python -m alphaedge``."""

from alphaedge.cli import app

app()

"""One program per framework of ``benchmarks.peers``, run by the Python of that framework's own environment.

``python -m benchmarks.frameworks.NAME WORK ROUNDS`` (or ``WORK PREDICTIONS`` on a stream) prints its figures as one
line of JSON, the last line of its output. These programs do not import ``alphaedge``, which is not installed there;
``alphaedge_run`` and ``alphaedge_stream``, which run in the environment of the benchmark itself, are the exceptions.
"""

from typing import Final

BATCH: Final = 50

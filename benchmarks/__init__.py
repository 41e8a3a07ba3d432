"""Benchmarks: ``python -m benchmarks.NAME [--json FILE]``. Ratios within one run; the machine may be busy."""

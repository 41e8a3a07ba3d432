"""Replay of a data set to live edges over their HTTP API: a load generator that scores the predictions."""

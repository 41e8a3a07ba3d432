"""Checks for rules and models of your own: the ones that the built-in rules pass.

    >>> from alphaedge import Greedy, Uniform
    >>> check_aggregation(Uniform())
    >>> check_selection(Greedy(peers=3))

Each function runs a list of checks and raises ``RuleError`` (``ModelError`` for a model) at the first that fails,
saying what was expected. The lists are public, so that a test suite can run them one by one.
"""

from alphaedge.testing.aggregation import AGGREGATION_CHECKS, check_aggregation
from alphaedge.testing.model import check_model
from alphaedge.testing.optimizer import OPTIMIZER_CHECKS, check_optimizer
from alphaedge.testing.selection import SELECTION_CHECKS, check_selection

__all__ = [
    "AGGREGATION_CHECKS",
    "OPTIMIZER_CHECKS",
    "SELECTION_CHECKS",
    "check_aggregation",
    "check_model",
    "check_optimizer",
    "check_selection",
]

"""Programs that write parts of the documentation. Run them from the root of the checkout: ``python -m tools.NAME``."""

"""Fleets of 100,000 edges without models: selection, gossip and partial views, and what real announcements cost."""

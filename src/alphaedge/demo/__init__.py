"""A demonstration: live edges on this machine that serve real requests, and a few planned incidents."""

"""A fleet that a person can watch: real edges on this machine, real requests, and some trouble on the way."""

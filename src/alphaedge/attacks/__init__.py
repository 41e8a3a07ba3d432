"""A zoo of attacks: what a hostile member of a fleet may do, one file each. For simulations and tests."""

"""What a person sees of a fleet: frames of its state, their history, the web page. Aggregates only: no ids, no data."""

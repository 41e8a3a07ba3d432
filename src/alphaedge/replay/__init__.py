"""A data set, streamed to live edges over their HTTP API: a load generator that scores what it is answered."""

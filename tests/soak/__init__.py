"""The soak: everything that can go wrong, for as long as somebody likes, and proofs on the way."""

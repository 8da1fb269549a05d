"""The backfill's judgement: keys, marks, gate, and what the coordinator does next."""

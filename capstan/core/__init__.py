"""The judgement: pure, no socket, thread, clock, file or log."""

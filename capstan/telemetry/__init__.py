"""What is told and shown: events, hooks, the board of figures."""

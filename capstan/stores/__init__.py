"""Where positions are kept: an interface, SQLite and memory."""

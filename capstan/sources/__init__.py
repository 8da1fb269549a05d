"""Where the bytes come from: a live server, a binary log file."""

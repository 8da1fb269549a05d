"""A throw-away MySQL server and the demonstration that runs against it; nothing else imports it."""

"""The mailboxes: each thin, each with a twin in `core` that decides."""

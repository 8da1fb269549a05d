"""Bytes to events: framing, headers, control events, table maps, rows. Sans-IO."""

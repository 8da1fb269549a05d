"""Strict decoders for explicit transactions in binlog files, apart from the online fold."""

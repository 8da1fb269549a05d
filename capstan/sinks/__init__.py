"""Where changes go: an interface and the sinks that ship with capstan."""

"""A small Erlang for pykka: child specs as data, strategies, intensity, exits triaged in one table.

House rules: this room knows no actor of capstan by name; it starts what a spec says, watches it,
starts it again, stops it, and tells how it ended. The door is `tree.launch`.
"""

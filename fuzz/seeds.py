"""Writes the corpus: one small sound input for each reader of `fuzz_events`.

python fuzz/seeds.py
"""

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests")]

from helpers import event_builder, json_bytes, table_bytes  # noqa: E402 - found by the path above

from capstan.core.gtid import GtidSet  # noqa: E402 - likewise

_SET = f"{event_builder.SOURCE}:1-7:9:blue:1-3"


def seeds() -> dict[str, bytes]:
    """The inputs, by the name of their reader, in the order of its readers."""
    columns = [table_bytes.integer("id"), table_bytes.varchar("name")]
    body = table_bytes.table_map(columns)
    image = table_bytes.image(2, [b"\1\0\0\0", b"\2\0hi"])
    event = table_bytes.row_event(2, [image])
    events = [event_builder.format_description(checksums=False)]
    events += [event_builder.event(4, bytes(8) + b"binlog.000002", checksum=False)]
    whole = [*event_builder.opening(), *event_builder.insert(1, 1, 2)]
    return {
        "stream": b"".join(events),
        "packets": event_builder.packets(whole),
        "rows": bytes([len(body)]) + body + event,
        "document": json_bytes.document({"a": [1, "x", 1.5, None], "b": {"c": True}}),
        "compressed": bytes([2, 1, 255, 1, 1, 0, 0]),
        "control": event_builder.gtid(1)[19:-4],
        "gtid_text": _SET.encode(),
        "gtid_wire": GtidSet.parse(_SET).encode(),
    }


if __name__ == "__main__":
    folder = Path(__file__).with_name("corpus")
    folder.mkdir(exist_ok=True)
    for number, (name, data) in enumerate(seeds().items()):
        (folder / name).write_bytes(bytes([number]) + data)

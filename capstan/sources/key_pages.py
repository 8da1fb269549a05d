"""The SELECT of one portion of a table, by its key (R74-R76).

House rules: a composite key is compared column by column, spelled out (`a > x OR (a = x AND …)`):
the server then starts at the place in the index, whereas for a comparison of rows it reads the
index from its beginning. The key's own index is named, so that no statistics choose another.
"""

from collections.abc import Sequence

from capstan.core.tables import TableName
from capstan.sources.row_parser import RowParser
from capstan.sources.sql_text import literal, qualified, quoted
from capstan.sources.table_facts import ReadTable


class KeyPages:
    """The statements of one table.

    Args:
        table: The table.
    """

    def __init__(self, table: ReadTable) -> None:
        shape = table.shape
        self.shape = shape
        self.parser = RowParser(shape)
        self._key = [quoted(name) for name in shape.key_columns]
        self._order = ", ".join(self._key)
        name = qualified(TableName(shape.schema, shape.table))
        select, index = self.parser.select_list, quoted(table.index)
        self._head = f"SELECT {select} FROM {name} FORCE INDEX ({index})"  # noqa: S608 - quoted names

    def statement(self, after: Sequence[int | bytes] | None, limit: int) -> str:
        """The SELECT of up to `limit` rows behind a key, from the beginning for None."""
        where = "" if after is None else f" WHERE {self._behind(after)}"
        return f"{self._head}{where} ORDER BY {self._order} LIMIT {limit:d}"

    def _behind(self, after: Sequence[int | bytes]) -> str:
        literals = [literal(value) for value in after]
        equal = [f"{name} = {value}" for name, value in zip(self._key, literals, strict=True)]
        return " OR ".join(
            "(" + " AND ".join([*equal[:place], f"{name} > {literals[place]}"]) + ")"
            for place, name in enumerate(self._key)
        )

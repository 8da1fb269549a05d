"""What an ALTER TABLE does, clause by clause: the judgement behind `rows_may_change` (D28).

House rules: a clause leaves stored rows alone when it is on the closed lists below; whatever is not
known may change rows. Only the clauses are looked at here: the table's own name was read before, a
new name is handed back as tokens.
"""

from typing import Final

import attrs

from capstan.core.binlog.statement_lexer import Token, TokenKind, Tokens
from capstan.core.changes import SchemaChangeKind

NamePair = tuple[Token | None, Token]
"""A qualified name as tokens: the schema, None for the default one, and the table."""

_PARTITION_VERBS: Final = frozenset(
    b"ADD ANALYZE CHECK COALESCE DISCARD DROP EXCHANGE IMPORT OPTIMIZE REBUILD REORGANIZE REPAIR"
    b" TRUNCATE".split()
)
_INDEX_WORDS: Final = frozenset({b"INDEX", b"KEY"})
_ADDED: Final = _INDEX_WORDS | {b"UNIQUE", b"FULLTEXT", b"SPATIAL", b"FOREIGN", b"CHECK"}
_CONSTRAINTS: Final = frozenset({b"UNIQUE", b"FOREIGN", b"CHECK"})
_OPTIONS: Final = frozenset(
    b"AUTOEXTEND_SIZE AUTO_INCREMENT AVG_ROW_LENGTH CHARSET CHECKSUM COLLATE COMMENT COMPRESSION"
    b" DELAY_KEY_WRITE ENCRYPTION ENGINE_ATTRIBUTE KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS"
    b" ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE STATS_AUTO_RECALC STATS_PERSISTENT"
    b" STATS_SAMPLE_PAGES TABLESPACE".split()
)
_VALUES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED, TokenKind.LITERAL})


@attrs.frozen
class Alteration:
    """What an ALTER TABLE comes down to.

    Attributes:
        kind: `alter_table`, `rename_table`, `alter_partition` or `exchange_partition`.
        rows_may_change: False when every clause is known to leave stored rows alone.
        target: The new name, or the table exchanged with.
    """

    kind: SchemaChangeKind
    rows_may_change: bool
    target: NamePair | None = None


def take_name_pair(tokens: Tokens) -> NamePair | None:
    """The qualified name that comes next, or None when none does."""
    first = _take_name(tokens)
    if first is None or not tokens.accept(b"."):
        return None if first is None else (None, first)
    second = _take_name(tokens)
    return None if second is None else (first, second)


def _take_name(tokens: Tokens) -> Token | None:
    return tokens.take() if tokens.peek().kind in (TokenKind.WORD, TokenKind.QUOTED) else None


def judge(body: list[Token]) -> Alteration:
    """Judge all that follows the table's name."""
    clauses = [clause for clause in _clauses(body) if not _is_modifier(clause)]
    if not clauses:
        return Alteration("alter_table", rows_may_change=False)
    if partition := _partition_statement(clauses[0]):
        return partition
    harmless = all(map(_is_harmless, clauses))
    targets = [target for clause in clauses if (target := _rename_target(Tokens(clause)))]
    rename_alone = harmless and len(targets) == len(clauses)
    kind: SchemaChangeKind = "rename_table" if rename_alone else "alter_table"
    return Alteration(kind, not harmless, targets[-1] if targets else None)


def _clauses(body: list[Token]) -> list[list[Token]]:
    """The non-empty parts between commas outside of parentheses.

    PARTITION BY and REMOVE PARTITIONING need no comma before them and are parts of their own.
    """
    clauses: list[list[Token]] = [[]]
    depth = 0
    for token in body:
        depth += (token.word == b"(") - (token.word == b")")
        last = clauses[-1]
        if token.word == b"," and depth == 0:
            clauses.append([])
            continue
        if token.word == b"PARTITION" and depth == 0 and not _awaits_partition(last):
            clauses.append([])
        elif token.word == b"PARTITIONING" and last and last[-1].word == b"REMOVE":
            clauses.append([last.pop()])
        clauses[-1].append(token)
    return [clause for clause in clauses if clause]


def _awaits_partition(clause: list[Token]) -> bool:
    return len(clause) == 1 and clause[0].word in _PARTITION_VERBS


def _is_modifier(clause: list[Token]) -> bool:
    """ALGORITHM [=] x, LOCK [=] x, WITH VALIDATION, WITHOUT VALIDATION and nothing more."""
    tokens = Tokens(clause)
    if tokens.accept(b"ALGORITHM") or tokens.accept(b"LOCK"):
        tokens.accept(b"=")
        tokens.take()
    elif not (tokens.accept(b"WITH", b"VALIDATION") or tokens.accept(b"WITHOUT", b"VALIDATION")):
        return False
    return tokens.peek().kind is TokenKind.END


def _partition_statement(clause: list[Token]) -> Alteration | None:
    tokens = Tokens(clause)
    first, second = tokens.peek().word, tokens.peek(1).word
    if first == b"EXCHANGE" and second == b"PARTITION":
        words = [token.word for token in clause]
        start = words.index(b"WITH") + 2 if b"WITH" in words else len(words)
        return Alteration("exchange_partition", True, take_name_pair(Tokens(clause[start:])))
    stands_alone = first in _PARTITION_VERBS and second == b"PARTITION"
    if stands_alone or first == b"PARTITION" or (first, second) == (b"REMOVE", b"PARTITIONING"):
        return Alteration("alter_partition", rows_may_change=True)
    return None


def _rename_target(tokens: Tokens) -> NamePair | None:
    """The table's new name, taken with all before it; None when this is no such clause."""
    if not tokens.accept(b"RENAME") or tokens.peek().word in _INDEX_WORDS | {b"COLUMN"}:
        return None
    if tokens.peek().word in (b"TO", b"AS", b"="):
        tokens.take()
    return take_name_pair(tokens)


def _is_harmless(clause: list[Token]) -> bool:
    words = [token.word for token in clause] + [b""] * 4
    first, second, third, fourth = words[:4]
    if first == b"ADD":
        if second == b"CONSTRAINT":
            return third in _CONSTRAINTS or fourth in _CONSTRAINTS
        return second in _ADDED
    if first == b"DROP":
        if second in _INDEX_WORDS or second == b"CONSTRAINT":
            return not is_primary(clause[-1])
        return second in (b"FOREIGN", b"CHECK")
    if first == b"RENAME":
        return second in _INDEX_WORDS or _is_rename(Tokens(clause))
    if first == b"ALTER":
        return _is_harmless_alter(words)
    if first in (b"ENABLE", b"DISABLE"):
        return second == b"KEYS"
    return (first, second) == (b"FORCE", b"") or _is_options(Tokens(clause))


def is_primary(name: Token) -> bool:
    """Whether this is the name under which the primary key is dropped as an index."""
    return name.raw.strip(b'`"').upper() == b"PRIMARY"


def _is_rename(tokens: Tokens) -> bool:
    return _rename_target(tokens) is not None and tokens.peek().kind is TokenKind.END


def _is_harmless_alter(words: list[bytes]) -> bool:
    if words[1] in (b"INDEX", b"CHECK", b"CONSTRAINT"):
        return True
    at = 3 if words[1] == b"COLUMN" else 2
    change = words[at], words[at + 1]
    return change == (b"DROP", b"DEFAULT") or (
        change[0] == b"SET" and change[1] in (b"DEFAULT", b"VISIBLE", b"INVISIBLE")
    )


def _is_options(tokens: Tokens) -> bool:
    """Whether there is nothing but harmless table options, each with its value."""
    while tokens.peek().kind is not TokenKind.END:
        tokens.accept(b"DEFAULT")
        name = tokens.take().word
        if name == b"CHARACTER":
            known = tokens.accept(b"SET")
        else:
            known = name in _OPTIONS or name == b"ENGINE"
        tokens.accept(b"=")
        value = tokens.take()
        # Another engine may keep other rows, or none; InnoDB to InnoDB is a mere rebuild.
        if name == b"ENGINE" and value.word != b"INNODB":
            return False
        if not known or value.kind not in _VALUES:
            return False
    return True

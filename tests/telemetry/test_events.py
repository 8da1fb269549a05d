"""The events: a closed list of value-free facts under stable names."""

from typing import get_args

import attrs
import pytest

from capstan.core.gtid import Gtid
from capstan.telemetry import events

KINDS = get_args(events.Event)
PLAIN = {str, int, float, bool, Gtid, str | None, int | None}
"""What a field may be: a name, a code, a count, seconds, an identity; nothing that holds a row."""


def test_every_event_is_in_the_list() -> None:
    """A new one is public by being written down."""
    defined = {kind for kind in vars(events).values() if attrs.has(kind) and kind is not Gtid}

    assert set(KINDS) == defined


def test_names_are_told_apart() -> None:
    """Observers match on them: a dotted name for each, and nobody else's."""
    names = [kind.name for kind in KINDS]

    assert len(set(names)) == len(names)
    assert all(name.count(".") == 1 and name == name.lower() for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_holds_plain_facts_only(kind: type) -> None:
    """R54, R265: a row, a key or a statement has no field to stand in."""
    assert {field.type for field in attrs.fields(kind)} <= PLAIN


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_cannot_be_changed_by_an_observer(kind: type) -> None:
    """The next one hears the same."""
    event = kind(**{field.name: None for field in attrs.fields(kind)})
    first = attrs.fields(kind)[0].name

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(event, first, "x")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: type) -> None:
    """The class says what each of them means."""
    assert kind.__doc__ is not None
    assert all(f"{field.name}:" in kind.__doc__ for field in attrs.fields(kind))

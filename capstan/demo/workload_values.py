"""Random values of every kind that the workload's columns hold.

Owns: one generator for each kind of value, a pure function of the random numbers it is given.
Refuses to know: tables, statements, connections, the clock.
"""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeVar

Choice = TypeVar("Choice")

_WORDS = (
    "plain",
    "Grüße",
    "naïve",
    "Ωmega",
    "日本",
    "🦀 crab",
    "👩‍🚀",
    'quote"s',
    "back\\slash",
    "",
)
_TOWNS = ("Besançon", "Málaga", "Tromsø", "Bath", "Köln")
_EPOCH = datetime(2020, 1, 1)
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Values:
    """Draws values from one stream of random numbers."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def sometimes(self, probability: float = 0.2) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def or_null(self, value: Any) -> Any:
        """The value, or NULL one time in five."""
        return None if self.sometimes() else value

    def text(self, longest: int = 5) -> str:
        """Words beyond ASCII and beyond the basic plane; sometimes empty."""
        return " ".join(self._random.choices(_WORDS, k=self._random.randint(0, longest)))

    def town(self) -> str:
        """A text that latin1 holds."""
        return self._random.choice(_TOWNS)

    def money(self, digits: int, scale: int) -> Decimal:
        """A decimal, negative half of the time, with all its digits."""
        number = self._random.randrange(-(10**digits) + 1, 10**digits)
        return Decimal(number).scaleb(-scale)

    def moment(self) -> datetime:
        """A moment with microseconds, in this decade or the next."""
        return _EPOCH + timedelta(microseconds=self._random.randrange(10**15))

    def timestamp(self) -> datetime:
        """A moment with milliseconds that a TIMESTAMP holds, in UTC."""
        return _UNIX_EPOCH + timedelta(
            milliseconds=self._random.randrange(1000, 2**31 * 1000 - 1000)
        )

    def day(self) -> date:
        """Any day from the year 1000 on."""
        return date.fromordinal(self._random.randrange(date(1000, 1, 1).toordinal(), 3_652_059))

    def span(self) -> str:
        """A TIME with two decimals, negative and beyond a day too."""
        hundredths = self._random.randrange(838 * 360_000)
        seconds, rest = divmod(hundredths, 100)
        sign = self._random.choice(("", "-"))
        return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:02d}"

    def data(self, longest: int) -> bytes:
        """Bytes of any value, zeros at the end among them."""
        head = self._random.randbytes(self._random.randint(0, longest - 1))
        return head + b"\0" if self.sometimes() else head

    def double(self) -> float:
        """A double of any ordinary magnitude."""
        return self._random.uniform(-1, 1) * 10.0 ** self._random.randint(-20, 20)

    def one_of(self, names: Sequence[Choice]) -> Choice:
        """Any one of these."""
        return self._random.choice(names)

    def some_of(self, population: Sequence[Choice], most: int) -> list[Choice]:
        """One to `most` different ones of these, as far as there are any."""
        return self._random.sample(population, min(len(population), self.number(1, most)))

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self._random.randint(low, high)

    def switches(self) -> int:
        """The bits of a BIT(12)."""
        return self._random.getrandbits(12)

    def members(self, names: tuple[str, ...]) -> str:
        """A SET: any of the names, in their own order."""
        return ",".join(name for name in names if self.sometimes(0.5))

    def document(self, depth: int = 2) -> str:
        """A JSON text: nested, with numbers of every width, NULLs and empty containers."""
        return json.dumps(self._json(depth), ensure_ascii=False)

    def _json(self, depth: int) -> Any:
        kind = self._random.randrange(9 if depth else 6)
        match kind:
            case 0:
                return self._random.choice((None, True, False))
            case 1:
                return self._random.randint(-(2**15), 2**16)
            case 2:
                return self._random.randint(-(2**63), 2**64 - 1)
            case 3:
                return self.double()
            case 4 | 5:
                return self.text()
            case 6:
                return [self._json(depth - 1) for _ in range(self._random.randint(0, 3))]
        return {f"{self.text(1)}{n}": self._json(depth - 1) for n in range(self.number(0, 4))}

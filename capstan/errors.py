"""What a caller of capstan catches: a refused configuration, a halted pipeline.

House rules: texts name options, reasons, counts and GTIDs, never a value, key, statement or secret.
"""

from capstan.core.halts import Halt


class ConfigError(ValueError):
    """A configuration that is refused before any socket is opened."""


class PipelineHalted(Exception):  # noqa: N818 - a verdict that the caller is told, not a mishap
    """The pipeline stopped on purpose and stays stopped.

    Attributes:
        halt: Reason and value-free detail.
    """

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt

    def __reduce__(self) -> tuple[type["PipelineHalted"], tuple[Halt]]:
        return (PipelineHalted, (self.halt,))

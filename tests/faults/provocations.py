"""Every way into a halt that the tests know: one table for all tests of this folder."""

from faults.provoked_deliveries import DELIVERIES
from faults.provoked_snapshots import SNAPSHOTS
from faults.provoked_starts import STARTS
from faults.provoked_streams import STREAMS
from faults.provoked_trees import TREES
from faults.provoked_wires import WIRES
from faults.scene import Provocation

PROVOCATIONS: tuple[Provocation, ...] = (
    *STARTS,
    *STREAMS,
    *DELIVERIES,
    *TREES,
    *WIRES,
    *SNAPSHOTS,
)

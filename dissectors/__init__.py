"""InfiniBand and RoCE connection management as Scapy layers.

    >>> from dissectors import *
    >>> from scapy.all import Ether, IP, UDP
    >>> packet = Ether() / IP(dst="10.0.0.2") / UDP() / BTH() / DETH() / MAD() / CM_REQ(local_comm_id=1)
    >>> Ether(bytes(packet)).show()

Names are loaded when they are first asked for, so that `import dissectors.cm` stays cheap: it loads none of Scapy's own
layers. The star import loads all, and binds these layers to Scapy's Ethernet, IP and link types.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cm import *
    from .encapsulation import *
    from .icrc import *
    from .mad import *
    from .private_data import *
    from .recognition import *
    from .transport import *

_NAMES = {
    "encapsulation": "ERF ERFEthernet ERFExtension",
    "transport": "BTH DETH GRH ImmDt LRH OPCODES",
    "recognition": "CM_ATTRIBUTES GSI_QPN GSI_Q_KEY",
    "icrc": "icrc_of icrc_ok vcrc_of",
    "mad": "MAD METHODS MGMT_CLASSES ClassPortInfo",
    "cm": """
        CM_APR CM_DREP CM_DREQ CM_LAP CM_LAYERS CM_MRA CM_REJ CM_REP CM_REQ CM_RTU CM_SAP CM_SIDR_REP CM_SIDR_REQ CM_SPR
        AP_STATUSES EXTENDED_TRANSPORT_TYPES FAILOVER_ACCEPTED MESSAGES_MRAED MESSAGES_REJECTED PATH_MTUS RATES
        REJ_REASONS RNR_RETRY_COUNTS SIDR_STATUSES TRANSPORT_TYPES
        additional_path_info additional_reject_info additional_sidr_info
    """,
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

_SUBMODULES = ("private_data",)  # the names of its functions are too general to come without it
_FUNCTIONS = frozenset({"dissect", "ip_cm_reject_words", "recognise", "words"})


def __getattr__(name: str) -> Any:
    value: Any
    if name in _MODULES:
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    elif name == "__all__":
        value = [*_MODULES, *_private_data_names(), *_SUBMODULES]
    elif name.startswith("__") or name not in _private_data_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = getattr(import_module(f"{__name__}.private_data"), name)
    globals()[name] = value
    return value


def _private_data_names() -> list[str]:
    """The layers of all upper protocols, and what is needed to read them."""
    return [name for name in import_module(f"{__name__}.private_data").__all__ if name not in _FUNCTIONS]

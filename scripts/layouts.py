"""Writes what is derived from the dissectors: wire/layouts.py, messages.py and service_ports.py of ibcmtool.

Usage: .venv/bin/python scripts/layouts.py
"""

from __future__ import annotations

from pathlib import Path

from dissectors.cm import CM_LAYERS
from dissectors.fields import layout
from dissectors.mad import MAD, ClassPortInfo
from dissectors.private_data import PROTOCOLS
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt

PACKAGE = Path(__file__).resolve().parent.parent / "ibcmtool"
LAYERS = (LRH, GRH, BTH, DETH, ImmDt, MAD, ClassPortInfo, *CM_LAYERS.values())

HEAD = '''\
"""The layouts of the layers, so that reading a capture need not load Scapy: (field, bit offset, width in bits, kind).

Written by scripts/layouts.py from `fields_desc` of the layers in dissectors/: change the layers.
"""

from __future__ import annotations

LAYOUTS: dict[str, tuple[tuple[str, int, int, str], ...]] = {
'''


MESSAGES_HEAD = '''\
"""The messages of Communication Management, one class each, so that a misspelt field is found by the type checker.

Written by scripts/layouts.py from `fields_desc` of the layers in dissectors: change the layers. Numbers are ints, GIDs,
additional information and private data bytes; None stands for what the capture cut off.
"""

from __future__ import annotations

from typing import NamedTuple
'''

PORTS_HEAD = '''\
"""The upper protocols by their ports in the TCP port space of the RDMA IP CM, so that a name needs no Scapy.

Written by scripts/layouts.py from the protocols in dissectors/private_data: change them there.
"""

from __future__ import annotations

PORTS = {
'''

TYPES = {"number": "int | None", "little": "int | None", "gid": "bytes | None", "bytes": "bytes | None"}


def layouts() -> str:
    """The text of ibcmtool/wire/layouts.py."""
    lines = []
    for layer in LAYERS:
        slots = [f'("{name}", {offset}, {width}, "{kind}"),' for name, offset, width, kind in layout(layer)]
        if len(slots) == 1:
            lines.append(f'    "{layer.__name__}": ({slots[0]}),')
        else:
            lines += [f'    "{layer.__name__}": (', *(f"        {slot}" for slot in slots), "    ),"]
    return HEAD + "\n".join(lines) + "\n}\n"


def messages() -> str:
    """The text of ibcmtool/messages.py."""
    layers = {**CM_LAYERS, "ClassPortInfo": ClassPortInfo}
    names = {kind: class_name(kind) for kind in layers}
    paired = [
        names[kind] for kind, layer in layers.items() if "remote_comm_id" in (slot.name for slot in layout(layer))
    ]
    lines = [MESSAGES_HEAD]
    for kind, layer in layers.items():
        lines += ["", f"class {names[kind]}(NamedTuple):", f'    """{(layer.__doc__ or kind).splitlines()[0]}"""', ""]
        lines += [f"    {name}: {TYPES[what]}" for name, _, _, what in layout(layer)]
        lines.append("")
    lines += [
        "",
        "class UnknownMessage(NamedTuple):",
        '    """A message whose attribute ID no edition of the specification defines."""',
        "",
        "    data: bytes | None",
        "",
        "",
        "Fields = (",
        "    " + "\n    | ".join([*names.values(), "UnknownMessage"]),
        ")",
        "Request = Req | SidrReq",
        "Reply = Rep | SidrRep",
        f"Paired = {' | '.join(paired)}  # with the Communication IDs of both ends",
        f"PAIRED = ({', '.join(paired)})",
        "",
        "# By message type, as in `CmMessage.type`.",
        "MESSAGES: dict[str, type[Fields]] = {",
        *(f'    "{kind}": {name},' for kind, name in names.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def ports() -> str:
    """The text of ibcmtool/service_ports.py."""
    known = sorted((port, protocol.name) for protocol in PROTOCOLS for port in protocol.ports)
    return PORTS_HEAD + "".join(f'    {port}: "{name}",\n' for port, name in known) + "}\n"


def class_name(kind: str) -> str:
    """Req, SidrReq: a message type as the name of a class."""
    return kind if kind == "ClassPortInfo" else "".join(part.capitalize() for part in kind.split("_"))


if __name__ == "__main__":
    (PACKAGE / "wire" / "layouts.py").write_text(layouts(), encoding="utf-8")
    (PACKAGE / "messages.py").write_text(messages(), encoding="utf-8")
    (PACKAGE / "service_ports.py").write_text(ports(), encoding="utf-8")

"""Writes ibcmtool/wire/layouts.py from the layers' field lists, the only place where offsets and widths are stated.

Usage: .venv/bin/python scripts/layouts.py
"""

from __future__ import annotations

from pathlib import Path

from dissectors.cm import CM_LAYERS
from dissectors.fields import layout
from dissectors.mad import MAD, ClassPortInfo
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt

MODULE = Path(__file__).resolve().parent.parent / "ibcmtool" / "wire" / "layouts.py"
LAYERS = (LRH, GRH, BTH, DETH, ImmDt, MAD, ClassPortInfo, *CM_LAYERS.values())

HEAD = '''\
"""The layouts of the layers, so that reading a capture need not load Scapy: (field, bit offset, width in bits, kind).

Written by scripts/layouts.py from `fields_desc` of the layers in dissectors/: change the layers.
"""

from __future__ import annotations

LAYOUTS: dict[str, tuple[tuple[str, int, int, str], ...]] = {
'''


def module() -> str:
    lines = []
    for layer in LAYERS:
        slots = [f'("{name}", {offset}, {width}, "{kind}"),' for name, offset, width, kind in layout(layer)]
        if len(slots) == 1:
            lines.append(f'    "{layer.__name__}": ({slots[0]}),')
        else:
            lines += [f'    "{layer.__name__}": (', *(f"        {slot}" for slot in slots), "    ),"]
    return HEAD + "\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")

"""Messages of which a test gives some fields, and the capture cut off the others."""

from __future__ import annotations

from typing import Any

from ibcmtool.messages import MESSAGES, Fields


def typed(message_type: str, **given: Any) -> Fields:
    """The class of that type with these fields; a name that it has not raises ValueError."""
    message = MESSAGES[message_type]
    return message._make(None for _ in message._fields)._replace(**given)

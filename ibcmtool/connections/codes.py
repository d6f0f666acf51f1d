"""The numbers that a program must know by name; dissectors.cm_codes has all of them in words (IBA vol. 1, 12.6)."""

from __future__ import annotations

from typing import Final

# REJ: Reason.
TIMEOUT: Final = 4
INVALID_COMM_ID: Final = 6
INVALID_COMM_INSTANCE: Final = 7
INVALID_SERVICE_ID: Final = 8
STALE_CONNECTION: Final = 10
PRIMARY_GID_REJECTED: Final = 12
PRIMARY_LID_REJECTED: Final = 13
ALTERNATE_GID_REJECTED: Final = 18
ALTERNATE_LID_REJECTED: Final = 19
PORT_AND_CM_REDIRECTION: Final = 24
PORT_REDIRECTION: Final = 25
CONSUMER_REJECT: Final = 28
DUPLICATE_COMM_ID: Final = 30
INVALID_CLASS_VERSION: Final = 31
UNASSIGNED_REASON: Final = 34
LAST_REASON: Final = 35

# MRA: Message MRAed.
MRA_OF_REQ: Final = 0
MRA_OF_REP: Final = 1
MRA_OF_LAP: Final = 2

# REJ: Message REJected.
REQ_REJECTED: Final = 0
REP_REJECTED: Final = 1
OTHER_REJECTED: Final = 2

# APR: AP status; SIDR_REP: Status.
AP_REDIRECTION: Final = 4
SIDR_REDIRECTION: Final = 4

# REQ: Transport Service Type; Extended Transport Type, which counts where the former is EXTENDED.
RC: Final = 0
UC: Final = 1
RD: Final = 2
EXTENDED: Final = 3
XRC: Final = 1

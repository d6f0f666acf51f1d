"""The numbers that a program must know by name; dissectors.cm_codes has all of them in words (IBA vol. 1, 12.6)."""

from __future__ import annotations

# REJ: Reason.
TIMEOUT = 4
INVALID_COMM_ID = 6
INVALID_COMM_INSTANCE = 7
INVALID_SERVICE_ID = 8
STALE_CONNECTION = 10
PRIMARY_GID_REJECTED = 12
PRIMARY_LID_REJECTED = 13
ALTERNATE_GID_REJECTED = 18
ALTERNATE_LID_REJECTED = 19
PORT_AND_CM_REDIRECTION = 24
PORT_REDIRECTION = 25
CONSUMER_REJECT = 28
DUPLICATE_COMM_ID = 30
UNASSIGNED_REASON = 34
LAST_REASON = 35

# MRA: Message MRAed.
MRA_OF_REQ = 0
MRA_OF_REP = 1
MRA_OF_LAP = 2

# REJ: Message REJected.
REQ_REJECTED = 0
REP_REJECTED = 1
OTHER_REJECTED = 2

# APR: AP status; SIDR_REP: Status.
AP_REDIRECTION = 4
SIDR_REDIRECTION = 4

# REQ: Transport Service Type; Extended Transport Type, which counts where the former is EXTENDED.
RC = 0
UC = 1
RD = 2
EXTENDED = 3
XRC = 1

"""The reconstructor: replays CM messages into connections.

tables.py holds the state machine as data, timers.py the arithmetic of the 5-bit times and of timewait, book.py finds the connection
that a message belongs to and who else holds a QPN, tracker.py puts them together. Nothing here knows a file, a clock, a socket or Scapy:
`feed` a message, `advance` the time, `finish` at the end.
"""

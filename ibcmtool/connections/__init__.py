"""The reconstructor: replays CM messages into connections.

tables.py holds the state machine as data, timers.py the arithmetic of the 5-bit times and of timewait, deadlines.py
what must have happened by when, connection_index.py finds the connection that a message belongs to and who else holds a
QPN, creation.py begins a connection, outcomes.py says what became of it, data_watch.py which data packets are worth a
look, and tracker.py puts them together. Nothing here knows a file, a clock, a socket or Scapy: `feed` a message,
`advance` the time, `finish` at the end.
"""

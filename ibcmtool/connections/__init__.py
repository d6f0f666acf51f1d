"""The reconstructor: replays CM messages into connections.

tables.py holds the state machine as data, timers.py the arithmetic of the 5-bit times and of timewait, deadlines.py
what must have happened by when and deadline_queue.py whose turn it is. registry.py finds the connection that a message
belongs to, by the ids in connection_index.py, or begins one (creation.py); matching.py knows a repetition from a copy,
transition.py what a message does to both ends, outcomes.py what became of the connection. implementation.py recognises
whose CM it is, stale_duties.py what is owed after REJ 10 and release.py when its QPN is free again, data_watch.py which
data packets are worth a look, codes.py names the numbers of the protocol, and tracker.py puts them together. Nothing
here knows a file, a clock, a socket or Scapy: `feed` a message, `advance` the time, `finish` at the end.
"""

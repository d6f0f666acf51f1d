"""Watching connections while they happen.

Sources (sources/live) run in threads of their own and deliver packets; the session (session.py) decodes them, feeds the
tracker and the judge, lets time pass when nothing arrives, and hands on what an analysis hands on, as it comes. Nothing
here writes to a terminal: the command (cli/live.py) gives the records to reports.
"""

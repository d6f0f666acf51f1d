"""Views over many connections: what shows only when they are counted together.

Fed with the records of an analysis as they come, of any number, in bounded memory:

    rows.py      the totals of each pair of nodes, target or service (`analyze --by`)
    attempts.py  attempts that ended the same way, one soon after the other

They compute and hold no text for people but names; the reports render them.
"""

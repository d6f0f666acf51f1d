"""S: stale connections: a QPN that one side holds connected while the other has given it to somebody else."""

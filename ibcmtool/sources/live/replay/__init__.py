"""`replay:FILE[@SPEED]`: a capture at the pace at which it was taken, or faster."""

"""What is learnt from: files of pairs, tars, scenes of the built-in world."""

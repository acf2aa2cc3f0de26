"""Training data: tables of pairs, COCO captions, webdataset tars, scenes of the built-in world."""

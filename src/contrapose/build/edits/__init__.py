"""Edit pairs: images of two captions that differ in one slot, by any generator of images."""

"""Search: an index of images on disk, exact nearest neighbors, and queries of image and text."""

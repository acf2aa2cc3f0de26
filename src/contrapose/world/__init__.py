"""The built-in world: scenes, their renderer, their captions and the benchmark `scenes`."""

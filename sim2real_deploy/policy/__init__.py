"""Policies: the bundle on disk, observation terms, the ONNX session."""

"""Masking of caption words (`text`, `embeddings`) and image regions (`images`)."""

"""A text and a model → tokens, embeddings, and score(embeddings). `adapter.py` is the seam; `pl.models` its public face."""

"""How it is found: index, embedding, fusion, search."""

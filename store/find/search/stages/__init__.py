"""Score stages between the arms and the answer, each a pure function over the candidates of one question."""

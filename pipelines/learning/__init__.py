"""Learning to rank: weights of the features of candidates, from questions of which the answer is known."""

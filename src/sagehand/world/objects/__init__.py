"""Objects as data: what they are made of, how they may be held, and where each constant comes from."""

"""How costs grow: what must stay the same for each unit of work, however much of it there is."""

"""A page on which anyone can ask an agent for a return, in a browser and without installing anything."""

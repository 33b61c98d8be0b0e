"""Goals: what storms are meant to reach. One file each; its name, with spaces for underscores, is the goal's."""

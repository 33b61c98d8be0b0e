"""How the image of the nodes' containers is made; ``stormproof image`` does it."""

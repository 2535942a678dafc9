"""One file per version; each goes on from the one before."""

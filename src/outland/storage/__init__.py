"""Files and tensors on disk: whole or absent, checksummed, never executed."""

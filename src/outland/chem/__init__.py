"""Molecules as packed graphs: SMILES or RDKit molecules in, OGB's features out."""

"""Graph classification that holds up on graphs unlike the training ones."""

__version__ = "0.1.0"

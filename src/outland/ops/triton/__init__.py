"""The Triton kernels of the operations next door, file by file. Importing a module here imports Triton."""

"""GPU kernels in Triton, each with its formula and its reference. They know of vectors, not of memories."""

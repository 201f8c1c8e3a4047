"""The in-process core: encoders, batching, memories, indexes, retrieval, anticipation. No gRPC here."""

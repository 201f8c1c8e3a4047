"""What we add to vLLM's workers; loaded by name, in their processes (``worker_extension_cls``)."""

from typing import Any


class CacheClearing:
    """Mixed into the worker's class by vLLM; its method is called by name from ours."""

    model_runner: Any

    def precall_clear_cache(self) -> None:
        """Zero the keys and values of every layer. Nothing may be running."""
        import torch

        # The tensors were made in this mode and may be changed in no other.
        with torch.inference_mode():
            for cache in self.model_runner.kv_caches:
                cache.zero_()

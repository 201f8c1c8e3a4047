"""How vLLM runs a model: what it may take of the machine, and how long a call may last."""

from dataclasses import dataclass

from precall.engine.errors import ConfigurationError


@dataclass(frozen=True)
class VllmSettings:
    cache_tokens: int | None = None
    """Tokens that the engine has key and value memory for; None: one input of the greatest length beside one
    full pass. It is all the memory that is taken beyond weights and activations: other users of the GPU keep
    the rest.
    """

    eager: bool | None = None
    """Neither compile the model nor capture CUDA graphs; None: eager on a processor, where compiling costs
    every start more than it brings.
    """

    pass_seconds: float = 120.0
    """An engine that has not answered a batch in this time counts as dead, and is replaced."""

    def __post_init__(self) -> None:
        if self.cache_tokens is not None and self.cache_tokens < 1:
            raise ConfigurationError(f"vLLM cache_tokens must be at least 1, not {self.cache_tokens}")
        if not self.pass_seconds > 0:
            raise ConfigurationError(f"vLLM pass_seconds must be more than 0, not {self.pass_seconds}")

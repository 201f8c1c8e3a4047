"""The embedding models that a server runs: one, or two while tenants change from one to the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from precall.engine.batching.batcher import Batcher
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import Encoder
from precall.engine.errors import ConfigurationError, InvalidInput, NotFound


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model and the queue before it."""

    encoder: Encoder
    batcher: Batcher

    @property
    def card(self) -> ModelCard:
        return self.encoder.card

    @property
    def fingerprint(self) -> str:
        return self.encoder.card.fingerprint


class Models:
    """By fingerprint. ``primary`` is the one that new tenants get."""

    def __init__(self, primary: Model, other: Model | None = None) -> None:
        """Raises ConfigurationError when the two are one."""
        if other is not None and other.fingerprint == primary.fingerprint:
            raise ConfigurationError(
                f"the next model is the model itself ({primary.card.name}, {primary.fingerprint}): "
                "leave it out, or name another one"
            )
        self.primary = primary
        self._models = {model.fingerprint: model for model in (primary, other) if model is not None}

    def __iter__(self) -> Iterator[Model]:
        """The primary first."""
        return iter(self._models.values())

    def get(self, fingerprint: str) -> Model | None:
        return self._models.get(fingerprint)

    def named(self, name_or_fingerprint: str) -> Model:
        """The model of this name or fingerprint.

        Raises NotFound, and InvalidInput for a name that both have: one may be the other with shorter
        vectors.
        """
        if (model := self.get(name_or_fingerprint)) is not None:
            return model
        found = [model for model in self if model.card.name == name_or_fingerprint]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"no model {name_or_fingerprint!r} is loaded, only {self.described}")
        raise InvalidInput(f"two models have this name, give a fingerprint: {self.described}")

    @property
    def described(self) -> str:
        """What is loaded, for messages."""
        return " and ".join(
            f"{model.card.name} ({model.fingerprint}, {model.card.dimension} dimensions)" for model in self
        )

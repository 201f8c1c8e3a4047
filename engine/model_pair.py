"""The models of one tenant: the one that serves it and, while it migrates, a second one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from precall.engine.errors import FingerprintMismatch
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.store import TenantStore
from precall.engine.models import Model, Models
from precall.engine.tenant_model import TenantModel


@dataclass(frozen=True, slots=True)
class _Standing:
    """At one moment; replaced as a whole."""

    serving: TenantModel
    other: TenantModel | None
    switched: bool


class ModelPair:
    """Follows the tenant's file, step by step of its migration, and in no step's middle: `follow` is called
    in the turn in which the file changed, so a commit finds file and pair agreed.

    Only the event loop may call in, once it is made; reading it is safe from threads.
    """

    def __init__(self, store: TenantStore, models: Models, make: Callable[[Model], TenantModel]) -> None:
        """Reads the disk. Raises FingerprintMismatch when a model that the tenant needs is not loaded."""
        self._store = store
        self._models = models
        self._make = make
        _require_loaded(store, models)
        switched = store.migration_state is MigrationState.SWITCHED
        self._standing = self._stand({}, switched=switched)

    def __iter__(self) -> Iterator[TenantModel]:
        """The one that serves first."""
        standing = self._standing
        yield standing.serving
        if standing.other is not None:
            yield standing.other

    @property
    def serving(self) -> TenantModel:
        return self._standing.serving

    @property
    def other(self) -> TenantModel | None:
        """Whose vectors writes make as well; None where there is none, and where it is not loaded."""
        return self._standing.other

    @property
    def switched(self) -> bool:
        """Whether the tenant may go back: every memory has both vectors, and every write must make both."""
        return self._standing.switched

    def model(self, fingerprint: str) -> TenantModel:
        """``""``: the one that serves. Raises FingerprintMismatch for a model that the tenant has not."""
        for model in self:
            if fingerprint in ("", model.fingerprint):
                return model
        serving = self.serving
        raise FingerprintMismatch(
            f"tenant {self._store.tenant_id!r} is served by model {serving.card.name} "
            f"({serving.fingerprint}), not by {fingerprint}: send the text, or a vector of that model",
            metadata={"model_fingerprint": serving.fingerprint},
        )

    def note_cut(self, fingerprint: str, texts: int) -> None:
        """A write was stored of which that model read so many texts in part; if the tenant has it still."""
        for model in self:
            if model.fingerprint == fingerprint:
                model.texts_cut += texts

    def require_searchable(self, model: TenantModel) -> None:
        """Raises ModelChanged for a model that the tenant gave up, FingerprintMismatch for one whose vectors
        are not all there yet.
        """
        model.require_kept()
        if model is not self.serving and not self.switched:
            raise FingerprintMismatch(
                f"tenant {self._store.tenant_id!r} is on its way to model {model.fingerprint}, whose vectors "
                f"are not all there: until it is switched, search with {self.serving.fingerprint}",
                metadata={"model_fingerprint": self.serving.fingerprint},
            )

    def follow(self, *, switched: bool) -> None:
        """The file says by now which models the tenant has; asks no disk."""
        before = list(self)
        self._standing = self._stand({model.fingerprint: model for model in before}, switched=switched)
        for model in set(before).difference(self):
            model.retire()

    def _stand(self, known: dict[str, TenantModel], *, switched: bool) -> _Standing:
        serving, other = self._store.serving, self._store.other
        return _Standing(
            known.get(serving.fingerprint) or self._loaded(serving.fingerprint),
            None if other is None else known.get(other.fingerprint) or self._made(other.fingerprint),
            switched,
        )

    def _made(self, fingerprint: str) -> TenantModel | None:
        model = self._models.get(fingerprint)
        return None if model is None else self._make(model)

    def _loaded(self, fingerprint: str) -> TenantModel:
        made = self._made(fingerprint)
        assert made is not None, "`_require_loaded` and the steps of a migration see to it"
        return made


def _require_loaded(store: TenantStore, models: Models) -> None:
    needed = [store.serving.fingerprint]
    if store.migration_state is MigrationState.SWITCHED and store.other is not None:
        needed.append(store.other.fingerprint)
    missing = [fingerprint for fingerprint in needed if models.get(fingerprint) is None]
    if not missing:
        return
    tenant = f"tenant {store.tenant_id}"
    if len(needed) == 1:
        raise FingerprintMismatch(
            f"{tenant} is served by model {missing[0]}, this server runs {models.described}: start it with "
            "that model as the model or as the next one, and migrate the tenant if it is to have another"
        )
    raise FingerprintMismatch(
        f"{tenant} was switched to model {needed[0]} and may go back to {needed[1]}, so it needs both, and "
        f"this server runs {models.described}: start it with one as the model and the other as the next one; "
        "there, finish the migration or roll it back, and one model will do"
    )

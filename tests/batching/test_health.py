"""What is known of a device, and who is told."""

from precall.engine.batching.health import DeviceHealth
from precall.engine.errors import ModelUnavailable, NumericsError


def test_a_device_that_has_computed_nothing_is_not_known_to_work() -> None:
    fault = DeviceHealth("the reranker").fault
    assert isinstance(fault, ModelUnavailable) and "the reranker" in fault.message


def test_listeners_hear_of_every_turn_and_of_nothing_else() -> None:
    health = DeviceHealth("the reranker")
    heard: list[str | None] = []
    for _ in range(2):
        health.listen(lambda: heard.append(None if health.fault is None else health.fault.reason))
    health.failed(ModelUnavailable("lost"))
    assert heard == []  # as bad as before
    health.worked()
    health.worked()
    health.failed(NumericsError("NaN"))
    health.failed(ModelUnavailable("lost"))
    assert health.fault is not None and health.fault.message == "lost"
    health.worked()
    assert heard == [None, None, "NUMERICS", "NUMERICS", None, None]

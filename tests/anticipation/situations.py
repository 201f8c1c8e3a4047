"""What a predictor is shown, made from a world's partitions."""

from collections.abc import Sequence

from precall.engine.anticipation.conversation import Conversation, Turn, TurnRole
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.memory.ladder import Rung
from tests.fakes.memories import DANA
from tests.fakes.world import WordModel, World


def situation(
    world: World,
    *,
    cue: Cue,
    rung: Rung = DANA,
    tenant: str = "t",
    answers: Sequence[Sequence[str]] = (),
    found: Sequence[str] = (),
    said: Sequence[str] = (),
    complete: frozenset[Rung] = frozenset(),
    conversation_id: str = "",
) -> Situation:
    """``answers``: the ids that each answer named, in the order of time; ``said``: by the user, before."""
    conversation = Conversation(turns_kept=9)
    for text in said:
        conversation.observe(Turn(TurnRole.USER, text), partial=False)
    for ids in answers:
        conversation.observe(Turn(TurnRole.ASSISTANT, "an answer", tuple(ids)), partial=False)
    conversation.found_ids = found
    return Situation(
        WordModel(),
        world.lineage(tenant, rung),
        conversation,
        world.versions.get(tenant, 0),
        tenant,
        conversation_id,
        complete,
        cue,
    )


def the_only(proposals: Sequence[Proposal]) -> Proposal:
    (proposal,) = proposals
    return proposal

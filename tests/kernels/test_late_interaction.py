"""Scores are those of the formula and of the reranker for machines without a GPU."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from precall.engine.encoding.late_interaction import _interaction
from precall.kernels.errors import KernelInputError
from precall.kernels.late_interaction import TokenVectors, late_interaction, late_interaction_reference
from precall.kernels.launch import Launch

TOLERANCES = [
    # dtype of the vectors, atol, rtol: sums in another order; on a GPU three tf32 products for float32
    (torch.float32, 2e-6, 2e-6),
    (torch.float16, 2e-6, 2e-6),
]


def texts(lengths, width, generator, device, dtype=torch.float32) -> TokenVectors:
    vectors = torch.randn((sum(lengths), width), generator=generator)
    vectors /= vectors.norm(dim=1, keepdim=True)
    bounds = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    return TokenVectors(vectors.to(dtype).to(device), bounds.to(device))


def weights_of(queries: TokenVectors, frame: int, generator: torch.Generator) -> torch.Tensor:
    """Of each query 1 together; of what its frame holds something that nobody may count."""
    weights = torch.full((len(queries.vectors),), 1e6)
    bounds = queries.bounds.tolist()
    for first, last in pairwise(bounds):
        own = torch.rand(max(0, last - first - 2 * frame), generator=generator)
        weights[first + frame : first + frame + len(own)] = own / own.sum()
    return weights.to(queries.vectors.device)


def numbers(*values: int, device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


@pytest.mark.parametrize(("dtype", "atol", "rtol"), TOLERANCES)
@pytest.mark.parametrize(
    ("asked", "told", "width", "frame"),
    [
        ((1,), (1,), 16, 0),
        ((5, 16, 17), (64, 65, 3), 48, 0),
        ((40, 3), (130, 2, 63), 384, 1),
        ((18,), (200,), 400, 1),
    ],
)
def test_scores_are_those_of_the_formula(dtype, atol, rtol, asked, told, width, frame, generator, device):
    queries = texts(asked, width, generator, device, dtype)
    documents = texts(told, width, generator, device, dtype)
    weights = weights_of(queries, frame, generator)
    pairs = [(query, document) for query in range(len(asked)) for document in range(len(told))]
    query_of = numbers(*(query for query, _ in pairs), device=device)
    document_of = numbers(*(document for _, document in pairs), device=device)
    found = late_interaction(queries, documents, weights, query_of, document_of, frame=frame)
    expected = late_interaction_reference(queries, documents, weights, query_of, document_of, frame=frame)
    torch.testing.assert_close(found, expected, atol=atol, rtol=rtol)
    assert found.isfinite().all() and (len(found) == 1 or (found > 0).any())


def test_scores_are_those_of_the_reranker_without_a_gpu(generator, device):
    queries, documents = (texts(lengths, 384, generator, device) for lengths in ((9, 21), (30, 77, 4)))
    documents.vectors[3:9] = queries.vectors[2:8]  # words that find their like
    weights = weights_of(queries, 1, generator)
    pairs = [(0, 0), (1, 2), (1, 0), (0, 1)]
    found = late_interaction(
        queries,
        documents,
        weights,
        numbers(*(query for query, _ in pairs), device=device),
        numbers(*(document for _, document in pairs), device=device),
        frame=1,
    )
    expected = []
    for query, document in pairs:
        asked = slice(*queries.bounds[query : query + 2].tolist())
        told = slice(*documents.bounds[document : document + 2].tolist())
        own = weights[asked][1:-1].cpu().numpy()
        left, right = queries.vectors[asked].cpu().numpy(), documents.vectors[told].cpu().numpy()
        expected.append(_interaction(left, right, own))
    assert np.abs(found.cpu().numpy() - expected).max() < 2e-6
    assert max(expected) > 0.5 > min(expected)


@pytest.mark.parametrize("where", ["query", "document", "weight"])
def test_nan_is_never_lost(where, generator, device):
    queries = texts((20, 5), 32, generator, device)
    documents = texts((70, 6), 32, generator, device)
    weights = weights_of(queries, 0, generator)
    {"query": queries.vectors[17], "document": documents.vectors[66], "weight": weights[3:4]}[where][:] = (
        torch.nan
    )
    zero, one = numbers(0, 1, device=device), numbers(0, 1, device=device)
    found = late_interaction(queries, documents, weights, zero, one)
    assert found.isnan().tolist() == [True, False]


def test_a_score_stays_between_0_and_1(generator, device):
    queries = texts((4, 4), 32, generator, device)
    likes = TokenVectors(
        torch.cat([queries.vectors[:4] * 1.5, -queries.vectors[4:5]]), numbers(0, 4, 5, device=device)
    )
    weights = torch.full((8,), 0.2, device=device)
    both = numbers(0, 1, device=device)
    found = late_interaction(queries, likes, weights, both, both)
    assert found[0].item() == pytest.approx(0.8) and 0 <= found[1] < 0.8  # each cosine counts 1 at most
    weights.fill_(0.5)
    assert late_interaction(queries, likes, weights, both, both)[0] == 1
    weights.neg_()
    assert late_interaction(queries, likes, weights, both, both)[0] == 0


@pytest.mark.parametrize("frame", [0, 1])
def test_texts_without_tokens_have_the_score_0(frame, generator, device):
    queries = texts((3, 2 * frame), 16, generator, device)
    documents = texts((2 * frame, frame, 5), 16, generator, device)
    weights = torch.ones(len(queries.vectors), device=device)
    found = late_interaction(
        queries,
        documents,
        weights,
        numbers(0, 0, 1, device=device),
        numbers(0, 1, 2, device=device),
        frame=frame,
    )
    assert found.tolist()[::2] == [0, 0] and (frame == 0 or found[1] == 0)


def test_the_host_reads_nothing_of_what_is_on_the_device(monkeypatch):
    runs = []
    monkeypatch.setattr(Launch, "run", lambda launch, programs, *arguments: runs.append(programs))
    there = TokenVectors(
        torch.empty((20, 64), device="meta"), torch.empty(4, dtype=torch.int32, device="meta")
    )
    number = torch.empty(7, dtype=torch.int32, device="meta")
    scores = late_interaction(there, there, torch.empty(20, device="meta"), number, number)
    assert runs == [7] and scores.shape == (7,)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"documents": TokenVectors(torch.zeros((4, 16)), torch.zeros(2, dtype=torch.int32))},
            "documents' vectors",
        ),
        ({"weights": torch.ones(3)}, "weights has the shape"),
        ({"document_of": torch.zeros(2, dtype=torch.int32)}, "document_of has the shape"),
        ({"query_of": torch.zeros(1, dtype=torch.int64)}, "query_of is int64"),
        ({"frame": -1}, "frame is -1"),
        (
            {"queries": TokenVectors(torch.zeros((4, 24)), torch.zeros(2, dtype=torch.int32))},
            "multiple of 16",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    given = {
        "queries": TokenVectors(torch.zeros((4, 32)), torch.zeros(2, dtype=torch.int32)),
        "documents": TokenVectors(torch.zeros((4, 32)), torch.zeros(2, dtype=torch.int32)),
        "weights": torch.ones(4),
        "query_of": torch.zeros(1, dtype=torch.int32),
        "document_of": torch.zeros(1, dtype=torch.int32),
    }
    with pytest.raises(KernelInputError, match=message):
        late_interaction(**(given | changed))

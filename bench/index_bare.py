"""FAISS alone over the vectors of a partition: what a search of precall is held against.

*Bare*: the index that users of FAISS would make by the same parameters. Where precall has no codes or flat
ones: `SQ8`, that is `IndexScalarQuantizer(QT_8bit)` by inner product, with the same robust ranges. For lists:
`IVF,SQ8` over the same centres with vectors coded whole, told to read as many lists as hold as many codes as
a search of precall reads on average. It is asked for as many candidates as precall asks its codes for first,
in one thread, by FAISS' own Python wrapper, and gives ids by the cosines of codes: no keywords, importance,
age, filter or moments, and no exact score.

*Refined*: the same inside `IndexRefine`, which scores those candidates by float16 vectors and gives ten, told
to read twice as many lists until it finds 99 in a hundred by cosine: what FAISS takes for precall's recall.

precall's codes are the same bytes; its searches multiply them as they stand (`Coder.ask`), where `QT_8bit`
decodes each.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_corpus import VectorSource
from precall.engine.index.coder import flat_index
from precall.engine.index.codes import FlatCodes
from precall.engine.index.faiss_library import faiss_library
from precall.engine.index.listed import ListedCodes
from precall.engine.index.partition import Partition
from precall.engine.index.quantizer import train
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast

_CHUNK: Final = 10_000
_TRAINED_ON: Final = 5_000


@dataclass(frozen=True, slots=True)
class BareIndex:
    """``kind``: as FAISS' factory has it. Searches answer with ids, int64, best first."""

    index: Any
    refined: Any
    kind: str
    candidates: int
    probes: int
    """Lists that a search reads; 0 where there are none."""

    refined_probes: int
    """The same of a refined search."""

    def search(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.index.search(query[None], self.candidates)[1][0]
        return found

    def search_refined(self, query: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
        faiss = faiss_library()
        lists = faiss.SearchParametersIVF(nprobe=self.refined_probes) if self.probes else None
        asked = faiss.IndexRefineSearchParameters(
            k_factor=self.candidates / min(limit, self.candidates), base_index_params=lists
        )
        found: NDArray[np.int64] = self.refined.search(query[None], limit, params=asked)[1][0]
        return found

    @property
    def says(self) -> str:
        return self.kind + (f" nprobe {self.probes}" if self.probes else "")

    @property
    def refined_says(self) -> str:
        return f"refined {self.kind}" + (f" nprobe {self.refined_probes}" if self.probes else "")

    @property
    def can_read_more(self) -> bool:
        return self.probes > 0 and self.refined_probes < self.index.nlist

    def reading_more(self) -> "BareIndex":
        """The same, whose refined searches read twice as many lists."""
        return replace(self, refined_probes=min(2 * self.refined_probes, self.index.nlist))


def bare_index(partition: Partition, source: VectorSource, size: int, queries: list[Query]) -> BareIndex:
    """The index over the first ``size`` vectors of the source, which are the partition's."""
    faiss = faiss_library()
    codes, probes = partition.codes, 0
    ranges = train(source.vectors(0, min(size, _TRAINED_ON)))
    if isinstance(codes, ListedCodes):
        probes = _lists_for(_codes_read(partition, queries), size, len(codes.clusters))
        centres = codes.clusters.centres
        coarse = faiss.IndexFlatL2(centres.shape[1])
        coarse.add(centres)
        index = faiss.IndexIVFScalarQuantizer(
            coarse, centres.shape[1], len(centres), faiss.ScalarQuantizer.QT_8bit,
            faiss.METRIC_INNER_PRODUCT, False,
        )  # fmt: skip
        faiss.copy_array_to_vector(np.concatenate([ranges.minimum, ranges.span]), index.sq.trained)
        index.is_trained, index.nprobe = True, probes
        index.referenced_objects = [coarse]
        kind = f"IVF{len(centres)},SQ8"
    else:
        index, kind = flat_index(ranges), "SQ8"
    exact = faiss.IndexScalarQuantizer(index.d, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    refined = faiss.IndexRefine(index, exact)
    for begin in range(0, size, _CHUNK):
        refined.add(source.vectors(begin, min(begin + _CHUNK, size)))
    candidates = min(FlatCodes.first if codes is None else codes.first, size)
    faiss.omp_set_num_threads(1)
    return BareIndex(index, refined, kind, candidates, probes, probes)


def _codes_read(partition: Partition, queries: list[Query]) -> float:
    """Codes that a search of the partition reads, on average."""
    statistics = faiss_library().cvar.indexIVF_stats
    statistics.reset()
    for query in queries:
        search_fast([partition], query)
    return float(statistics.ndis) / len(queries)


def _lists_for(codes: float, size: int, lists: int) -> int:
    return max(1, round(codes / (size / lists)))

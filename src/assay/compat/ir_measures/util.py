"""ir_measures' tuples, the ways in which runs and judgments are given, and names as text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from assay.core.text import did_you_mean
from assay.errors import need
from assay.io.streams import read_lines

if TYPE_CHECKING:
    from assay.compat.ir_measures.measures import Measure

__all__ = [
    "CalcResults",
    "Metric",
    "Qrel",
    "QrelsConverter",
    "RunConverter",
    "ScoredDoc",
    "parse_measure",
    "parse_trec_measure",
    "read_trec_qrels",
    "read_trec_run",
]


class Qrel(NamedTuple):
    """One judgment."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class ScoredDoc(NamedTuple):
    """One line of a run."""

    query_id: str
    doc_id: str
    score: float


class Metric(NamedTuple):
    """The value of one measure for one query."""

    query_id: str
    measure: Measure
    value: float


class CalcResults(NamedTuple):
    """One number for each measure, and the values of single queries."""

    aggregated: Any
    per_query: list[Metric]


class _Converter:
    """Lines from dicts of dicts, data frames, or named tuples; a pair's last line counts."""

    ROW: ClassVar[type[Qrel] | type[ScoredDoc]]
    WHAT: ClassVar[str]

    def __init__(self, data: Any, strict: bool = True) -> None:
        self.data = data if isinstance(data, dict) or _is_frame(data) else _keep(data)
        self.strict = strict

    def as_namedtuple_iter(self) -> Iterator[Any]:
        """Each line as a named tuple."""
        if isinstance(self.data, dict):
            for query, docs in self.data.items():
                yield from (self.ROW(query, doc, value) for doc, value in docs.items())
        elif _is_frame(self.data):
            self._check_fields(self.data.columns)
            known = [name for name in self.ROW._fields if name in self.data.columns]
            columns = (self.data[name].tolist() for name in known)
            yield from (self.ROW(*row) for row in zip(*columns, strict=True))
        elif isinstance(self.data, list):
            if self.data:
                self._check_fields(getattr(self.data[0], "_fields", ()))
            yield from self.data
        else:
            raise ValueError(
                f"unknown {self.WHAT} format: {type(self.data).__name__} is neither a dict of "
                f"dicts, nor a data frame or tuples with the fields {', '.join(self.ROW._fields)}."
            )

    def _check_fields(self, found: Iterable[str]) -> None:
        names = list(found)
        missing = [one for one in self.ROW._fields[:3] if one not in names]
        if missing and self.strict:
            raise ValueError(
                f"unknown {self.WHAT} format: no field {', '.join(missing)} among {names}."
            )

    def as_dict_of_dict(self) -> dict[str, dict[str, Any]]:
        """{query: {doc: value}}."""
        if isinstance(self.data, dict):
            return self.data
        value = self.ROW._fields[2]
        made: dict[str, dict[str, Any]] = {}
        for line in self.as_namedtuple_iter():
            made.setdefault(line.query_id, {})[line.doc_id] = getattr(line, value)
        return made

    def as_pd_dataframe(self) -> Any:
        """A pandas data frame with a column for each field."""
        pandas = need("pandas", "a measure over data frames", "pandas")
        if not _is_frame(self.data):
            return pandas.DataFrame(list(self.as_namedtuple_iter()), columns=self.ROW._fields)
        if "iteration" in self.ROW._fields and "iteration" not in self.data.columns:
            return self.data.assign(iteration="0")
        return self.data


def _is_frame(data: Any) -> bool:
    return hasattr(data, "itertuples")


def _keep(data: Any) -> Any:
    """Lines that can be read more than once."""
    return list(data) if hasattr(data, "__iter__") else data


class QrelsConverter(_Converter):
    """Judgments in any of the ways in which they are given."""

    ROW, WHAT = Qrel, "qrels"


class RunConverter(_Converter):
    """A run in any of the ways in which it is given."""

    ROW, WHAT = ScoredDoc, "run"

    def as_sorteddict(self) -> dict[str, list[ScoredDoc]]:
        """The lines of each query by descending score, those with equal scores as they stand."""
        made: dict[str, list[ScoredDoc]] = {}
        for line in self.as_namedtuple_iter():
            made.setdefault(line.query_id, []).append(line)
        return {query: sorted(lines, key=lambda line: -line.score) for query, lines in made.items()}


def _columns(file: Any) -> Iterator[list[str]]:
    """The columns of each line of an open file, of a text of several lines, or of a path's file."""
    if isinstance(file, str):
        file = file.splitlines() if "\n" in file else read_lines(file)
    return (line.split() for line in file if line.strip())


def read_trec_qrels(file: Any) -> Iterator[Qrel]:
    """Judgments in TREC's layout."""
    for query, iteration, doc, grade in _columns(file):
        yield Qrel(query, doc, int(grade), iteration)


def read_trec_run(file: Any) -> Iterator[ScoredDoc]:
    """A run in TREC's layout; its ranks are not read."""
    for query, _, doc, _, score, _ in _columns(file):
        yield ScoredDoc(query, doc, float(score))


def parse_measure(measure: str | Measure) -> Measure:
    """A measure from its text, such as `nDCG(dcg='exp-log2')@10`.

    >>> parse_measure("MAP(rel=2)@100")
    AP(rel=2)@100
    """
    from assay.compat.ir_measures.measures import registry  # which needs the tuples above

    if not isinstance(measure, str):
        return measure
    try:
        node, at = ast.parse(measure.strip(), mode="eval").body, []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            at, node = [ast.literal_eval(node.right)], node.left
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        params = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError):
        call, params = ast.Call(ast.Constant(""), [], []), {}
    if not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"{measure!r} is not a measure: write name(key=value)@cutoff.")
    if call.func.id not in registry:
        hint = did_you_mean(call.func.id, registry)
        raise NameError(f"There is no measure {call.func.id}.{hint}")
    found = registry[call.func.id](**params)
    return found @ at[0] if at else found


# Names of trec_eval, and the measures of ir_measures that they are.
_TREC: Final = {
    "P": "P",
    "Rprec": "Rprec",
    "bpref": "Bpref",
    "iprec_at_recall": "IPrec",
    "map": "AP",
    "map_cut": "AP",
    "ndcg": "nDCG",
    "ndcg_cut": "nDCG",
    "num_q": "NumQ",
    "num_rel": "NumRel",
    "num_rel_ret": "NumRelRet",
    "num_ret": "NumRet",
    "recall": "R",
    "recip_rank": "RR",
    "set_F": "SetF",
    "set_P": "SetP",
    "set_map": "SetAP",
    "set_recall": "SetR",
    "set_relative_P": "SetRelP",
    "success": "Success",
}


def parse_trec_measure(measure: str) -> list[Measure]:
    """The measures that trec_eval's name stands for: `P_5,10`, `ndcg_cut.10`, `official`.

    >>> parse_trec_measure("P.5,10")
    [P@5, P@10]
    """
    from assay.compat.ir_measures.measures import registry
    from assay.compat.pytrec_eval import default_parameters, supported_nicknames

    if measure in supported_nicknames:
        names = sorted(name for name in supported_nicknames[measure] if name in _TREC)
        return [one for name in names for one in parse_trec_measure(name)]
    shape = re.fullmatch(r"(.+?)[._](\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)*)", measure)
    name, numbers = (measure, None) if measure in _TREC or shape is None else shape.groups()
    if name not in _TREC:
        raise ValueError(f"{measure} is not a name of trec_eval for which there is a measure.")
    found = registry[_TREC[name]]
    given = default_parameters.get(name, ()) if numbers is None else numbers.split(",")
    key = "beta" if name == "set_F" else found.AT_PARAM
    if given and name not in (*default_parameters, "set_F"):
        raise ValueError(f"{name} takes no number, found {measure}.")
    number = found.SUPPORTED_PARAMS[key].dtype or str if given else str
    return [found(**{key: number(one)}) for one in given] or [found]

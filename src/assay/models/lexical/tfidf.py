"""`tfidf`: TF-IDF vectors of scikit-learn, compared by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core import checks
from assay.errors import UsageError, need
from assay.io.fingerprints import fingerprint_of, version_of
from assay.models.lexical.base import SparseFitted, checked_texts
from assay.models.lexical.words import WordSettings


@dataclass(frozen=True)
class TfIdf(WordSettings):
    """Settings of TF-IDF; with `sublinear` a word that occurs n times counts 1 + ln n."""

    sublinear: bool = True

    def __post_init__(self) -> None:
        """Check the settings before any text is read."""
        check_settings(self)

    @property
    def spec(self) -> str:
        """The spec of the model."""
        return "tfidf"

    @property
    def fingerprint(self) -> str:
        """Of the settings and the version of scikit-learn."""
        return fingerprint_of({"model": "tfidf", **settings_of(self)})

    def fit(self, doc_texts: Sequence[str]) -> SparseFitted:
        """Vectors of these documents."""
        vectorizer, rows = fitted_vectorizer(self, doc_texts)
        return SparseFitted(rows.T.tocsr(), vectorizer.transform)


def check_settings(model: Any) -> None:
    """Refuse settings of the wrong kind, for tfidf and what builds on it."""
    checks.require(model.sublinear, bool, "sublinear", "True or False")
    model.check_words()


def settings_of(model: Any) -> dict[str, Any]:
    """The settings and the version, for a fingerprint."""
    return {
        **model.__dict__,
        **model.words_identity,
        "scikit-learn": version_of("scikit-learn"),
    }


def fitted_vectorizer(model: Any, doc_texts: Sequence[str]) -> tuple[Any, Any]:
    """The vectorizer that has seen the documents, and their rows, each of length 1 or zero."""
    package = need("sklearn.feature_extraction.text", f"The model {model.spec!r}", "lexical")
    texts = checked_texts(doc_texts, "The documents")
    vectorizer = package.TfidfVectorizer(analyzer=model.splitter(), sublinear_tf=model.sublinear)
    try:
        rows = vectorizer.fit_transform(texts)
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        raise UsageError("No document has a word that is not a stop word.") from None
    return vectorizer, rows

"""Words of texts in any script, and the settings that choose them."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import MissingPackageError, UsageError
from assay.models import lexical_model
from assay.models.languages import ENGLISH
from assay.models.lexical import WordSettings, combining_marks, split_words

LATIN_GREEK_CYRILLIC = st.characters(
    min_codepoint=32, max_codepoint=0x52F, exclude_categories=["Mn", "Mc", "Me"]
)


@given(st.text(LATIN_GREEK_CYRILLIC))
def test_scripts_with_spaces_give_runs_of_letters_and_digits(text):
    plain = unicodedata.normalize("NFKC", text).lower()
    if any(unicodedata.combining(one) for one in plain):
        return
    assert split_words(text) == re.findall(r"\w\w+", plain)


@given(st.text())
def test_no_text_is_too_strange(text):
    words = split_words(text)
    assert all(words)
    assert words == split_words(unicodedata.normalize("NFKC", text))


def test_every_combining_mark_is_known():
    """They are looked for in those planes of Unicode that have any."""
    every = list(map(chr, range(sys.maxunicode + 1)))
    marks = [one for one in every if unicodedata.category(one) in ("Mn", "Mc")]
    listed = re.findall(f"[{combining_marks()}]", "".join(every))
    assert sorted([*marks, "\u200c", "\u200d"]) == listed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我用Python编程", ["我用", "python", "编程"]),
        ("猫", ["猫"]),
        ("猫 and 犬小屋", ["猫", "and", "犬小", "小屋"]),
        ("データ", ["デー", "ータ"]),
        ("한국어 검색", ["한국", "국어", "검색"]),
        ("ภาษาไทย", ["ภาษ", "าษา", "ษาไ", "าไท", "ไทย"]),
        ("หมู", ["หมู"]),
        ("हिन्दी में खोज", ["हिन्दी", "में", "खोज"]),
        ("வணக்கம் உலகம்", ["வணக்கம்", "உலகம்"]),
        ("كِتَاب", ["كِتَاب"]),
        ("cafe\u0301 café CAFÉ", ["café"] * 3),
        ("ｆｕｌｌ ｗｉｄｔｈ", ["full", "width"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("", []),
        ("。、！？", []),
    ],
)
def test_each_script_gives_its_words(text, words):
    assert split_words(text) == [unicodedata.normalize("NFKC", word) for word in words]


def test_pairs_are_those_of_a_direct_definition():
    text = "信息检索是从大规模非结构化数据中找出相关文档的过程"
    assert split_words(text) == [text[i : i + 2] for i in range(len(text) - 1)]


CHINESE = ["信息检索的评价方法", "今天天气很好", "向量数据库与检索", "天气预报说明天下雨"]


@pytest.mark.parametrize("spec", ["bm25", "tfidf"])
def test_a_chinese_collection_is_searched(spec):
    pytest.importorskip("bm25s")
    pytest.importorskip("sklearn")
    found, _ = lexical_model(spec).fit(CHINESE).search(["检索评价", "天气"], 4)
    assert found[0].tolist()[:2] == [0, 2]
    assert set(found[1].tolist()) == {1, 3, -1}


def test_stop_words_by_language():
    pytest.importorskip("bm25s")
    german = WordSettings(stopwords="de").splitter()
    assert german("Der Hund und die Katze") == ["hund", "katze"]
    english = WordSettings(stopwords="English")
    assert english.splitter()("Der Hund and the Katze") == ["der", "hund", "katze"]
    assert WordSettings(stopwords=None).splitter()(" ".join(ENGLISH)) == [
        word for word in ENGLISH if len(word) > 1
    ]


def test_stems_by_language():
    pytest.importorskip("Stemmer")
    split = WordSettings(stopwords=None, stemmer="de").splitter()
    assert split("Häuser laufen") == ["haus", "lauf"]
    with pytest.raises(UsageError, match=r"Unknown stemmer 'germn'.*german"):
        WordSettings(stemmer="germn").splitter()


@pytest.mark.parametrize(
    ("package", "text", "words"),
    [
        ("jieba", "我来到北京清华大学。", ["我", "来到", "北京", "清华大学"]),
        ("fugashi", "東京へ行く。", ["東京", "へ", "行く"]),
        ("pythainlp", "ภาษาไทยง่าย", ["ภาษาไทย", "ง่าย"]),
    ],
)
def test_packages_of_single_languages_by_choice(package, text, words):
    settings = WordSettings(stopwords=None, tokenizer=package)
    settings.check_words()
    try:
        __import__(package)
    except ImportError:
        with pytest.raises(MissingPackageError, match=rf"\[{package}\]"):
            settings.splitter()
        pytest.skip(f"not installed: {package}")
    assert settings.splitter()(text) == [unicodedata.normalize("NFKC", word) for word in words]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenizer": "jeiba"}, "Unknown tokenizer 'jeiba'. Did you mean jieba"),
        ({"tokenizer": "jieba", "pattern": r"\w+"}, "pattern and tokenizer exclude each other"),
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "(a)"}, "must not have groups"),
        ({"stopwords": "xx"}, r"Languages: da \(danish\), de"),
    ],
)
def test_wrong_settings_are_refused_before_any_text(settings, words):
    with pytest.raises(UsageError, match=words):
        lexical_model("bm25", **settings)


def test_settings_of_words_enter_the_fingerprint():
    made = [
        lexical_model("bm25", **one).fingerprint
        for one in ({}, {"pattern": r"\w+"}, {"tokenizer": "jieba"}, {"stopwords": None})
    ]
    assert len(set(made)) == 4

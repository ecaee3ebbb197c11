"""The language of texts, and what follows from it for stop words and stems."""

from __future__ import annotations

import pytest

from assay.errors import AssayError
from assay.models import lexical_model
from assay.models.languages import ENGLISH, LANGUAGES, STOP_LISTS, find_code, language_of

# The first article of the Universal Declaration of Human Rights; of the second a part, where the
# first does not tell Danish from Norwegian.
ARTICLES = {
    "English": "All human beings are born free and equal in dignity and rights. They are endowed "
    "with reason and conscience and should act towards one another in a spirit of brotherhood.",
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit "
    "Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "French": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont "
    "doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit.",
    "Spanish": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados "
    "como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "Italian": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono "
    "dotati di ragione e di coscienza e devono agire gli uni verso gli altri.",
    "Portuguese": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. "
    "Dotados de razão e de consciência, devem agir uns para com os outros.",
    "Dutch": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn "
    "begiftigd met verstand en geweten, en behoren zich jegens elkander in een geest te gedragen.",
    "Danish": "Enhver har krav på alle de rettigheder og friheder, som nævnes i denne erklæring, "
    "uden forskelsbehandling af nogen art.",
    "Norwegian": "Enhver har krav på alle de rettigheter og friheter som er nevnt i denne "
    "erklæring, uten forskjell av noen art.",
    "Swedish": "Alla människor är födda fria och lika i värde och rättigheter. De är utrustade "
    "med förnuft och samvete och bör handla gentemot varandra i en anda av broderskap.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "Finnish": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. "
    "Heille on annettu järki ja omatunto.",
    "Polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są "
    "oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
    "Czech": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni "
    "rozumem a svědomím a mají spolu jednat v duchu bratrství.",
    "Hungarian": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az "
    "emberek egymással szemben testvéri szellemben kell hogy viseltessenek.",
    "Romanian": "Toate ființele umane se nasc libere și egale în demnitate și în drepturi. Ele "
    "sunt înzestrate cu rațiune și conștiință.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они "
    "наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "Ukrainian": "Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони "
    "наділені розумом і совістю і повинні діяти один до одного в дусі братерства.",
}


@pytest.mark.parametrize("language", ARTICLES)
def test_articles_are_recognised(language: str) -> None:
    assert language_of([ARTICLES[language]]) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("all of these engines of the wing", "English"),
        ("this is a test on it", "English"),
        ("les ailes sont dans une position qui est pour cette machine", "French"),
        ("что это такое и как это работает", "Russian"),
        ("къде са децата", "Cyrillic script"),
        ("これはなんですか", "Japanese"),
        ("这是什么东西", "Chinese or Japanese"),
        ("été à l'école: le bus des enfants est dans une rue qui", "French"),
        ("xyz 123", ""),
        ("", ""),
    ],
)
def test_short_texts_and_other_scripts(text: str, language: str) -> None:
    assert language_of([text]) == language


def test_a_mixed_collection_has_no_language() -> None:
    mixed = [ARTICLES["English"]] * 3 + [ARTICLES["German"]] * 2
    assert language_of(mixed) == ""
    assert language_of([ARTICLES["English"]] * 4 + [ARTICLES["German"]]) == "English"


def test_codes_and_names_of_languages_are_those_of_the_packages() -> None:
    stemmer = pytest.importorskip("Stemmer")
    lists = pytest.importorskip("bm25s.stopwords")
    others = {"porter", "dutch_porter"}
    assert set(stemmer.algorithms()) - others <= set(LANGUAGES.values())
    for code in STOP_LISTS:
        assert code == "en" or hasattr(lists, f"STOPWORDS_{LANGUAGES[code].upper()}")
    assert len(STOP_LISTS) == sum(name.startswith("STOPWORDS_") for name in dir(lists)) - 1


def words_of(texts: list[str], **settings: object) -> tuple[set[str], str, list[str]]:
    """The words that a model left of the texts, how it says they were found, and its remarks."""
    model, remarks = lexical_model("tfidf", **settings).for_texts(texts)  # type: ignore[attr-defined]
    split = model.splitter()
    assert model.fit(texts).docs.width == len({word for text in texts for word in split(text)})
    return {word for text in texts for word in split(text)}, model.words, remarks


def test_german_is_not_given_english_stop_words() -> None:
    pytest.importorskip("sklearn")
    german = [ARTICLES["German"], "Das war so, wie es in der Zeit an die Tür kam, also gut."]
    words, how, (remark,) = words_of(german)
    assert not words & {"und", "der", "mit", "war", "die"}
    assert "tür" in words
    assert how == "stopwords=de,stemmer=none,tokenizer=unicode"
    assert remark == "German stop words are removed, because the documents are German"
    english, how, remarks = words_of([ARTICLES["English"]])
    assert not english & set(ENGLISH)
    assert (how, remarks) == ("stopwords=en,stemmer=none,tokenizer=unicode", [])


def test_where_no_list_is_known_nothing_is_left_out() -> None:
    pytest.importorskip("sklearn")
    words, how, (remark,) = words_of([ARTICLES["Polish"]])
    assert {"się", "są"} <= words
    assert how.startswith("stopwords=none")
    assert remark == "no stop words are removed, because the documents are Polish"
    words, _, remarks = words_of([ARTICLES["English"]] * 2 + [ARTICLES["German"]])
    assert {"and", "und"} <= words
    assert not remarks


@pytest.mark.parametrize("stemmer", ["de", "german", "German"])
def test_a_stemmer_brings_the_stop_words_of_its_language(stemmer: str) -> None:
    pytest.importorskip("Stemmer")
    pytest.importorskip("sklearn")
    words, how, (remark,) = words_of(["Häuser und the Häusern"], stemmer=stemmer)
    assert words == {"haus", "the"}
    assert how == f"stopwords=de,stemmer={stemmer},tokenizer=unicode"
    assert remark.endswith("because the stemmer is German")
    same, _, remarks = words_of(["Häuser und the Häusern"], stemmer=stemmer, stopwords=None)
    assert same == {"haus", "und", "the"}
    assert not remarks


def test_settings_in_a_spec() -> None:
    pytest.importorskip("Stemmer")
    model = lexical_model("bm25?stemmer=de&k1=1.2&method=bm25+&stopwords=der,die")
    assert (model.stemmer, model.k1, model.method) == ("de", 1.2, "bm25+")  # type: ignore[attr-defined]
    assert model.stopwords == ["der", "die"]  # type: ignore[attr-defined]
    assert lexical_model("tfidf?stopwords=none&sublinear=false").stopwords is None  # type: ignore[attr-defined]
    both = lexical_model("lsa:7?seed=3", seed=4)
    assert (both.dimensions, both.seed) == (7, 4)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("bm25?stemmer=xx", r"Unknown stemmer 'xx'\. .*german \(de\)"),
        ("bm25?stopwords=xx", r"Languages: da \(danish\), de \(german\)"),
        ("bm25?stemer=de", "has no setting 'stemer'. Did you mean stemmer"),
        ("bm25?stemmer", r"Write \?name=value\&name=value"),
        ("bm25?", r"Write \?name=value\&name=value"),
        ("bm25?k1=1&k1=2", r"'bm25\?k1=1\&k1=2': a setting appears twice"),
        ("bm25?k1=much", "k1 must be a number"),
        ("bm25?k1=nan", "k1 must be a number"),
        ("tfidf?sublinear=2", "sublinear"),
        ("lsa:9?seed=x", "seed must be a number"),
        ("lsa?seed=1", "Write lsa:DIM"),
        ("lsa:5?dimensions=3&spec=a", "no setting 'spec'"),
    ],
)
def test_wrong_settings_in_a_spec_are_named(spec: str, words: str) -> None:
    pytest.importorskip("Stemmer")
    with pytest.raises(AssayError, match=words):
        lexical_model(spec)


def test_codes_of_languages() -> None:
    assert [find_code(name) for name in ("NO", "norwegian", "xx", None)] == ["no", "no", None, None]

// The Python face of the kernels. Arrays are checked here once; the kernels then assume.
#include <nanobind/stl/string.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "bindings/bindings.hpp"
#include "exact/pair_counts.hpp"
#include "exact/resampling.hpp"
#include "search/mapped_files.hpp"
#include "trec/ids.hpp"
#include "trec/judgments.hpp"
#include "trec/parallel.hpp"
#include "trec/parser.hpp"
#include "trec/sorted_rows.hpp"

using namespace nanobind::literals;

namespace assay {

namespace {

void check_codes(const In<int32_t>& codes, int32_t least, int64_t end) {
    const auto last = static_cast<int32_t>(std::clamp<int64_t>(end - 1, -2, INT32_MAX));
    const int32_t* code = codes.data();
    const size_t count = codes.size();  // asked once, and no early end, so that the loop runs over many codes at once
    int outside = 0;
    for (size_t i = 0; i < count; ++i) outside |= (code[i] < least) | (code[i] > last);
    require(outside == 0, "doc code out of range");
}

void check_rows(const In<int64_t>& rows, int64_t end) {
    const int64_t* row = rows.data();
    const size_t count = rows.size();
    bool outside = false;
    for (size_t i = 0; i < count; ++i) outside |= row[i] < 0 || row[i] >= end;
    require(!outside, "row out of range");
}

IdView view(const In<uint8_t>& blob, const In<int64_t>& offsets) {
    check_offsets(offsets, blob.size());
    return {blob.data(), offsets.data(), offsets.size() - 1};
}

// Where the lines are in order as they are, their docs and scores are the very arrays that were given.
nb::tuple sort_rows_of(In<int32_t> queries, nb::object doc_array, nb::object score_array, size_t n_queries,
                       In<uint8_t> blob, In<int64_t> offsets, int ties, bool float32) {
    const auto docs = nb::cast<In<int32_t>>(doc_array);
    const auto scores = nb::cast<In<double>>(score_array);
    require(docs.size() == queries.size() && scores.size() == queries.size(), "queries, docs and scores must have one length");
    require(queries.size() < size_t{1} << 31, "too many lines");
    require(ties >= -1 && ties <= 1, "ties must be -1, 0 or 1");
    const IdView ids = view(blob, offsets);
    SortedRows rows;
    {
        nb::gil_scoped_release release;
        rows = sort_rows({queries.data(), docs.data(), scores.data(), queries.size(), n_queries}, ids, Ties(ties), float32);
    }
    nb::object fault = nb::none();
    if (rows.fault != nullptr) fault = nb::make_tuple(rows.fault, rows.fault_query, rows.fault_doc);
    if (rows.in_order) return nb::make_tuple(to_numpy(std::move(rows.offsets)), doc_array, score_array, fault);
    return nb::make_tuple(to_numpy(std::move(rows.offsets)), to_numpy(std::move(rows.docs)), to_numpy(std::move(rows.scores)), fault);
}

Out<int64_t> order_rows_of(In<int64_t> offsets, In<double> scores, std::optional<In<int64_t>> tiebreak) {
    check_offsets(offsets, scores.size());
    require(!tiebreak || tiebreak->size() == scores.size(), "tiebreak and scores must have one length");
    Column<int64_t> order;
    {
        nb::gil_scoped_release release;
        order = order_rows(offsets.data(), offsets.size() - 1, scores.data(), tiebreak ? tiebreak->data() : nullptr);
    }
    return to_numpy(std::move(order));
}

using Search = Hits (*)(const RankedRows&, const JudgedRows&);

template <Search search>
nb::tuple search_judged(In<int64_t> offsets, In<int32_t> docs, In<double> scores, In<int64_t> rows, In<int64_t> judged_offsets,
                        In<int32_t> judged_docs, In<double> judged_grades, int64_t n_docs) {
    require(docs.size() == scores.size() && judged_docs.size() == judged_grades.size(), "docs and their values must have one length");
    require(rows.size() + 1 == judged_offsets.size(), "every judged query must have a row");
    Hits hits;
    {
        nb::gil_scoped_release release;
        check_offsets(offsets, docs.size());
        check_offsets(judged_offsets, judged_docs.size());
        check_codes(docs, 0, n_docs);
        check_codes(judged_docs, -1, n_docs);
        check_rows(rows, static_cast<int64_t>(offsets.size()));
        hits = search({offsets.data(), docs.data(), scores.data(), offsets.size() - 1},
                       {rows.data(), rows.size(), judged_offsets.data(), judged_docs.data(), judged_grades.data()});
    }
    return nb::make_tuple(to_numpy(std::move(hits.offsets)), to_numpy(std::move(hits.rank)), to_numpy(std::move(hits.lo)),
                          to_numpy(std::move(hits.hi)), to_numpy(std::move(hits.grade)));
}

nb::tuple count_grades_of(In<int64_t> offsets, In<double> grades) {
    check_offsets(offsets, grades.size());
    GradeCounts counts;
    {
        nb::gil_scoped_release release;
        const double* grade = grades.data();
        const size_t count = grades.size();
        bool undefined = false;
        for (size_t i = 0; i < count; ++i) undefined |= std::isnan(grade[i]);
        require(!undefined, "grades must not be NaN");
        counts = count_grades(offsets.data(), offsets.size() - 1, grades.data());
    }
    return nb::make_tuple(to_numpy(std::move(counts.offsets)), to_numpy(std::move(counts.grade)), to_numpy(std::move(counts.count)));
}

int64_t first_repeat_of(In<int64_t> offsets, In<int32_t> docs) {
    check_offsets(offsets, docs.size());
    nb::gil_scoped_release release;
    return first_repeat(offsets.data(), offsets.size() - 1, docs.data());
}

nb::object first_duplicate_of(In<uint8_t> blob, In<int64_t> offsets) {
    const IdView ids = view(blob, offsets);
    std::pair<int64_t, int64_t> pair;
    {
        nb::gil_scoped_release release;
        pair = first_duplicate(ids);
    }
    if (pair.first < 0) return nb::none();
    return nb::make_tuple(pair.first, pair.second);
}

Out<int64_t> match_ids_of(In<uint8_t> blob, In<int64_t> offsets, In<uint8_t> other_blob, In<int64_t> other_offsets) {
    const IdView ids = view(blob, offsets), others = view(other_blob, other_offsets);
    Column<int64_t> places;
    {
        nb::gil_scoped_release release;
        places = match_ids(ids, others);
    }
    return to_numpy(std::move(places));
}

nb::object number_ids_of(In<uint8_t> blob, In<int64_t> offsets) {
    const IdView ids = view(blob, offsets);
    NumberedIds numbered;
    {
        nb::gil_scoped_release release;
        numbered = number_ids(ids);
    }
    if (!numbered.clean) return nb::none();
    return nb::make_tuple(to_numpy(std::move(numbered.distinct.blob)), to_numpy(std::move(numbered.distinct.offsets)), to_numpy(std::move(numbered.codes)));
}

Out<int64_t> order_ids_of(In<uint8_t> blob, In<int64_t> offsets, bool descending) {
    const IdView ids = view(blob, offsets);
    Column<int64_t> order;
    {
        nb::gil_scoped_release release;
        order = order_ids(ids, descending);
    }
    return to_numpy(std::move(order));
}

nb::tuple take_ids_of(In<uint8_t> blob, In<int64_t> offsets, In<int64_t> places) {
    const IdView ids = view(blob, offsets);
    const auto count = static_cast<int64_t>(ids.count);
    IdColumn ids_at_places;
    {
        nb::gil_scoped_release release;
        for (size_t i = 0; i < places.size(); ++i) {
            require(places.data()[i] >= 0 && places.data()[i] < count, "place out of range");
        }
        ids_at_places = take_ids(ids, places.data(), places.size());
    }
    return nb::make_tuple(to_numpy(std::move(ids_at_places.blob)), to_numpy(std::move(ids_at_places.offsets)));
}

Layout layout_of(const std::string& kind) {
    require(kind == "run" || kind == "qrels", "kind must be 'run' or 'qrels'");
    return kind == "run" ? kRun : kQrels;
}

nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::object fault_of(const TrecParser& parser) {
    const Fault& fault = parser.fault;
    if (fault.kind == nullptr) return nb::none();
    return nb::make_tuple(fault.line, fault.kind, to_bytes(fault.text), fault.columns);
}

// Gives the columns away, so it can be called once.
nb::tuple take_columns(TrecParser& parser) {
    return nb::make_tuple(to_numpy(parser.query_ids.take_blob()), to_numpy(parser.query_ids.take_offsets()),
                          to_numpy(parser.doc_ids.take_blob()), to_numpy(parser.doc_ids.take_offsets()),
                          to_numpy(std::move(parser.queries)), to_numpy(std::move(parser.docs)), to_numpy(std::move(parser.values)));
}

bool feed(TrecParser& parser, nb::bytes chunk) {
    const std::string_view text(chunk.c_str(), chunk.size());
    nb::gil_scoped_release release;
    return parser.feed(text);
}

bool feed_part(TrecParser& parser, nb::tuple part) {
    const auto file = nb::cast<int>(part[0]);
    const auto begin = nb::cast<uint64_t>(part[1]), end = nb::cast<uint64_t>(part[2]);
    try {
        nb::gil_scoped_release release;
        return parser.feed_file(file, begin, end);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
}

void bind_trec_parser(nb::module_& module) {
    nb::class_<TrecParser>(module, "TrecParser")
        .def("__init__", [](TrecParser* self, const std::string& kind, uint64_t expected) { new (self) TrecParser(layout_of(kind), default_threads(), expected); }, "kind"_a, "expected"_a = 0)
        .def("feed", &feed, "chunk"_a)
        .def("feed", &feed_part, "chunk"_a)
        .def("finish", &TrecParser::finish, nb::call_guard<nb::gil_scoped_release>())
        .def("take_columns", &take_columns)
        .def_prop_ro("fault", &fault_of)
        .def_prop_ro("tag", [](const TrecParser& parser) { return to_bytes(parser.tag); })
        .def_ro("rank_disagreements", &TrecParser::rank_disagreements)
        .def_ro("rank_unreadable", &TrecParser::rank_unreadable)
        .def_ro("overlong", &TrecParser::overlong);
}

void bind_rows(nb::module_& module) {
    module.def("sort_rows", &sort_rows_of, "queries"_a, "docs"_a, "scores"_a, "n_queries"_a, "doc_blob"_a, "doc_offsets"_a, "ties"_a, "float32"_a);
    module.def("order_rows", &order_rows_of, "offsets"_a, "scores"_a, "tiebreak"_a.none());
    module.def("find_judged", &search_judged<find_judged>, "offsets"_a, "docs"_a, "scores"_a, "rows"_a, "judged_offsets"_a, "judged_docs"_a, "judged_grades"_a, "n_docs"_a);
    module.def("count_judged", &search_judged<count_judged>, "offsets"_a, "docs"_a, "scores"_a, "rows"_a, "judged_offsets"_a, "judged_docs"_a, "judged_grades"_a, "n_docs"_a);
    module.def("count_grades", &count_grades_of, "offsets"_a, "grades"_a);
    module.def("first_repeat", &first_repeat_of, "offsets"_a, "docs"_a);
}

Out<int64_t> flip_sums_of(In<int64_t> values, uint64_t key, uint64_t first, size_t resamples, unsigned threads) {
    Column<int64_t> sums;
    {
        nb::gil_scoped_release release;
        sums = flip_sums(values.data(), values.size(), {key, first, resamples, threads});
    }
    return to_numpy(std::move(sums));
}

Out<int64_t> bootstrap_sums_of(In<int64_t> values, size_t columns, In<int64_t> offsets, uint64_t key, uint64_t first,
                               size_t resamples, unsigned threads) {
    require(columns >= 1 && values.size() % columns == 0, "values must be units × columns");
    check_offsets(offsets, values.size() / columns);
    require(values.size() / columns < size_t{1} << 32, "too many units");
    Column<int64_t> sums;
    {
        nb::gil_scoped_release release;
        sums = bootstrap_sums({values.data(), columns, offsets.data(), offsets.size() - 1}, {key, first, resamples, threads});
    }
    return to_numpy(std::move(sums));
}

Out<int64_t> shuffled_ranges_of(In<int64_t> values, size_t systems, uint64_t key, uint64_t first, size_t resamples, unsigned threads) {
    require(systems >= 2 && values.size() % systems == 0, "values must be queries × systems");
    Column<int64_t> ranges;
    {
        nb::gil_scoped_release release;
        ranges = shuffled_ranges(values.data(), values.size() / systems, systems, {key, first, resamples, threads});
    }
    return to_numpy(std::move(ranges));
}

nb::tuple count_pairs_of(In<int64_t> offsets, In<int64_t> a, In<int64_t> b) {
    check_offsets(offsets, a.size());
    require(a.size() == b.size(), "ranks must fit their rows");
    const size_t rows = offsets.size() - 1;
    const int64_t *offset = offsets.data(), *left = a.data(), *right = b.data();
    Column<int64_t> tied(rows, 0), discordant(rows, 0);
    bool inside = true;
    {
        nb::gil_scoped_release release;
        PairCounter counter;
        for (size_t row = 0; row < rows && inside; ++row) {
            const int64_t size = offset[row + 1] - offset[row];
            inside = size < int64_t{1} << 32;
            for (int64_t i = offset[row]; i < offset[row + 1]; ++i) {
                inside &= left[i] >= 1 && left[i] <= size && right[i] >= 1 && right[i] <= size;
            }
            if (inside) counter.count(left + offset[row], right + offset[row], static_cast<size_t>(size), tied[row], discordant[row]);
        }
    }
    require(inside, "ranks must fit their rows");
    return nb::make_tuple(to_numpy(std::move(tied)), to_numpy(std::move(discordant)));
}

void bind_statistics(nb::module_& module) {
    module.def("count_pairs", &count_pairs_of, "offsets"_a, "a"_a, "b"_a);
    module.def("flip_sums", &flip_sums_of, "values"_a, "key"_a, "first"_a, "resamples"_a, "threads"_a = 0);
    module.def("bootstrap_sums", &bootstrap_sums_of, "values"_a, "columns"_a, "offsets"_a, "key"_a, "first"_a, "resamples"_a, "threads"_a = 0);
    module.def("shuffled_ranges", &shuffled_ranges_of, "values"_a, "systems"_a, "key"_a, "first"_a, "resamples"_a, "threads"_a = 0);
}

void bind_ids(nb::module_& module) {
    module.def("first_duplicate", &first_duplicate_of, "blob"_a, "offsets"_a);
    module.def("number_ids", &number_ids_of, "blob"_a, "offsets"_a);
    module.def("match_ids", &match_ids_of, "blob"_a, "offsets"_a, "other_blob"_a, "other_offsets"_a);
    module.def("order_ids", &order_ids_of, "blob"_a, "offsets"_a, "descending"_a);
    module.def("take_ids", &take_ids_of, "blob"_a, "offsets"_a, "places"_a);
}

int watch_map(uintptr_t address, size_t n_bytes, nb::ndarray<int32_t, nb::shape<1>, nb::device::cpu> lost) {
    return mapped_files::watch(address, n_bytes, lost.data());
}

void bind_maps(nb::module_& module) {
    module.def("watch_map", &watch_map, "address"_a, "n_bytes"_a, "lost"_a);
    module.def("unwatch_map", &mapped_files::unwatch, "number"_a);
}

}  // namespace

}  // namespace assay

NB_MODULE(_kernels, module) {
    module.doc() = "Compiled kernels; assay.native.twins gives the same answers in Python.";
    assay::bind_trec_parser(module);
    assay::bind_rows(module);
    assay::bind_ids(module);
    assay::bind_statistics(module);
    assay::bind_search(module);
    assay::bind_sparse(module);
    assay::bind_tokens(module);
    assay::bind_hamming(module);
    assay::bind_score_ranks(module);
    assay::bind_objects(module);
    assay::bind_maps(module);
}

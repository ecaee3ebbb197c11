// Finds where the judged documents of {query: {doc: grade}} landed in {query: {doc: score}}, without numbering
// the documents of the run: each is looked up among the judged ones by the hash that Python keeps, and
// what ranks before a judged one is counted. Ids are compared only inside ties.
#pragma once

#include "objects/texts_and_numbers.hpp"
#include "objects/tuples.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "exact/tie_order.hpp"
#include "trec/judgments.hpp"
#include "trec/sorted_rows.hpp"

namespace assay {

// Two bits in one word for each hash: small enough for the cache, where a table of all ids is not.
class HashBits {
public:
    void start(size_t count) {
        size_t words = 16;
        while (words < count / 8) words *= 2;
        words_.assign(words, 0);
    }

    void add(uint32_t hash) { words_[word(hash)] |= bits(hash); }
    bool holds(uint32_t hash) const { return (bits(hash) & ~words_[word(hash)]) == 0; }

private:
    size_t word(uint32_t hash) const { return hash >> 12 & (words_.size() - 1); }
    static uint64_t bits(uint32_t hash) { return uint64_t{1} << hash % 64 | uint64_t{1} << (hash >> 6) % 64; }

    std::vector<uint64_t> words_;
};

class ObjectJoin {
public:
    ObjectJoin(PyObject* number_types, Ties ties, bool float32)
        : numbers_(number_types, false), truths_(number_types, true), ties_(ties), float32_(float32) {}

    // Row i of the run belongs to row judged_row[i] of the judgments, if that is not -1. False if
    // anything is not plain.
    bool join_rows(PyObject* rows, PyObject* judged_rows, const int64_t* judged_row) {
        if (!judged.read(judged_rows, truths_) || !start()) return false;
        const bool plain = walk_rows(
            rows, [&](size_t i) { begin_row(judged_row[i]); },
            [&](PyObject** docs, PyObject** values, size_t count) { return gather(docs, values, count); }, [&](size_t) { end_row(); });
        finish();
        return plain;
    }

    // Joins tuples, those of each query together; also false where a query has a document twice.
    bool join_tuples(PyObject* rows, PyObject* judged_rows, Py_ssize_t width) {
        TupleColumns read(width, truths_);
        if (!read.take(judged_rows) || !read.is_grouped(judged.offsets)) return false;
        judged.lines = std::move(read.lines);
        judged_queries = std::move(read.query_ids);
        if (!start()) return false;
        TupleReader reader(rows, ranked_queries);
        const bool plain = walk_batches(
            reader, [&](size_t) { begin_row(judged_queries.find(reader.take_query())), row_texts_.start(); },
            [&](PyObject** docs, PyObject** values, size_t count) { return row_texts_.add(docs, count) && gather(docs, values, count); },
            [&](size_t) { lengths.push_back(static_cast<int64_t>(row_docs_.size())), end_row(); });
        finish();
        return plain && reader.is_plain();
    }

    TextNumbers ranked_queries, judged_queries;  // of tuples
    Column<int64_t> lengths;
    DocRows judged;
    Hits hits;
    Column<double> scores;    // of the hits
    Column<uint8_t> seen;     // for each judged document whether it is anywhere in the run
    bool only_judged = true;  // whether the run holds no other documents
    bool constant = true;     // whether each row has one score, and some row several documents

private:
    struct RankedHit {
        int64_t rank, lo, hi;
        double grade, score;
    };

    struct Hit {
        size_t at;  // in the row
        double grade;
    };

    // More judged documents than these in a row, and sorting it costs less than counting for each.
    static constexpr size_t kCounted = 32;

    bool start() {
        if (judged.lines.docs.size() >= INT32_MAX) return false;
        places_ = Column<uint32_t>(judged.lines.doc_ids.size(), ~1u);  // no line
        may_be_judged_.start(places_.size());
        judged.lines.doc_ids.for_each_hash([&](uint32_t hash) { may_be_judged_.add(hash); });
        hits.offsets.push_back(0);
        return true;
    }

    void finish() {
        constant = constant && several_;
        seen = Column<uint8_t>(places_.size());
        for (size_t i = 0; i < places_.size(); ++i) seen[i] = places_[i] & 1;
    }

    // Notes for each document that is judged in the row where. What rows before have left there lies
    // outside of the lines of this one.
    void begin_row(int64_t judged_row) {
        first_line_ = judged_row < 0 ? 0 : judged.offsets[judged_row];
        past_line_ = judged_row < 0 ? 0 : judged.offsets[judged_row + 1];
        for (int64_t line = first_line_; line < past_line_; ++line) {
            uint32_t& place = places_[judged.lines.docs[line]];
            place = static_cast<uint32_t>(line) << 1 | (place & 1);
        }
        row_scores_.clear();
        row_docs_.clear();
        hits_.clear();
    }

    bool gather(PyObject** docs, PyObject** values, size_t count) {
        const size_t before = row_docs_.size();
        if (!expect(docs, count)) return false;
        row_docs_.insert(row_docs_.end(), docs, docs + count);
        row_scores_.resize(before + count);
        for (size_t i = 0; i < count; ++i) {
            double& score = row_scores_[before + i];
            if (!is_clean_id(utf8_of(docs[i])) || !numbers_.read(values[i], score) || !round(score)) return false;
        }
        expect_places();
        for (size_t i = 0; i < n_candidates_; ++i) note_seen(candidates_[i], before);
        return true;
    }

    struct Candidate {
        PyObject* doc;
        uint32_t hash, at;
    };

    // Notes which documents may be judged ones, and asks for what is needed to know.
    bool expect(PyObject** docs, size_t count) {
        n_candidates_ = 0;
        for (size_t i = 0; i < count; ++i) {
            if (!PyUnicode_CheckExact(docs[i])) return false;
            const uint32_t hash = hash_of(docs[i]);
            candidates_[n_candidates_] = {docs[i], hash, static_cast<uint32_t>(i)};
            n_candidates_ += may_be_judged_.holds(hash);
        }
        for (size_t i = 0; i < n_candidates_; ++i) judged.lines.doc_ids.expect(candidates_[i].hash);
        only_judged = only_judged && n_candidates_ == count;
        return true;
    }

    void expect_places() const {
        for (size_t i = 0; i < n_candidates_; ++i) {
            const int32_t code = judged.lines.doc_ids.guess(candidates_[i].hash);
            if (code >= 0) prefetch(&places_[code]);
        }
    }

    void note_seen(const Candidate& candidate, size_t before) {
        const int32_t code = judged.lines.doc_ids.find(candidate.doc, candidate.hash);
        only_judged = only_judged && code >= 0;
        if (code < 0) return;
        const int64_t line = places_[code] >> 1;
        places_[code] |= 1;
        if (line >= first_line_ && line < past_line_) hits_.push_back({before + candidate.at, judged.lines.values[line]});
    }

    bool round(double& score) const {
        if (float32_) score = static_cast<double>(static_cast<float>(score));
        return std::isfinite(score);
    }

    // The judged documents of a row, in rank order.
    void end_row() {
        note_constant();
        ranked_.clear();
        hits_.size() <= kCounted ? count() : sort();
        std::sort(ranked_.begin(), ranked_.end(), [](const RankedHit& a, const RankedHit& b) { return a.rank < b.rank; });
        for (const RankedHit& hit : ranked_) {
            hits.rank.push_back(hit.rank);
            hits.lo.push_back(hit.lo);
            hits.hi.push_back(hit.hi);
            hits.grade.push_back(hit.grade);
            scores.push_back(hit.score);
        }
        hits.offsets.push_back(static_cast<int64_t>(hits.rank.size()));
    }

    void note_constant() {
        several_ = several_ || row_scores_.size() > 1;
        for (size_t i = 1; i < row_scores_.size() && constant; ++i) constant = scores_tie(row_scores_[i], row_scores_[0]);
    }

    void count() {
        for (const Hit& hit : hits_) {
            const double score = row_scores_[hit.at];
            const auto [above, equal] = compare_all(row_scores_.data(), static_cast<int64_t>(row_scores_.size()), score);
            const int64_t first = equal > 1 ? tied_before(hit.at) : 0;
            ranked_.push_back({above + first + 1, above + 1, above + equal, hit.grade, score});
        }
    }

    // Counts the documents of the same score that the tie rule puts before one of the row.
    int64_t tied_before(size_t place) const {
        int64_t before = 0;
        for (size_t i = 0; i < row_docs_.size(); ++i) {
            before += i != place && scores_tie(row_scores_[i], row_scores_[place]) && comes_before(i, place);
        }
        return before;
    }

    bool comes_before(size_t a, size_t b) const {
        if (ties_ == Ties::appearance) return a < b;
        const std::string_view id = utf8_of(row_docs_[a]), other = utf8_of(row_docs_[b]);
        return ties_ == Ties::ascending ? id < other : other < id;
    }

    bool ranks_before(size_t a, size_t b) const {
        if (!scores_tie(row_scores_[a], row_scores_[b])) return scores_above(row_scores_[a], row_scores_[b]);
        return comes_before(a, b);
    }

    void sort() {
        order_.resize(row_docs_.size());
        std::iota(order_.begin(), order_.end(), size_t{0});
        std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) { return ranks_before(a, b); });
        const auto begin = order_.begin(), end = order_.end();
        for (const Hit& hit : hits_) {
            const double score = row_scores_[hit.at];
            const auto above = std::partition_point(begin, end, [&](size_t i) { return scores_above(row_scores_[i], score); });
            const auto past = std::partition_point(above, end, [&](size_t i) { return scores_tie(row_scores_[i], score); });
            const auto place = std::partition_point(above, past, [&](size_t i) { return i != hit.at && comes_before(i, hit.at); });
            ranked_.push_back({place - begin + 1, above - begin + 1, past - begin, hit.grade, score});
        }
    }

    NumberReader numbers_, truths_;
    HashBits may_be_judged_;
    Column<uint32_t> places_;  // of judged documents: twice the line in the last row that judged it, 1 more if it was seen
    RowTexts row_texts_;
    Candidate candidates_[EntryBatch::kMost];
    size_t n_candidates_ = 0;
    int64_t first_line_ = 0, past_line_ = 0;
    Ties ties_;
    bool float32_;
    bool several_ = false;
    std::vector<double> row_scores_;
    std::vector<PyObject*> row_docs_;
    std::vector<Hit> hits_;
    std::vector<RankedHit> ranked_;
    std::vector<size_t> order_;
};

}  // namespace assay

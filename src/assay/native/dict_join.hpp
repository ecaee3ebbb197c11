// Where the judged documents of {query: {doc: grade}} landed in {query: {doc: score}}, without numbering
// the documents of the run: each judged one is looked up in its row by the hash that Python keeps, and
// what ranks before it is counted. Ids are compared only inside ties.
#pragma once

#include "python_objects.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "counted.hpp"
#include "rows.hpp"
#include "tie_order.hpp"

namespace assay {

// A bit for each hash: small enough for the cache, where a table of all ids is not.
class HashBits {
public:
    void start(size_t count) {
        size_t bits = 1024;
        while (bits < 16 * count) bits *= 2;
        words_.assign(bits / 64, 0);
    }

    void add(uint32_t hash) { words_[word(hash)] |= uint64_t{1} << hash % 64; }
    bool holds(uint32_t hash) const { return (words_[word(hash)] >> hash % 64 & 1) != 0; }

private:
    size_t word(uint32_t hash) const { return hash / 64 & (words_.size() - 1); }

    std::vector<uint64_t> words_;
};

class DictJoin {
public:
    DictJoin(PyObject* number_types, Ties ties, bool float32)
        : numbers_(number_types, false), truths_(number_types, true), ties_(ties), float32_(float32) {}

    // Row i of the run belongs to row judged_row[i] of the judgments, if that is not -1. False if
    // anything is not plain.
    bool run(PyObject* rows, PyObject* judged_rows, const int64_t* judged_row) {
        if (!judged.read(judged_rows, truths_)) return false;
        seen = Column<uint8_t>(judged.lines.doc_ids.size(), 0);
        may_be_judged_.start(seen.size());
        judged.lines.doc_ids.for_each_hash([&](uint32_t hash) { may_be_judged_.add(hash); });
        found.offsets.push_back(0);
        const bool plain = walk_rows(
            rows,
            [&](size_t i) {
                if (judged_row[i] >= 0) prefetch_keys(PyList_GetItem(judged_rows, judged_row[i]), 0, kCounted);
            },
            [&](PyObject** keys, PyObject** values, size_t count) { return gather(keys, values, count); },
            [&](size_t i, PyObject* row) {
                const int64_t own = judged_row[i];
                note_constant();
                const bool fine = own < 0 || find(row, PyList_GetItem(judged_rows, own), judged.offsets[own]);
                found.offsets.push_back(static_cast<int64_t>(found.rank.size()));
                row_scores_.clear();
                row_ids_.clear();
                return fine;
            });
        constant = constant && several_;
        return plain;
    }

    DocRows judged;
    Found found;
    Column<double> scores;    // of the hits
    Column<uint8_t> seen;     // for each judged document whether it is anywhere in the run
    bool only_judged = true;  // whether the run holds no other documents
    bool constant = true;     // whether each row has one score, and some row several documents

private:
    struct Landing {
        int64_t rank, lo, hi;
        double grade, score;
    };

    // More judged documents than these in a row, and sorting it costs less than counting for each.
    static constexpr size_t kCounted = 32;

    bool gather(PyObject** keys, PyObject** values, size_t count) {
        const size_t before = row_ids_.size();
        row_scores_.resize(before + count);
        row_ids_.resize(before + count);
        if (!expect(keys, count)) return false;
        for (size_t i = 0; i < count; ++i) {
            const std::string_view id = row_ids_[before + i] = utf8_of(keys[i]);
            double& score = row_scores_[before + i];
            if (!is_clean_id(id) || !numbers_.read(values[i], score) || !round(score)) return false;
        }
        for (size_t i = 0; i < n_expected_; ++i) note_seen(expected_[i]);
        return true;
    }

    struct Expected {
        PyObject* doc;
        uint32_t hash;
    };

    // Notes which documents may be judged ones, and asks for what is needed to know.
    bool expect(PyObject** keys, size_t count) {
        n_expected_ = 0;
        for (size_t i = 0; i < count; ++i) {
            if (!PyUnicode_CheckExact(keys[i])) return false;
            const auto hash = static_cast<uint32_t>(PyObject_Hash(keys[i]));
            if (!may_be_judged_.holds(hash)) continue;
            judged.lines.doc_ids.expect(hash);
            expected_[n_expected_++] = {keys[i], hash};
        }
        only_judged = only_judged && n_expected_ == count;
        return true;
    }

    void note_seen(const Expected& one) {
        const int32_t code = judged.lines.doc_ids.find(one.doc, one.hash);
        if (code >= 0) seen[code] = 1;
        only_judged = only_judged && code >= 0;
    }

    bool round(double& score) const {
        if (float32_) score = static_cast<double>(static_cast<float>(score));
        return std::isfinite(score);
    }

    void note_constant() {
        several_ = several_ || row_scores_.size() > 1;
        for (size_t i = 1; i < row_scores_.size() && constant; ++i) constant = scores_tie(row_scores_[i], row_scores_[0]);
    }

    // The judged documents of a row, in rank order.
    bool find(PyObject* row, PyObject* judged_docs, int64_t first) {
        landings_.clear();
        hits_.clear();
        PyObject *doc, *grade;
        for (Py_ssize_t at = 0, i = first; PyDict_Next(judged_docs, &at, &doc, &grade); ++i) {
            PyObject* value = PyDict_GetItemWithError(row, doc);
            if (value == nullptr) continue;
            Hit hit{utf8_of(doc), judged.lines.values[static_cast<size_t>(i)], 0.0};
            if (!numbers_.read(value, hit.score) || !round(hit.score)) return false;
            hits_.push_back(hit);
        }
        hits_.size() <= kCounted ? count() : sort();
        std::sort(landings_.begin(), landings_.end(), [](const Landing& a, const Landing& b) { return a.rank < b.rank; });
        for (const Landing& landing : landings_) {
            found.rank.push_back(landing.rank);
            found.lo.push_back(landing.lo);
            found.hi.push_back(landing.hi);
            found.grade.push_back(landing.grade);
            scores.push_back(landing.score);
        }
        return true;
    }

    struct Hit {
        std::string_view id;
        double grade, score;
    };

    void count() {
        for (const Hit& hit : hits_) {
            const auto [above, equal] = compare_all(row_scores_.data(), static_cast<int64_t>(row_scores_.size()), hit.score);
            const int64_t first = equal > 1 ? tied_before(hit) : 0;
            landings_.push_back({above + first + 1, above + 1, above + equal, hit.grade, hit.score});
        }
    }

    // How many documents of the same score the tie rule puts before one of the row.
    int64_t tied_before(const Hit& hit) const {
        int64_t before = 0;
        for (size_t i = 0; i < row_ids_.size(); ++i) {
            if (!scores_tie(row_scores_[i], hit.score)) continue;
            if (ties_ != Ties::appearance) {
                before += comes_before(row_ids_[i], hit.id);
            } else if (row_ids_[i] == hit.id) {
                return before;
            } else {
                ++before;
            }
        }
        return before;
    }

    bool comes_before(std::string_view id, std::string_view other) const {
        return ties_ == Ties::ascending ? id < other : other < id;
    }

    void sort() {
        order_.resize(row_ids_.size());
        std::iota(order_.begin(), order_.end(), 0);
        std::sort(order_.begin(), order_.end(), [this](int64_t a, int64_t b) {
            if (!scores_tie(row_scores_[a], row_scores_[b])) return scores_above(row_scores_[a], row_scores_[b]);
            return ties_ == Ties::appearance ? a < b : comes_before(row_ids_[a], row_ids_[b]);
        });
        for (const Hit& hit : hits_) {
            const auto above = std::partition_point(order_.begin(), order_.end(), [&](int64_t i) { return scores_above(row_scores_[i], hit.score); });
            const auto end = std::partition_point(above, order_.end(), [&](int64_t i) { return scores_tie(row_scores_[i], hit.score); });
            const auto own = place_in_tie(above, end, hit.id);
            landings_.push_back({own - order_.begin() + 1, above - order_.begin() + 1, end - order_.begin(), hit.grade, hit.score});
        }
    }

    std::vector<int64_t>::iterator place_in_tie(std::vector<int64_t>::iterator begin, std::vector<int64_t>::iterator end, std::string_view id) const {
        if (ties_ == Ties::appearance) return std::find_if(begin, end, [&](int64_t i) { return row_ids_[i] == id; });
        return std::partition_point(begin, end, [&](int64_t i) { return comes_before(row_ids_[i], id); });
    }

    NumberReader numbers_, truths_;
    HashBits may_be_judged_;
    Expected expected_[kGathered];
    size_t n_expected_ = 0;
    Ties ties_;
    bool float32_;
    bool several_ = false;
    std::vector<double> row_scores_;
    std::vector<std::string_view> row_ids_;
    std::vector<Hit> hits_;
    std::vector<Landing> landings_;
    std::vector<int64_t> order_;
};

}  // namespace assay

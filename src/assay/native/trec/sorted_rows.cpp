#include "trec/sorted_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "exact/tie_order.hpp"
#include "trec/parallel.hpp"

namespace assay {

namespace {

struct Item {
    double score;
    int32_t doc;
    int32_t place;  // in order of appearance
};

// The order of two documents that may share a score.
class TieRule {
public:
    TieRule(const IdView& ids, Ties ties) : ids_(ids), ties_(ties) {}

    bool before(const Item& a, const Item& b) const {
        if (!scores_tie(a.score, b.score)) return scores_above(a.score, b.score);
        if (ties_ != Ties::appearance) {
            const int order = compare_ids(a.doc, b.doc) * static_cast<int>(ties_);
            if (order != 0) return order < 0;
        }
        return a.place < b.place;
    }

private:
    int compare_ids(int32_t a, int32_t b) const {
        const int64_t size_a = ids_.offsets[a + 1] - ids_.offsets[a];
        const int64_t size_b = ids_.offsets[b + 1] - ids_.offsets[b];
        const auto shared = static_cast<size_t>(std::min(size_a, size_b));
        const int order = std::memcmp(ids_.blob + ids_.offsets[a], ids_.blob + ids_.offsets[b], shared);
        if (order != 0) return order < 0 ? -1 : 1;
        return size_a == size_b ? 0 : size_a < size_b ? -1 : 1;
    }

    const IdView& ids_;
    Ties ties_;
};

// Counts the lines of each query into offsets; tells whether each query's lines are together
// and in order of code already.
bool count_rows(const RunLines& lines, int64_t* offsets) {
    std::fill_n(offsets, lines.n_queries + 1, 0);
    bool grouped = true;
    int32_t previous = 0;
    for (size_t i = 0; i < lines.count; ++i) {
        const int32_t query = lines.queries[i];
        if (query < 0 || static_cast<size_t>(query) >= lines.n_queries) throw std::invalid_argument("query code out of range");
        grouped = grouped && query >= previous;
        previous = query;
        ++offsets[query + 1];
    }
    for (size_t q = 0; q < lines.n_queries; ++q) offsets[q + 1] += offsets[q];
    return grouped;
}

// Moves the lines to the row of their query, keeping their order.
void group_rows(const RunLines& lines, SortedRows& out) {
    std::vector<int64_t> next(out.offsets.data(), out.offsets.data() + lines.n_queries);
    for (size_t i = 0; i < lines.count; ++i) {
        const int64_t at = next[lines.queries[i]]++;
        out.docs[at] = lines.docs[i];
        out.scores[at] = lines.scores[i];
    }
}

// Copies rows begin … end-1, whose lines are in place already.
void copy_rows(const RunLines& lines, SortedRows& out, size_t begin, size_t end) {
    const int64_t first = out.offsets[begin], count = out.offsets[end] - first;
    std::copy_n(lines.docs + first, count, out.docs.data() + first);
    std::copy_n(lines.scores + first, count, out.scores.data() + first);
}

// Rows of a grouped run, to be looked at.
struct RowView {
    const int64_t* offsets;
    const int32_t* docs;
    const double* scores;
};

// Looks for duplicates and disorder in rows as they are.
class RowReader {
public:
    RowReader(const RowView& rows, const IdView& ids, Ties ties)
        : rows_(rows), rule_(ids, ties), last_row_(ids.count, -1) {}

    // The place of the first document that is twice in the row, or -1.
    int64_t find_duplicate(int64_t row) {
        for (int64_t i = rows_.offsets[row]; i < rows_.offsets[row + 1]; ++i) {
            const int32_t doc = rows_.docs[i];
            if (doc < 0 || static_cast<size_t>(doc) >= last_row_.size()) throw std::invalid_argument("doc code out of range");
            if (last_row_[doc] == row) return i;
            last_row_[doc] = static_cast<int32_t>(row);
        }
        return -1;
    }

    bool is_sorted(int64_t row) const {
        for (int64_t i = rows_.offsets[row] + 1; i < rows_.offsets[row + 1]; ++i) {
            if (scores_above(rows_.scores[i - 1], rows_.scores[i])) continue;
            if (!rule_.before(item(i - 1), item(i))) return false;
        }
        return true;
    }

    Item item(int64_t i) const { return {rows_.scores[i], rows_.docs[i], static_cast<int32_t>(i)}; }
    const TieRule& rule() const { return rule_; }

private:
    RowView rows_;
    TieRule rule_;
    std::vector<int32_t> last_row_;  // for each document the last row it was seen in
};

// Rows of a grouped run, to be put in order: duplicates, rounding, sorting.
class RowSorter {
public:
    RowSorter(SortedRows& rows, const IdView& ids, Ties ties)
        : rows_(rows), reader_({rows.offsets.data(), rows.docs.data(), rows.scores.data()}, ids, ties) {}

    int64_t find_duplicate(int64_t row) { return reader_.find_duplicate(row); }

    // The place of the first score beyond float32, or -1.
    int64_t round(int64_t row) {
        for (int64_t i = rows_.offsets[row]; i < rows_.offsets[row + 1]; ++i) {
            rows_.scores[i] = static_cast<double>(static_cast<float>(rows_.scores[i]));
            if (std::isinf(rows_.scores[i])) return i;
        }
        return -1;
    }

    void sort(int64_t row) {
        const int64_t begin = rows_.offsets[row], end = rows_.offsets[row + 1];
        if (reader_.is_sorted(row)) return;
        items_.clear();
        for (int64_t i = begin; i < end; ++i) items_.push_back(reader_.item(i));
        std::sort(items_.begin(), items_.end(), [this](const Item& a, const Item& b) { return reader_.rule().before(a, b); });
        for (int64_t i = begin; i < end; ++i) {
            rows_.docs[i] = items_[i - begin].doc;
            rows_.scores[i] = items_[i - begin].score;
        }
    }

private:
    SortedRows& rows_;
    RowReader reader_;
    std::vector<Item> items_;
};

// The first fault in a range of rows.
struct RowFault {
    const char* kind = nullptr;
    int64_t row = -1;
    int32_t doc = -1;
};

RowFault sort_range(RowSorter& sorter, const SortedRows& rows, size_t begin, size_t end, bool float32) {
    for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row) {
        const int64_t twice = sorter.find_duplicate(row);
        if (twice >= 0) return {"duplicate", row, rows.docs[twice]};
        const int64_t huge = float32 ? sorter.round(row) : -1;
        if (huge >= 0) return {"float32", row, rows.docs[huge]};
        sorter.sort(row);
    }
    return {};
}

// Whether no row has a document twice or is out of order.
bool are_sorted(const RunLines& lines, const std::vector<size_t>& cuts, const int64_t* offsets, const IdView& ids, Ties ties) {
    std::atomic<bool> sorted{true};
    run_together(static_cast<unsigned>(cuts.size() - 1), [&](unsigned t) {
        RowReader reader({offsets, lines.docs, lines.scores}, ids, ties);
        for (size_t row = cuts[t]; row < cuts[t + 1] && sorted.load(std::memory_order_relaxed); ++row) {
            const auto number = static_cast<int64_t>(row);
            if (reader.find_duplicate(number) >= 0 || !reader.is_sorted(number)) sorted = false;
        }
    });
    return sorted;
}

}  // namespace

SortedRows sort_rows(const RunLines& lines, const IdView& doc_ids, Ties ties, bool float32) {
    SortedRows out;
    out.offsets = Column<int64_t>(lines.n_queries + 1);
    const bool grouped = count_rows(lines, out.offsets.data());
    const unsigned threads = threads_for(lines.count);
    const std::vector<size_t> cuts = cut_rows(out.offsets.data(), lines.n_queries, threads);
    out.in_order = grouped && !float32 && are_sorted(lines, cuts, out.offsets.data(), doc_ids, ties);
    if (out.in_order) return out;
    out.docs = Column<int32_t>(lines.count);
    out.scores = Column<double>(lines.count);
    if (!grouped) group_rows(lines, out);
    std::vector<RowFault> faults(threads);
    run_together(threads, [&](unsigned t) {
        if (grouped) copy_rows(lines, out, cuts[t], cuts[t + 1]);
        RowSorter sorter(out, doc_ids, ties);
        faults[t] = sort_range(sorter, out, cuts[t], cuts[t + 1], float32);
    });
    for (const RowFault& fault : faults) {
        if (fault.kind == nullptr || out.fault != nullptr) continue;
        out.fault = fault.kind;
        out.fault_query = fault.row;
        out.fault_doc = fault.doc;
    }
    return out;
}

namespace {

struct Place {
    double score;
    int64_t tiebreak;
    int64_t at;

    bool operator<(const Place& other) const {
        if (!scores_tie(score, other.score)) return scores_above(score, other.score);
        if (tiebreak != other.tiebreak) return tiebreak < other.tiebreak;
        return at < other.at;
    }
};

void order_row(const double* scores, const int64_t* tiebreak, int64_t begin, int64_t end, int64_t* order, std::vector<Place>& places) {
    places.clear();
    for (int64_t i = begin; i < end; ++i) places.push_back({scores[i], tiebreak != nullptr ? tiebreak[i] : 0, i});
    if (!std::is_sorted(places.begin(), places.end())) std::sort(places.begin(), places.end());
    for (int64_t i = begin; i < end; ++i) order[i] = places[i - begin].at;
}

}  // namespace

Column<int64_t> order_rows(const int64_t* offsets, size_t rows, const double* scores, const int64_t* tiebreak) {
    const auto count = static_cast<size_t>(offsets[rows]);
    // NaN has no place in an order, and std::sort must never meet one.
    for (size_t i = 0; i < count; ++i) {
        if (std::isnan(scores[i])) throw std::invalid_argument("scores must not be NaN");
    }
    Column<int64_t> order(count);
    const unsigned threads = threads_for(count);
    const std::vector<size_t> cuts = cut_rows(offsets, rows, threads);
    run_together(threads, [&](unsigned t) {
        std::vector<Place> places;
        for (size_t row = cuts[t]; row < cuts[t + 1]; ++row) {
            order_row(scores, tiebreak, offsets[row], offsets[row + 1], order.data(), places);
        }
    });
    return order;
}

}  // namespace assay

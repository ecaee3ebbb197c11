// (query, doc, value) tuples of Python, or (query, doc) with the value 1.
#pragma once

#include "objects/texts_and_numbers.hpp"

#include <algorithm>
#include <vector>

namespace assay {

inline PyObject* item_of(PyObject* tuple, Py_ssize_t at) {
#ifndef Py_LIMITED_API
    return PyTuple_GET_ITEM(tuple, at);
#else
    return PyTuple_GetItem(tuple, at);
#endif
}

inline bool is_tuple(PyObject* row, Py_ssize_t width) { return PyTuple_CheckExact(row) && PyTuple_Size(row) == width; }

// Asks for a tuple that is some places on.
inline void prefetch_tuple(PyObject* rows, Py_ssize_t at) {
    if (at >= PyList_Size(rows)) return;
    const char* tuple = reinterpret_cast<const char*>(PyList_GetItem(rows, at));
    prefetch(tuple);
    prefetch(tuple + 40);  // its last item
}

constexpr Py_ssize_t kTuplesAhead = 32;

// Numbers tuples in any order.
class TupleColumns {
public:
    TupleColumns(Py_ssize_t width, NumberReader& numbers) : width_(width), numbers_(numbers) {}

    bool take(PyObject* rows) {
        const auto count = static_cast<size_t>(PyList_Size(rows));
        for (size_t begin = 0; begin < count; begin += kGathered) {
            if (!kAlone || !take(rows, begin, std::min(count - begin, kGathered))) return false;
        }
        return true;
    }

    // Whether the tuples of each query stand together, and no document is there twice; with their offsets.
    bool is_grouped(Column<int64_t>& offsets) const {
        Column<int32_t> last_row(lines.doc_ids.size(), -1);
        for (size_t i = 0; i < queries.size(); ++i) {
            const int32_t row = queries[i];
            if (i == 0 || row != queries[i - 1]) {
                if (static_cast<size_t>(row) != offsets.size()) return false;
                offsets.push_back(static_cast<int64_t>(i));
            }
            if (last_row[lines.docs[i]] == row) return false;
            last_row[lines.docs[i]] = row;
        }
        offsets.push_back(static_cast<int64_t>(queries.size()));
        return true;
    }

    TextNumbers query_ids;
    Column<int32_t> queries;
    DocLines lines;

private:
    bool take(PyObject* rows, size_t begin, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            const auto at = static_cast<Py_ssize_t>(begin + i);
            prefetch_tuple(rows, at + kTuplesAhead);
            PyObject* row = PyList_GetItem(rows, at);
            if (!is_tuple(row, width_)) return false;
            gather(row, i);
        }
        if (!query_ids.number(query_, count, queries.extend(count))) return false;
        if (width_ == 3) return lines.add(doc_, value_, count, numbers_);
        std::fill_n(lines.values.extend(count), count, 1.0);
        return lines.doc_ids.number(doc_, count, lines.docs.extend(count));
    }

    void gather(PyObject* row, size_t i) {
        query_[i] = item_of(row, 0);
        doc_[i] = item_of(row, 1);
        prefetch_text_object(doc_[i]);
        if (width_ < 3) return;
        value_[i] = item_of(row, 2);
        prefetch(value_[i]);
    }

    Py_ssize_t width_;
    NumberReader& numbers_;
    PyObject *query_[kGathered], *doc_[kGathered], *value_[kGathered];
};

// Reads (query, doc, score) tuples that stand together by query, one batch after the other.
class TupleReader {
public:
    TupleReader(PyObject* rows, TextNumbers& query_ids) : rows_(rows), count_(PyList_Size(rows)), query_ids_(query_ids) {}

    // False after the last tuple, and at one that is not plain or begins a query for the second time.
    bool read(EntryBatch& batch) {
        if (at_ == count_ || !plain_) return false;
        batch.first = query_ == nullptr;
        if (batch.first && !begin_query()) return plain_ = false;
        batch.row = query_ids_.size() - 1;
        batch.count = 0;
        do {
            PyObject* row = PyList_GetItem(rows_, at_);
            batch.add(item_of(row, 1), item_of(row, 2));
            prefetch_tuple(rows_, ++at_ + kTuplesAhead);
            batch.last = !continues();
        } while (!batch.last && batch.count < EntryBatch::kMost);
        if (batch.last) query_ = nullptr;
        return plain_;
    }

    // The query of each row in its turn.
    PyObject* take_query() { return queries_[n_taken_++]; }

    bool is_plain() const { return plain_; }

private:
    bool begin_query() {
        PyObject* row = PyList_GetItem(rows_, at_);
        if (!kAlone || !is_tuple(row, 3)) return false;
        query_ = item_of(row, 0);
        queries_.push_back(query_);
        int32_t code;
        return query_ids_.number(&query_, 1, &code) && static_cast<size_t>(code) + 1 == queries_.size();
    }

    // Whether the next tuple has the same query.
    bool continues() {
        if (at_ == count_) return false;
        PyObject* row = PyList_GetItem(rows_, at_);
        plain_ = plain_ && is_tuple(row, 3);
        if (!plain_) return false;
        PyObject* query = item_of(row, 0);
        return query == query_ || (PyUnicode_CheckExact(query) && same_bytes(utf8_of(query), utf8_of(query_)));
    }

    PyObject* rows_;
    Py_ssize_t count_, at_ = 0;
    TextNumbers& query_ids_;
    PyObject* query_ = nullptr;
    std::vector<PyObject*> queries_;
    size_t n_taken_ = 0;
    bool plain_ = true;
};

// Tells whether a text comes twice in a row.
class RowTexts {
public:
    RowTexts() : slots_(1024, Slot{nullptr, 0, 0}) {}

    void start() { ++row_, size_ = 0; }

    bool add(PyObject* const* texts, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            if (!PyUnicode_CheckExact(texts[i]) || !add(texts[i], hash_of(texts[i]))) return false;
        }
        return true;
    }

private:
    struct Slot {
        PyObject* text;
        uint32_t hash, row;  // free unless of this row
    };

    bool add(PyObject* text, uint32_t hash) {
        size_t at = hash & mask();
        for (; slots_[at].row == row_; at = (at + 1) & mask()) {
            if (slots_[at].hash == hash && same_bytes(utf8_of(slots_[at].text), utf8_of(text))) return false;
        }
        slots_[at] = {text, hash, row_};
        if (2 * ++size_ > slots_.size()) grow();
        return true;
    }

    void grow() {
        const std::vector<Slot> old(std::move(slots_));
        slots_.assign(2 * old.size(), Slot{nullptr, 0, 0});
        for (const Slot& slot : old) {
            if (slot.row != row_) continue;
            size_t at = slot.hash & mask();
            while (slots_[at].row == row_) at = (at + 1) & mask();
            slots_[at] = slot;
        }
    }

    size_t mask() const { return slots_.size() - 1; }

    std::vector<Slot> slots_;
    uint32_t row_ = 0;
    size_t size_ = 0;
};

}  // namespace assay

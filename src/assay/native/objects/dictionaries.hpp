// Reads the entries of many dictionaries by PyDict_Next, a batch at a time: keys and values lie anywhere in
// memory, which is asked for some batches before they are looked at.
#pragma once

#include <Python.h>

#include <cstddef>

#include "trec/compiler.hpp"

namespace assay {

#ifdef Py_GIL_DISABLED
constexpr bool kAlone = false;  // another thread may change what is walked: the general way copies it
#else
constexpr bool kAlone = true;
#endif

inline void prefetch_text_object(PyObject* object) {
    prefetch(object);
    prefetch(reinterpret_cast<const char*>(object) + 64);
}

// A few entries of one row.
struct EntryBatch {
    static constexpr size_t kMost = 32;

    size_t row, count;
    bool first, last;  // of the row
    PyObject *keys[kMost], *values[kMost];

    void add(PyObject* key, PyObject* value) {
        keys[count] = key;
        values[count] = value;
        expect(count++);
    }

    // Asks for the memory of an entry.
    void expect(size_t i) const {
        prefetch_text_object(keys[i]);
        prefetch(values[i]);
    }
};

// Reads a list of dictionaries, one batch after the other.
class DictionaryReader {
public:
    explicit DictionaryReader(PyObject* rows) : rows_(rows), n_rows_(PyList_Size(rows)) {}

    // False after the last row.
    bool read(EntryBatch& batch) {
        if (row_ == n_rows_) return false;
        PyObject* dict = PyList_GetItem(rows_, row_);
        batch.row = static_cast<size_t>(row_);
        batch.first = at_ == 0;
        if (batch.first && row_ + kRowsAhead < n_rows_) prefetch(PyList_GetItem(rows_, row_ + kRowsAhead));
        // Nothing else in this loop: PyDict_Next looks into each key, and the fewer instructions stand between
        // two calls, the more keys the processor waits for at the same time.
        size_t count = 0;
        while (count < EntryBatch::kMost && PyDict_Next(dict, &at_, &batch.keys[count], &batch.values[count])) ++count;
        for (size_t i = 0; i < count; ++i) batch.expect(i);
        batch.count = count;
        batch.last = count < EntryBatch::kMost;
        if (batch.last) at_ = 0, ++row_;
        return true;
    }

private:
    static constexpr Py_ssize_t kRowsAhead = 2;

    PyObject* rows_;
    Py_ssize_t n_rows_, row_ = 0, at_ = 0;
};

// Calls begin(number) before, add(keys, values, count) for some entries after the others and end(number)
// after each row that a reader has; false if add returns false.
template <class Reader, class Begin, class Add, class End>
bool walk_batches(Reader& reader, Begin begin, Add add, End end) {
    constexpr size_t kAhead = 4;
    EntryBatch batches[kAhead];
    size_t read = 0;
    for (size_t done = 0;; ++done) {
        while (read < done + kAhead && reader.read(batches[read % kAhead])) ++read;
        if (done == read) return true;
        EntryBatch& batch = batches[done % kAhead];
        if (batch.first) begin(batch.row);
        if (!add(batch.keys, batch.values, batch.count)) return false;
        if (batch.last) end(batch.row);
    }
}

// Walks a list of dictionaries in batches; false if a row is no dictionary, or if add returns false.
template <class Begin, class Add, class End>
bool walk_rows(PyObject* rows, Begin begin, Add add, End end) {
    for (Py_ssize_t i = 0; i < PyList_Size(rows); ++i) {
        if (!kAlone || !PyDict_CheckExact(PyList_GetItem(rows, i))) return false;
    }
    DictionaryReader reader(rows);
    return walk_batches(reader, begin, add, end);
}

}  // namespace assay

// The entries of many dictionaries, some at a time, asked for from memory long before they are looked at:
// keys and values lie anywhere in it, and PyDict_Next looks into each key, one miss after the other.
//
// There is no public way to know keys without that, so this reads them where CPython 3.11 to 3.14 keep
// them, if a small dictionary shows that they are there. Elsewhere PyDict_Next is used.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstring>

#include "hints.hpp"

namespace assay {

#ifdef Py_GIL_DISABLED
constexpr bool kAlone = false;  // another thread may change what is walked: the general way copies it
#else
constexpr bool kAlone = true;
#endif

struct Entry {
    PyObject *key, *value;  // no value: the entry was deleted
};

// The entries of a dictionary with text for keys, as they are kept; none where that is not known.
struct Entries {
    const Entry* first = nullptr;
    Py_ssize_t count = 0;
};

struct DictKeys {  // of _dictkeysobject; its entries follow the indices
    int64_t references;
    uint8_t log2_size, log2_index_bytes, kind;
    uint32_t version;
    int64_t usable, entries;
};

inline const DictKeys* keys_of(PyObject* dict) {
    constexpr size_t kept_at = 32;
    const DictKeys* keys;
    std::memcpy(&keys, reinterpret_cast<const char*>(dict) + kept_at, sizeof keys);
    return keys;
}

inline Entries entries_of(PyObject* dict) {
    constexpr uint8_t only_text = 1;
    const DictKeys* keys = keys_of(dict);
    if (keys->kind != only_text) return {};
    const char* past_indices = reinterpret_cast<const char*>(keys + 1) + (size_t{1} << keys->log2_index_bytes);
    return {reinterpret_cast<const Entry*>(past_indices), static_cast<Py_ssize_t>(keys->entries)};
}

// Whether a dictionary with a deleted entry has its entries where entries_of looks.
inline bool finds_entries() {
    PyObject* dict = Py_BuildValue("{s:i,s:i,s:i}", "first", 1, "deleted", 2, "last", 3);
    bool found = dict != nullptr && PyDict_DelItemString(dict, "deleted") == 0;
    const Entries entries = found ? entries_of(dict) : Entries{};
    found = found && entries.first != nullptr && entries.count == 3 && entries.first[1].value == nullptr;
    Py_ssize_t at = 0;
    for (const Py_ssize_t i : {0, 2}) {
        PyObject *key, *value;
        found = found && PyDict_Next(dict, &at, &key, &value) && entries.first[i].key == key && entries.first[i].value == value;
    }
    Py_XDECREF(dict);
    if (PyErr_Occurred()) PyErr_Clear();
    return found;
}

inline bool knows_entries() {
#if !defined(Py_GIL_DISABLED) && !defined(PYPY_VERSION) && SIZE_MAX > UINT32_MAX
    static const bool known = Py_Version >= 0x030B0000 && Py_Version < 0x030F0000 && finds_entries();
    return known;
#else
    return false;
#endif
}

inline void prefetch_text_object(PyObject* object) {
    prefetch(object);
    prefetch(reinterpret_cast<const char*>(object) + 64);
}

// Some entries of one row.
struct EntryBatch {
    static constexpr size_t kMost = 32;

    size_t row, count;
    bool first, last;  // of the row
    PyObject *keys[kMost], *values[kMost];

    void add(PyObject* key, PyObject* value) {
        prefetch_text_object(key);
        prefetch(value);
        keys[count] = key;
        values[count++] = value;
    }
};

// Reads a list of dictionaries, one batch after the other.
class EntryReader {
public:
    explicit EntryReader(PyObject* rows) : rows_(rows), n_rows_(PyList_Size(rows)) {}

    // False after the last row.
    bool read(EntryBatch& batch) {
        if (row_ == n_rows_) return false;
        PyObject* dict = PyList_GetItem(rows_, row_);
        if (at_ == 0) expect_rows();
        batch.row = static_cast<size_t>(row_);
        batch.count = 0;
        batch.first = at_ == 0;
        batch.last = fill(batch, dict);
        if (batch.last) at_ = 0, ++row_;
        return true;
    }

private:
    static constexpr Py_ssize_t kRowsAhead = 2;

    // Whether that was all.
    bool fill(EntryBatch& batch, PyObject* dict) {
        const Entries entries = knows_entries() ? entries_of(dict) : Entries{};
        if (entries.first == nullptr) return walk(batch, dict);
        for (; at_ < entries.count && batch.count < EntryBatch::kMost; ++at_) {
            const Entry& entry = entries.first[at_];
            if (entry.value != nullptr) batch.add(entry.key, entry.value);
        }
        return at_ == entries.count;
    }

    bool walk(EntryBatch& batch, PyObject* dict) {
        PyObject *key, *value;
        while (batch.count < EntryBatch::kMost) {
            if (!PyDict_Next(dict, &at_, &key, &value)) return true;
            batch.add(key, value);
        }
        return false;
    }

    void expect_rows() const {
        if (!knows_entries()) return;
        if (row_ + kRowsAhead < n_rows_) prefetch(reinterpret_cast<const char*>(PyList_GetItem(rows_, row_ + kRowsAhead)) + 32);
        if (row_ + 1 < n_rows_) prefetch(keys_of(PyList_GetItem(rows_, row_ + 1)));
    }

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

// The same for a list of dictionaries; false if one is none.
template <class Begin, class Add, class End>
bool walk_rows(PyObject* rows, Begin begin, Add add, End end) {
    for (Py_ssize_t i = 0; i < PyList_Size(rows); ++i) {
        if (!kAlone || !PyDict_CheckExact(PyList_GetItem(rows, i))) return false;
    }
    EntryReader reader(rows);
    return walk_batches(reader, begin, add, end);
}

}  // namespace assay

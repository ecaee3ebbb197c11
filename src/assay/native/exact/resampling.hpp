// Resampled sums for tests and intervals. All sums are of integers, so that neither the order of
// additions nor the number of threads can change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trec/column.hpp"

namespace assay {

// Word i of the stream that starts at `key`: SplitMix64, as in assay.arrays.
inline uint64_t random_word(uint64_t key, uint64_t i) {
    uint64_t word = key + (i + 1) * 0x9E3779B97F4A7C15u;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

// Resamples of a stream, and the number of threads.
struct Draws {
    uint64_t key;
    uint64_t first;
    size_t resamples;
    unsigned threads;
};

// Units × columns, row by row; stratum h holds the units offsets[h] … offsets[h + 1].
struct UnitTable {
    const int64_t* values;
    size_t columns;
    const int64_t* offsets;
    size_t strata;
};

// Sum of the values with random signs; bit i of a resample's words is the sign of value i.
Column<int64_t> flip_sums(const int64_t* values, size_t count, const Draws& draws);

// Sums of each column over as many units of each stratum as it has, drawn with replacement.
Column<int64_t> bootstrap_sums(const UnitTable& table, const Draws& draws);

// Shuffles each row of queries × systems; largest less smallest sum of a system.
Column<int64_t> shuffled_ranges(const int64_t* values, size_t queries, size_t systems, const Draws& draws);

}  // namespace assay

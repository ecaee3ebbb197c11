// The matrix product fused with the compare: scores never leave the registers unless they may
// matter. `Isa` says how to load, multiply and compare; everything is in an unnamed namespace,
// because each source that includes this is compiled for other vector instructions.
//
// A panel is `2 · Isa::width` documents, column by column, with their biases as the first column.
// Panels of about 256 KB are packed at a time and meet all queries while they are in the cache.
#pragma once

#include <cmath>
#include <cstdlib>
#include <new>

#include "jumps.hpp"
#include "eight_floats.hpp"
#include "search_kernels.hpp"

namespace {

using assay::Scan;

constexpr size_t kChunkBytes = 256 * 1024;

// Memory that is given back at the end of a block.
class Scratch {
public:
    explicit Scratch(size_t floats) {
        const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
        data_ = static_cast<float*>(std::aligned_alloc(64, bytes));
        if (data_ == nullptr) throw std::bad_alloc();
    }
    ~Scratch() { std::free(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* data() const { return data_; }

private:
    float* data_;
};

// Queries in groups of `rows`, column by column; the last group is filled up with zeros.
void pack_queries(const float* queries, size_t count, size_t columns, size_t rows, float* out) {
    for (size_t group = 0; group < count; group += rows) {
        for (size_t column = 0; column < columns; ++column) {
            for (size_t row = 0; row < rows; ++row) {
                const size_t query = group + row;
                *out++ = query < count ? queries[query * columns + column] : 0.0f;
            }
        }
    }
}

// Eight rows of eight floats, each times its factor, become eight columns.
inline void transpose_eight(const float* rows, size_t stride, const float* factors, float* out, size_t out_stride) {
    Eight a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) a[i] = eight_at(rows + i * stride) * factors[i];
    transpose(a);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) put_eight(out + i * out_stride, a[i]);
}

// Packs one panel; returns the largest bound of its documents. Beyond the end the bias is −inf.
float pack_panel(const Scan& scan, size_t first, size_t width, float* out) {
    float bound = 0.0f;
    for (size_t i = 0; i < width; ++i) {
        const bool inside = first + i < scan.to;
        out[i] = inside ? scan.bias[first + i] : -INFINITY;
        if (inside && scan.bound[first + i] > bound) bound = scan.bound[first + i];
    }
    float* body = out + width;
    for (size_t i = 0; i < width; i += 8) {
        const float* rows = scan.docs + (first + i) * scan.columns;
        size_t column = 0;
        if (first + i + 8 <= scan.to) {
            for (; column + 8 <= scan.columns; column += 8) {
                transpose_eight(rows + column, scan.columns, scan.scale + first + i, body + column * width + i, width);
            }
        }
        for (; column < scan.columns; ++column) {
            for (size_t j = 0; j < 8; ++j) {
                const bool inside = first + i + j < scan.to;
                body[column * width + i + j] = inside ? rows[j * scan.columns + column] * scan.scale[first + i + j] : 0.0f;
            }
        }
    }
    return bound;
}

template <class Isa>
struct Tile {
    typename Isa::Vec left[Isa::rows], right[Isa::rows];
};

// Scores of one group of queries with one panel.
template <class Isa>
inline __attribute__((always_inline)) void multiply(const float* queries, const float* panel, size_t columns, Tile<Isa>& tile) {
    typename Isa::Vec left = Isa::load(panel), right = Isa::load(panel + Isa::width);
#pragma GCC unroll 14
    for (int row = 0; row < Isa::rows; ++row) {
        tile.left[row] = left;
        tile.right[row] = right;
    }
    for (size_t column = 0; column < columns; ++column) {
        panel += 2 * Isa::width;
        left = Isa::load(panel);
        right = Isa::load(panel + Isa::width);
#pragma GCC unroll 14
        for (int row = 0; row < Isa::rows; ++row) {
            const typename Isa::Vec query = Isa::spread(queries[row]);
            tile.left[row] = Isa::multiply_add(query, left, tile.left[row]);
            tile.right[row] = Isa::multiply_add(query, right, tile.right[row]);
        }
        queries += Isa::rows;
    }
}

template <class Isa>
__attribute__((noinline, cold)) void hand_over(const Scan& scan, size_t query, size_t first, typename Isa::Vec left,
                                               typename Isa::Vec right, uint32_t mask) {
    if (scan.to - first < 2 * Isa::width) mask &= (uint32_t{1} << (scan.to - first)) - 1;  // never beyond the end
    float scores[2 * Isa::width];
    Isa::store(scores, left);
    Isa::store(scores + Isa::width, right);
    scan.receive(scan.receiver, query, first, scores, mask);
}

// One group of queries with all panels of a chunk.
template <class Isa, bool counting>
void meet(const Scan& scan, const float* queries, size_t group, const float* panels, const float* bounds,
          size_t first, size_t n_panels) {
    constexpr size_t width = 2 * Isa::width;
    const size_t panel_floats = width * (scan.columns + 1);
    uint64_t above[Isa::rows] = {};
    for (size_t row = 0; row < Isa::rows && group + row < scan.n_queries; ++row) scan.expect(scan.receiver, group + row);
    for (size_t p = 0; p < n_panels; ++p) {
        Tile<Isa> tile;
        multiply<Isa>(queries, panels + p * panel_floats, scan.columns, tile);
        const float bound = bounds[p];
#pragma GCC unroll 14
        for (int row = 0; row < Isa::rows; ++row) {
            const size_t query = group + row;
            uint32_t mask = Isa::at_least(tile.left[row], tile.right[row], scan.floor[query] - bound);
            if constexpr (counting) {
                const uint32_t certain = Isa::beyond(tile.left[row], tile.right[row], scan.ceiling[query] + bound);
                above[row] += static_cast<uint64_t>(__builtin_popcount(certain));
                mask &= ~certain;
            }
            if (__builtin_expect(mask != 0, 0)) {
                hand_over<Isa>(scan, query, first + p * width, tile.left[row], tile.right[row], mask);
            }
        }
    }
    if constexpr (counting) {
        for (int row = 0; row < Isa::rows && group + row < scan.n_queries; ++row) {
            scan.above[group + row] += static_cast<int64_t>(above[row]);
        }
    }
}

template <class Isa, bool counting>
void scan_chunks(const Scan& scan) {
    constexpr size_t width = 2 * Isa::width;
    const size_t panel_floats = width * (scan.columns + 1);
    const size_t per_chunk = kChunkBytes / (panel_floats * sizeof(float)) + 1;
    const size_t groups = (scan.n_queries + Isa::rows - 1) / Isa::rows;
    Scratch queries(groups * Isa::rows * scan.columns), panels(per_chunk * panel_floats), bounds(per_chunk);
    pack_queries(scan.queries, scan.n_queries, scan.columns, Isa::rows, queries.data());
    const size_t chunk_docs = per_chunk * width;
    const size_t n_chunks = (scan.to - scan.from + chunk_docs - 1) / chunk_docs;
    Jumps jumps(n_chunks);
    for (size_t i = 0; i < n_chunks && *scan.stop == 0; ++i) {
        const size_t first = scan.from + jumps.next() * chunk_docs;
        const size_t last = first + chunk_docs < scan.to ? first + chunk_docs : scan.to;
        const size_t n_panels = (last - first + width - 1) / width;
        for (size_t p = 0; p < n_panels; ++p) {
            bounds.data()[p] = pack_panel(scan, first + p * width, width, panels.data() + p * panel_floats);
        }
        for (size_t group = 0; group < groups && *scan.stop == 0; ++group) {
            meet<Isa, counting>(scan, queries.data() + group * Isa::rows * scan.columns, group * Isa::rows,
                                panels.data(), bounds.data(), first, n_panels);
        }
        __atomic_fetch_add(scan.done, static_cast<int64_t>((last - first) * scan.n_queries), __ATOMIC_RELAXED);
    }
}

template <class Isa>
void scan_with(const Scan& scan) {
    if (scan.from >= scan.to || scan.n_queries == 0) return;
    scan.ceiling == nullptr ? scan_chunks<Isa, false>(scan) : scan_chunks<Isa, true>(scan);
}

}  // namespace

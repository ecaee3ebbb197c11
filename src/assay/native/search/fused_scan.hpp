// The matrix product fused with the compare: scores never leave the registers unless they may
// matter. `Isa` says how to load, multiply and compare; everything is in an unnamed namespace,
// because each source that includes this is compiled for other vector instructions.
//
// A panel is `2 · Isa::width` documents, column by column, with their biases as the first column.
// Panels of about 256 KB are packed at a time and meet all queries while they are in the cache. For
// few queries packing takes longer than the product: these meet the rows as they lie.
#pragma once

#include <cmath>
#include <utility>

#include "exact/element_types.hpp"
#include "search/chunk_order.hpp"
#include "search/document_norms.hpp"
#include "search/eight_floats.hpp"

namespace {

using assay::Scan;

constexpr size_t kChunkBytes = 256 * 1024;
constexpr size_t kLeastChunks = 32;  // so that floors are guessed early among few documents too
constexpr size_t kRowBytes = 4 * kChunkBytes;  // where rows are read once, as they lie: each jump costs

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

template <class Isa>
inline float square_of(const float* row, size_t columns) {
    typename Isa::Vec sum = Isa::spread(0.0f), other = sum;
    size_t i = 0;
    for (; i + 2 * Isa::width <= columns; i += 2 * Isa::width) {
        const typename Isa::Vec left = Isa::load(row + i), right = Isa::load(row + i + Isa::width);
        sum = Isa::multiply_add(left, left, sum);
        other = Isa::multiply_add(right, right, other);
    }
    for (; i < columns; i += Isa::width) {
        const typename Isa::Vec some = Isa::load_some(row + i, columns - i);
        sum = Isa::multiply_add(some, some, sum);
    }
    return sum_of(Isa::folded(sum) + Isa::folded(other));
}

// Writes the biases of a panel, beyond the end −inf; returns the largest bound of its documents.
inline float biases_of(const Scan& scan, size_t first, size_t width, float* out) {
    float bound = 0.0f;
    for (size_t i = 0; i < width; ++i) {
        const bool inside = first + i < scan.to;
        out[i] = inside ? scan.bias[first + i] : -INFINITY;
        if (inside && scan.bound[first + i] > bound) bound = scan.bound[first + i];
    }
    return bound;
}

// Packs one panel, with room for its rows; returns the largest bound of its documents. Rows are read in
// order first, and packed column by column: a line of the panel is written at once.
template <class Isa>
float pack_panel(const Scan& scan, size_t first, float* out, float* room) {
    constexpr size_t width = 2 * Isa::width;
    const size_t count = scan.to - first < width ? scan.to - first : width, columns = scan.columns;
    const float* rows = widened_rows(scan.docs, scan.element_type, first, count, columns, room);
    for (size_t i = 0; scan.measuring != nullptr && i < count; ++i) {
        measure(*scan.measuring, first + i, square_of<Isa>(rows + i * columns, columns));
    }
    const float* scale = scan.scale + first;
    float* body = out + width;
    size_t column = 0;
    for (; count == width && column + 8 <= columns; column += 8) {
        for (size_t i = 0; i < width; i += 8) {
            transpose_eight(rows + i * columns + column, columns, scale + i, body + column * width + i, width);
        }
    }
    for (; column < columns; ++column) {
        for (size_t i = 0; i < width; ++i) body[column * width + i] = i < count ? rows[i * columns + column] * scale[i] : 0.0f;
    }
    return biases_of(scan, first, width, out);
}

template <class Isa, int rows>
struct Tile {
    typename Isa::Vec left[rows], right[rows];
};

// Scores of one group of queries with one panel.
template <class Isa, int rows>
inline __attribute__((always_inline)) void multiply(const float* queries, const float* panel, size_t columns, Tile<Isa, rows>& tile) {
    typename Isa::Vec left = Isa::load(panel), right = Isa::load(panel + Isa::width);
#pragma GCC unroll 14
    for (int row = 0; row < rows; ++row) {
        tile.left[row] = left;
        tile.right[row] = right;
    }
    for (size_t column = 0; column < columns; ++column) {
        panel += 2 * Isa::width;
        left = Isa::load(panel);
        right = Isa::load(panel + Isa::width);
#pragma GCC unroll 14
        for (int row = 0; row < rows; ++row) {
            const typename Isa::Vec query = Isa::spread(queries[row]);
            tile.left[row] = Isa::multiply_add(query, left, tile.left[row]);
            tile.right[row] = Isa::multiply_add(query, right, tile.right[row]);
        }
        queries += rows;
    }
}

// Hands over what is in the masks of some queries: scores of a panel each, one after the other.
template <size_t width>
__attribute__((noinline, cold)) void hand_over(const Scan& scan, size_t query, size_t count, size_t first, const float* scores,
                                               const uint32_t* masks) {
    const uint32_t inside = scan.to - first < width ? (uint32_t{1} << (scan.to - first)) - 1 : ~uint32_t{0};  // never beyond the end
    for (size_t i = 0; i < count; ++i, scores += width) {
        if ((masks[i] & inside) != 0) scan.receive(scan.receiver, query + i, first, scores, masks[i] & inside);
    }
}

// One group of queries with all panels of a chunk.
template <class Isa, bool counting, int rows>
void meet(const Scan& scan, const float* queries, size_t group, const float* panels, const float* bounds,
          size_t first, size_t n_panels) {
    constexpr size_t width = 2 * Isa::width;
    const size_t panel_floats = width * (scan.columns + 1);
    uint64_t above[rows] = {};
    for (size_t row = 0; row < rows && group + row < scan.n_queries; ++row) scan.expect(scan.receiver, group + row);
    for (size_t p = 0; p < n_panels; ++p) {
        Tile<Isa, rows> tile;
        multiply<Isa, rows>(queries, panels + p * panel_floats, scan.columns, tile);
        const float bound = bounds[p];
        uint32_t masks[rows], any = 0;
#pragma GCC unroll 14
        for (int row = 0; row < rows; ++row) {
            const size_t query = group + row;
            masks[row] = Isa::at_least(tile.left[row], tile.right[row], scan.floor[query] - bound);
            if constexpr (counting) {
                const uint32_t certain = Isa::beyond(tile.left[row], tile.right[row], scan.ceiling[query] + bound);
                above[row] += static_cast<uint64_t>(__builtin_popcount(certain));
                masks[row] &= ~certain;
            }
            any |= masks[row];
        }
        if (__builtin_expect(any != 0, 0)) {  // all at once: no register may have to outlive a call
            float scores[rows * width];
#pragma GCC unroll 14
            for (int row = 0; row < rows; ++row) {
                Isa::store(scores + row * width, tile.left[row]);
                Isa::store(scores + row * width + Isa::width, tile.right[row]);
            }
            hand_over<width>(scan, group, rows, first + p * width, scores, masks);
        }
    }
    if constexpr (counting) {
        for (int row = 0; row < rows && group + row < scan.n_queries; ++row) {
            scan.above[group + row] += static_cast<int64_t>(above[row]);
        }
    }
}

inline bool is_stopped(const Scan& scan) { return *scan.stop != 0 || (scan.measuring != nullptr && *scan.measuring->odd != 0); }

// Calls visit(first, last) for all chunks of documents, in the order of ChunkOrder, and counts them as done.
template <class Visit>
void visit_chunks(const Scan& scan, size_t chunk_docs, Visit visit) {
    const size_t n_chunks = (scan.to - scan.from + chunk_docs - 1) / chunk_docs;
    ChunkOrder jumps(n_chunks);
    for (size_t i = 0; i < n_chunks && !is_stopped(scan); ++i) {
        const size_t first = scan.from + jumps.next() * chunk_docs;
        const size_t last = first + chunk_docs < scan.to ? first + chunk_docs : scan.to;
        visit(first, last);
        __atomic_fetch_add(scan.done, static_cast<int64_t>((last - first) * scan.n_queries), __ATOMIC_RELAXED);
        if (scan.met != nullptr) scan.met(scan.receiver, static_cast<double>(i + 1) / static_cast<double>(n_chunks));
    }
}

template <class Isa, bool counting, int rows>
void scan_panels(const Scan& scan) {
    constexpr size_t width = 2 * Isa::width;
    const size_t panel_floats = width * (scan.columns + 1);
    const size_t fits = kChunkBytes / (panel_floats * sizeof(float)) + 1, few = (scan.to - scan.from) / (kLeastChunks * width) + 1;
    const size_t per_chunk = fits < few ? fits : few;
    const size_t groups = (scan.n_queries + rows - 1) / rows;
    const Scratch queries(groups * rows * scan.columns), panels(per_chunk * panel_floats), bounds(per_chunk);
    const Scratch room(scan.element_type == ElementType::wide ? 0 : width * scan.columns);
    pack_queries(scan.queries, scan.n_queries, scan.columns, rows, queries.data());
    visit_chunks(scan, per_chunk * width, [&](size_t first, size_t last) {
        const size_t n_panels = (last - first + width - 1) / width;
        for (size_t p = 0; p < n_panels; ++p) {
            bounds.data()[p] = pack_panel<Isa>(scan, first + p * width, panels.data() + p * panel_floats, room.data());
        }
        for (size_t group = 0; group < groups && !is_stopped(scan); ++group) {
            meet<Isa, counting, rows>(scan, queries.data() + group * rows * scan.columns, group * rows, panels.data(), bounds.data(),
                                      first, n_panels);
        }
    });
}

template <class Isa, bool counting, int... less>
void scan_in_groups(const Scan& scan, std::integer_sequence<int, less...>) {
    static constexpr void (*scans[])(const Scan&) = {scan_panels<Isa, counting, less + 1>...};
    const size_t groups = (scan.n_queries + Isa::rows - 1) / Isa::rows;
    scans[(scan.n_queries + groups - 1) / groups - 1](scan);  // groups of one size, as small as that may be
}

constexpr size_t kFewQueries = 8;  // with more, packing takes less time than adding up within vectors

constexpr size_t kFloatsAhead = 2048;  // asked for from memory before they are met
constexpr size_t kWideRow = 256;       // from here on one row at a time is read faster than several

// Sums of few queries with some documents, both as they lie, then the documents' squares. All that are together
// eight are added up in registers: what is read from memory next waits for what is written, where their addresses look alike.
template <class Isa, int queries, int rows>
inline void multiply_rows(const float* doc, const float* query, size_t columns, float* sums) {
    using Vec = typename Isa::Vec;
    constexpr int count = (queries + 1) * rows, padded = count < 8 ? 8 : count;
    Vec parts[count];
#pragma GCC unroll 9
    for (int i = 0; i < count; ++i) parts[i] = Isa::spread(0.0f);
    size_t at = 0;
    const auto add = [&](auto load) {
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) {
            const Vec row = load(doc + i * columns);
            __builtin_prefetch(doc + i * columns + at + kFloatsAhead);
            parts[queries * rows + i] = Isa::multiply_add(row, row, parts[queries * rows + i]);
#pragma GCC unroll 8
            for (int j = 0; j < queries; ++j) parts[j * rows + i] = Isa::multiply_add(load(query + j * columns), row, parts[j * rows + i]);
        }
    };
    for (; at + Isa::width <= columns; at += Isa::width) add([at](const float* row) { return Isa::load(row + at); });
    if (at < columns) add([at, columns](const float* row) { return Isa::load_some(row + at, columns - at); });
    if constexpr (count == 2) {
        sums[0] = sum_of(Isa::folded(parts[0]));
        sums[1] = sum_of(Isa::folded(parts[1]));
        return;
    }
    Eight lanes[padded];
#pragma GCC unroll 9
    for (int i = 0; i < padded; ++i) lanes[i] = Isa::folded(parts[i < count ? i : 0]);
    transpose(lanes);
    put_eight(sums, ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7])));
    if (count > 8) sums[8] = sum_of(lanes[padded - 1]);
}

// One panel of documents with few queries.
template <class Isa, int queries>
void meet_rows(const Scan& scan, size_t first, size_t count, float* room) {
    constexpr size_t width = 2 * Isa::width;
    float scores[queries * width], scales[width], biases[width];
    if (count < width) {
        std::memset(scores, 0, sizeof scores);
        std::memset(scales, 0, sizeof scales);
    }
    const auto meet = [&](size_t at, auto rows) {
        float sums[9];
        const float* docs = widened_rows(scan.docs, scan.element_type, first + at, rows, scan.columns, room);
        multiply_rows<Isa, queries, rows>(docs, scan.queries, scan.columns, sums);
        for (size_t i = 0; i < rows; ++i) {
            for (size_t j = 0; j < queries; ++j) scores[j * width + at + i] = sums[j * rows + i];
            if (scan.measuring != nullptr) measure(*scan.measuring, first + at + i, sums[queries * rows + i]);
        }
    };
    constexpr std::integral_constant<int, queries == 1 ? 4 : queries < 4 ? 2 : 1> together;
    size_t at = 0;
    for (; scan.columns < kWideRow && at + together <= count; at += together) meet(at, together);
    for (; at < count; ++at) meet(at, std::integral_constant<int, 1>());
    const float bound = biases_of(scan, first, width, biases);
    std::memcpy(scales, scan.scale + first, count * sizeof(float));
    uint32_t masks[queries], any = 0;
    for (size_t j = 0; j < queries; ++j) {
        float* row = scores + j * width;
        const auto score = [&](size_t from) { return Isa::multiply_add(Isa::load(row + from), Isa::load(scales + from), Isa::load(biases + from)); };
        Isa::store(row, score(0));
        Isa::store(row + Isa::width, score(Isa::width));
        masks[j] = Isa::at_least(Isa::load(row), Isa::load(row + Isa::width), scan.floor[j] - bound);
        any |= masks[j];
    }
    if (__builtin_expect(any != 0, 0)) hand_over<width>(scan, 0, queries, first, scores, masks);
}

template <class Isa, int queries>
void scan_rows(const Scan& scan) {
    constexpr size_t width = 2 * Isa::width;
    const Scratch room(4 * scan.columns);
    const size_t per_chunk = kRowBytes / (width * scan.columns * sizeof(float)) + 1;
    visit_chunks(scan, per_chunk * width, [&](size_t first, size_t last) {
        for (; first < last; first += width) meet_rows<Isa, queries>(scan, first, last - first < width ? last - first : width, room.data());
    });
}

template <class Isa, int... less>
void scan_few(const Scan& scan, std::integer_sequence<int, less...>) {
    static constexpr void (*scans[])(const Scan&) = {scan_rows<Isa, less + 1>...};
    scans[scan.n_queries - 1](scan);
}

template <class Isa>
void scan_with(const Scan& scan) {
    constexpr std::make_integer_sequence<int, Isa::rows> each;
    if (scan.from >= scan.to || scan.n_queries == 0) return;
    if (scan.ceiling != nullptr) return scan_in_groups<Isa, true>(scan, each);
    if (scan.n_queries <= kFewQueries) return scan_few<Isa>(scan, std::make_integer_sequence<int, kFewQueries>());
    scan_in_groups<Isa, false>(scan, each);
}

}  // namespace

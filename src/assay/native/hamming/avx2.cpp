// Hamming distances by table look-up, for machines with AVX2 but no instruction that counts bits
// in vectors.
//
// A byte shuffle looks up 32 nibbles (4 bits) in a table of 16 bytes at once. The documents are
// laid out one nibble to a byte, 32 documents side by side. For a nibble q of a query the table
// holds popcount(n ^ q) at place n. One table serves two queries: the count of the one is in the
// low half of each byte and that of the other in the high half. Three counts of at most 4 fit into
// a half, so that only every third sum has to be taken apart.
#include <immintrin.h>

#include "hamming/kernels.hpp"

namespace assay::hamming {

namespace {

constexpr size_t n_pairs = team_queries / 2;
constexpr size_t nibbles_per_group = 3;
constexpr size_t group_bytes = nibbles_per_group * 32;
constexpr size_t tables_per_group = n_pairs * nibbles_per_group;
constexpr size_t groups_per_chunk = 21;  // 21 · 3 · 4 = 252 is the largest sum that fits a byte

size_t group_count(size_t row_bytes) { return (2 * row_bytes + nibbles_per_group - 1) / nibbles_per_group; }
size_t panel_bytes(size_t row_bytes) { return group_count(row_bytes) * group_bytes; }
size_t team_bytes(size_t row_bytes) { return group_count(row_bytes) * tables_per_group * 16; }

inline __m256i load(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
inline void store(void* at, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(at), value); }

// Sixteen bytes of a row from `at` on. Beyond the row it may hold anything (the next row, as a rule),
// but nothing is read at or after `end`.
inline __m128i part_of_row(const uint8_t* at, const uint8_t* end) {
    if (end - at >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    alignas(16) uint8_t part[16] = {};
    for (size_t i = 0; at + i < end; ++i) part[i] = at[i];
    return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
}

// Four rounds of interleaving turn 16 rows of 16 bytes into columns, in each half of the vectors.
inline void transpose(__m256i rows[16]) {
    for (int round = 0; round < 4; ++round) {
        __m256i mixed[16];
        for (int i = 0; i < 8; ++i) {
            mixed[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
            mixed[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        for (int i = 0; i < 16; ++i) rows[i] = mixed[i];
    }
}

void pack_docs(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* panel) {
    const __m256i low = _mm256_set1_epi8(15);
    const uint8_t* const end = rows + count * row_bytes;
    const auto part = [&](size_t doc, size_t from) {
        return doc < count ? part_of_row(rows + doc * row_bytes + from, end) : _mm_setzero_si128();
    };
    for (size_t from = 0; from < row_bytes; from += 16) {
        __m256i column[16];
        for (size_t doc = 0; doc < 16; ++doc) column[doc] = _mm256_set_m128i(part(doc + 16, from), part(doc, from));
        transpose(column);
        const size_t columns = row_bytes - from < 16 ? row_bytes - from : 16;
        for (size_t i = 0; i < columns; ++i) {
            uint8_t* nibbles = panel + (from + i) * 64;
            store(nibbles, _mm256_and_si256(column[i], low));
            store(nibbles + 32, _mm256_and_si256(_mm256_srli_epi16(column[i], 4), low));
        }
    }
    for (size_t rest = row_bytes * 64; rest < panel_bytes(row_bytes); rest += 32) store(panel + rest, _mm256_setzero_si256());
}

inline unsigned nibble_of(const uint8_t* row, size_t place, size_t row_bytes) {
    if (place / 2 >= row_bytes) return 0;
    return place % 2 == 0 ? row[place / 2] & 15u : row[place / 2] >> 4;
}

// popcount(n ^ nibble) for n = 0 … 15
inline __m128i differing_bits(unsigned nibble) {
    const __m128i every = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i bits = _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    return _mm_shuffle_epi8(bits, _mm_xor_si128(every, _mm_set1_epi8(static_cast<char>(nibble))));
}

void pack_queries(const uint8_t* rows, size_t count, size_t row_bytes, uint8_t* team) {
    const size_t places = group_count(row_bytes) * nibbles_per_group;
    for (size_t place = 0; place < places; ++place) {
        for (size_t pair = 0; pair < n_pairs; ++pair) {
            const size_t first = 2 * pair, second = first + 1;
            const unsigned a = first < count ? nibble_of(rows + first * row_bytes, place, row_bytes) : 0;
            const unsigned b = second < count ? nibble_of(rows + second * row_bytes, place, row_bytes) : 0;
            const size_t group = place / nibbles_per_group;
            uint8_t* table = team + ((group * n_pairs + pair) * nibbles_per_group + place % nibbles_per_group) * 16;
            const __m128i counts = _mm_add_epi8(differing_bits(a), _mm_slli_epi16(differing_bits(b), 4));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(table), counts);
        }
    }
}

inline __m256i look_up(const uint8_t* table, __m256i nibbles) {
    const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(once), nibbles);
}

// For each document and one group of nibbles: the count of the pair's first query + 16 · the second's.
inline __m256i look_up_group(const uint8_t* tables, __m256i d0, __m256i d1, __m256i d2) {
    return _mm256_add_epi8(_mm256_add_epi8(look_up(tables, d0), look_up(tables + 16, d1)), look_up(tables + 32, d2));
}

// Sums over some groups. With a byte a + 16 b for each document (a, b: the pair's counts), `first`
// gathers a per byte. A shift by four of the 16 bits a + 16 b + 256 a' + 4096 b' of two neighbours
// leaves b + 16 a' + 256 b', which is gathered too: the a' are known, and taken off at the end.
struct Sums {
    __m256i first[n_pairs], second[n_pairs];
};

inline Sums sum_groups(const uint8_t* docs, const uint8_t* tables, size_t n_groups) {
    const __m256i low = _mm256_set1_epi8(15);
    Sums sums;
    for (size_t pair = 0; pair < n_pairs; ++pair) sums.first[pair] = sums.second[pair] = _mm256_setzero_si256();
    do {  // there is at least one group
        const __m256i d0 = load(docs), d1 = load(docs + 32), d2 = load(docs + 64);
        for (size_t pair = 0; pair < n_pairs; ++pair) {
            const __m256i both = look_up_group(tables + pair * nibbles_per_group * 16, d0, d1, d2);
            sums.first[pair] = _mm256_add_epi8(sums.first[pair], _mm256_and_si256(both, low));
            sums.second[pair] = _mm256_add_epi16(sums.second[pair], _mm256_srli_epi16(both, 4));
        }
        docs += group_bytes;
        tables += tables_per_group * 16;
    } while (--n_groups != 0);
    for (size_t pair = 0; pair < n_pairs; ++pair) {
        const __m256i neighbour = _mm256_slli_epi16(_mm256_srli_epi16(sums.first[pair], 8), 4);
        sums.second[pair] = _mm256_sub_epi16(sums.second[pair], neighbour);
    }
    return sums;
}

// Codes of up to 256 bits, compared within limits below 255, need only bytes that stop at 255.
constexpr size_t most_row_bytes_for_bytes = 32;

inline Sums sum_bytes(const uint8_t* panel, const uint8_t* team, size_t n_groups) {
    if (n_groups <= groups_per_chunk) return sum_groups(panel, team, n_groups);
    Sums sums = sum_groups(panel, team, groups_per_chunk);
    const __m256i low = _mm256_set1_epi8(15);
    const uint8_t* docs = panel + groups_per_chunk * group_bytes;
    const uint8_t* tables = team + groups_per_chunk * tables_per_group * 16;
    for (size_t pair = 0; pair < n_pairs; ++pair) {
        const __m256i both = look_up_group(tables + pair * nibbles_per_group * 16, load(docs), load(docs + 32), load(docs + 64));
        sums.first[pair] = _mm256_adds_epu8(sums.first[pair], _mm256_and_si256(both, low));
        sums.second[pair] = _mm256_adds_epu8(sums.second[pair], _mm256_and_si256(_mm256_srli_epi16(both, 4), low));
    }
    return sums;
}

inline __m256i sum_of(const Sums& sums, size_t query) {
    return query % 2 == 0 ? sums.first[query / 2] : sums.second[query / 2];
}

// Whether any document is within the limits.
inline bool any_within(const Sums& sums, const __m256i* limits) {
    __m256i excess = _mm256_set1_epi8(-1);  // over the limit: the least among all eight queries
    for (size_t i = 0; i < team_queries; ++i) excess = _mm256_min_epu8(excess, _mm256_subs_epu8(sum_of(sums, i), limits[i]));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(excess, _mm256_setzero_si256())) != 0;
}

// Fills in what was found in one panel; tells whether it is anything.
inline bool find_by_bytes(const Sums& sums, const __m256i* limits, Comparison& comparison) {
    uint32_t any = 0;
    for (size_t i = 0; i < team_queries; ++i) {
        const __m256i excess = _mm256_subs_epu8(sum_of(sums, i), limits[i]);
        const __m256i within_limit = _mm256_cmpeq_epi8(excess, _mm256_setzero_si256());
        comparison.candidates[i] = static_cast<uint32_t>(_mm256_movemask_epi8(within_limit)) & comparison.enabled[i];
        any |= comparison.candidates[i];
        store(comparison.distance[i], _mm256_cvtepu8_epi16(_mm256_castsi256_si128(sum_of(sums, i))));
        store(comparison.distance[i] + 16, _mm256_cvtepu8_epi16(_mm256_extracti128_si256(sum_of(sums, i), 1)));
    }
    return any != 0;
}

size_t compare_by_bytes(const uint8_t* panels, size_t at, size_t end, const uint8_t* team, size_t n_groups, Comparison& comparison) {
    __m256i limits[team_queries];
    for (size_t i = 0; i < team_queries; ++i) limits[i] = _mm256_set1_epi8(static_cast<char>(comparison.limit[i]));
    for (; at < end; ++at) {
        const Sums sums = sum_bytes(panels + at * n_groups * group_bytes, team, n_groups);
        if (any_within(sums, limits) && find_by_bytes(sums, limits, comparison)) break;
    }
    return at;
}

// Distances of 16 bits: those of documents 0, 2, 4, … and those of 1, 3, 5, …
struct Distances {
    __m256i even[team_queries], odd[team_queries];
};

inline void add(Distances& distances, const Sums& sums) {
    const __m256i low = _mm256_set1_epi16(255);
    for (size_t i = 0; i < team_queries; ++i) {
        const __m256i sum = sum_of(sums, i);
        distances.even[i] = _mm256_add_epi16(distances.even[i], _mm256_and_si256(sum, low));
        distances.odd[i] = _mm256_add_epi16(distances.odd[i], _mm256_srli_epi16(sum, 8));
    }
}

inline void measure(const uint8_t* panel, const uint8_t* team, size_t n_groups, Distances& distances) {
    for (size_t i = 0; i < team_queries; ++i) distances.even[i] = distances.odd[i] = _mm256_setzero_si256();
    for (size_t from = 0; from < n_groups; from += groups_per_chunk) {
        const size_t count = n_groups - from < groups_per_chunk ? n_groups - from : groups_per_chunk;
        add(distances, sum_groups(panel + from * group_bytes, team + from * tables_per_group * 16, count));
    }
}

// All ones in the 16 bits of every distance up to the limit.
inline __m256i up_to(__m256i distance, __m256i limit) {
    return _mm256_cmpeq_epi16(_mm256_max_epu16(distance, limit), limit);
}

// Bit i for document i.
inline uint32_t within(__m256i even, __m256i odd, uint16_t limit) {
    const __m256i most = _mm256_set1_epi16(static_cast<int16_t>(limit));
    const __m256i upper = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
    const __m256i within_limit = _mm256_blendv_epi8(up_to(even, most), up_to(odd, most), upper);
    return static_cast<uint32_t>(_mm256_movemask_epi8(within_limit));
}

inline void store_in_order(__m256i even, __m256i odd, uint16_t* distance) {
    const __m256i a = _mm256_unpacklo_epi16(even, odd), b = _mm256_unpackhi_epi16(even, odd);
    store(distance, _mm256_permute2x128_si256(a, b, 0x20));
    store(distance + 16, _mm256_permute2x128_si256(a, b, 0x31));
}

// As find_by_bytes.
inline bool find(const Distances& distances, Comparison& comparison) {
    uint32_t any = 0;
    for (size_t i = 0; i < team_queries; ++i) {
        comparison.candidates[i] = within(distances.even[i], distances.odd[i], comparison.limit[i]) & comparison.enabled[i];
        any |= comparison.candidates[i];
    }
    if (any == 0) return false;
    for (size_t i = 0; i < team_queries; ++i) store_in_order(distances.even[i], distances.odd[i], comparison.distance[i]);
    return true;
}

bool fits_bytes(size_t row_bytes, const uint16_t* limits) {
    uint16_t most = 0;
    for (size_t i = 0; i < team_queries; ++i) most = limits[i] > most ? limits[i] : most;
    return row_bytes <= most_row_bytes_for_bytes && most < 255;
}

size_t compare(const uint8_t* panels, size_t at, size_t end, const uint8_t* team, size_t row_bytes, Comparison& comparison) {
    const size_t n_groups = group_count(row_bytes);
    if (fits_bytes(row_bytes, comparison.limit)) return compare_by_bytes(panels, at, end, team, n_groups, comparison);
    for (; at < end; ++at) {
        Distances distances;
        measure(panels + at * n_groups * group_bytes, team, n_groups, distances);
        if (find(distances, comparison)) break;
    }
    return at;
}

}  // namespace

const Kernels& avx2_kernels() {
    static constexpr Kernels kernels{panel_bytes, team_bytes, pack_docs, pack_queries, compare};
    return kernels;
}

}  // namespace assay::hamming

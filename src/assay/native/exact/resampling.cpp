#include "exact/resampling.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "trec/parallel.hpp"

namespace assay {

namespace {

// Cuts the resamples into ranges, one for each thread; work(begin, end) fills its own.
template <class Work>
void share_out(const Draws& draws, size_t cost, Work work) {
    const unsigned requested = draws.threads != 0 ? draws.threads : threads_for(draws.resamples * cost / 16);
    const auto threads = static_cast<unsigned>(std::clamp<size_t>(requested, 1, std::max<size_t>(draws.resamples, 1)));
    run_together(threads, [&](unsigned i) { work(draws.resamples * i / threads, draws.resamples * (i + 1) / threads); });
}

constexpr size_t kBytes = 8;
constexpr size_t kPatterns = 256;

// For each byte of a word, the sums of its eight values under all 256 choices of signs.
struct ByteTables {
    int64_t sums[kBytes][kPatterns];

    ByteTables(const int64_t* values, size_t count) {
        for (size_t byte = 0; byte < kBytes; ++byte) {
            int64_t* table = sums[byte];
            table[0] = 0;
            for (size_t bit = 0; bit < 8; ++bit) {
                const size_t place = byte * 8 + bit;
                const int64_t value = place < count ? values[place] : 0;
                const size_t half = size_t{1} << bit;
                for (size_t i = 0; i < half; ++i) {
                    table[half + i] = table[i] - value;
                    table[i] += value;
                }
            }
        }
    }

    int64_t of(uint64_t word) const {
        int64_t sum = 0;
        for (size_t byte = 0; byte < kBytes; ++byte) sum += sums[byte][(word >> (8 * byte)) & 0xFF];
        return sum;
    }
};

// floor(half · size / 2^32): a number below size, from 32 random bits.
inline size_t below(uint64_t half, uint64_t size) { return static_cast<size_t>((half * size) >> 32); }

// One stratum and few columns, the common case: two draws from each word, sums in registers.
template <size_t columns>
void draw_plain(const int64_t* values, uint64_t count, uint64_t key, uint64_t first_word, int64_t* sums) {
    int64_t low[columns] = {}, high[columns] = {};
    const auto add = [&](int64_t* to, uint64_t half) {
        const int64_t* unit = values + below(half, count) * columns;
        for (size_t column = 0; column < columns; ++column) to[column] += unit[column];
    };
    for (uint64_t i = 0; i < count / 2; ++i) {
        const uint64_t word = random_word(key, first_word + i);
        add(low, word & 0xFFFFFFFFu);
        add(high, word >> 32);
    }
    if (count % 2 != 0) add(low, random_word(key, first_word + count / 2) & 0xFFFFFFFFu);
    for (size_t column = 0; column < columns; ++column) sums[column] = low[column] + high[column];
}

using DrawPlain = void (*)(const int64_t*, uint64_t, uint64_t, uint64_t, int64_t*);
constexpr DrawPlain kDrawPlain[] = {draw_plain<1>, draw_plain<2>, draw_plain<3>, draw_plain<4>,
                                    draw_plain<5>, draw_plain<6>, draw_plain<7>, draw_plain<8>};
constexpr size_t kAtOnce = std::size(kDrawPlain);  // columns

// A few columns side by side at a time, so that each unit of theirs is one piece of memory.
std::vector<int64_t> panels_of(const UnitTable& table, size_t units) {
    std::vector<int64_t> panels;
    panels.reserve(units * table.columns);
    for (size_t first = 0; first < table.columns; first += kAtOnce) {
        for (size_t unit = 0; unit < units; ++unit) {
            const int64_t* row = table.values + unit * table.columns;
            panels.insert(panels.end(), row + first, row + std::min(first + kAtOnce, table.columns));
        }
    }
    return panels;
}

void draw_strata(const UnitTable& table, uint64_t key, uint64_t first_word, int64_t* sums) {
    std::fill_n(sums, table.columns, 0);
    for (size_t stratum = 0; stratum < table.strata; ++stratum) {
        const int64_t begin = table.offsets[stratum], end = table.offsets[stratum + 1];
        const int64_t* values = table.values + begin * static_cast<int64_t>(table.columns);
        for (int64_t draw = begin; draw < end; ++draw) {
            const uint64_t word = random_word(key, first_word + static_cast<uint64_t>(draw) / 2);
            const uint64_t half = draw % 2 != 0 ? word >> 32 : word & 0xFFFFFFFFu;
            const int64_t* unit = values + below(half, static_cast<uint64_t>(end - begin)) * table.columns;
            for (size_t column = 0; column < table.columns; ++column) sums[column] += unit[column];
        }
    }
}

// Fisher–Yates on a copy of one row, then adds it to the sums.
void add_shuffled(const int64_t* row, size_t systems, uint64_t key, uint64_t first_word, int64_t* scratch, int64_t* sums) {
    std::copy_n(row, systems, scratch);
    uint64_t word = 0;
    for (size_t step = 0; step + 1 < systems; ++step) {
        const size_t last = systems - 1 - step;
        word = step % 2 == 0 ? random_word(key, first_word + step / 2) : word >> 32;
        std::swap(scratch[below(word & 0xFFFFFFFFu, last + 1)], scratch[last]);
        sums[last] += scratch[last];
    }
    sums[0] += scratch[0];
}

}  // namespace

Column<int64_t> flip_sums(const int64_t* values, size_t count, const Draws& draws) {
    Column<int64_t> sums(draws.resamples, 0);
    const size_t n_words = (count + 63) / 64;
    share_out(draws, n_words * 8, [&](size_t begin, size_t end) {
        // One word's tables stay in the nearest cache while all resamples use them.
        for (size_t w = 0; w < n_words; ++w) {
            const ByteTables tables(values + w * 64, count - w * 64);
            for (size_t r = begin; r < end; ++r) sums[r] += tables.of(random_word(draws.key, (draws.first + r) * n_words + w));
        }
    });
    return sums;
}

Column<int64_t> bootstrap_sums(const UnitTable& table, const Draws& draws) {
    Column<int64_t> sums(draws.resamples * table.columns, 0);
    const auto units = static_cast<uint64_t>(table.offsets[table.strata]);
    const uint64_t n_words = (units + 1) / 2;
    const bool is_plain = table.strata == 1, is_wide = is_plain && table.columns > kAtOnce;
    const std::vector<int64_t> panels = is_wide ? panels_of(table, units) : std::vector<int64_t>();
    const int64_t* values = is_wide ? panels.data() : table.values;
    share_out(draws, units * table.columns, [&](size_t begin, size_t end) {
        // To draw again for the next columns takes less time than to store what was drawn.
        for (size_t first = 0; first < table.columns; first += is_plain ? kAtOnce : table.columns) {
            const DrawPlain draw = kDrawPlain[std::min(kAtOnce, table.columns - first) - 1];
            for (size_t r = begin; r < end; ++r) {
                const uint64_t first_word = (draws.first + r) * n_words;
                int64_t* sum = sums.data() + r * table.columns + first;
                is_plain ? draw(values + first * units, units, draws.key, first_word, sum) : draw_strata(table, draws.key, first_word, sum);
            }
        }
    });
    return sums;
}

Column<int64_t> shuffled_ranges(const int64_t* values, size_t queries, size_t systems, const Draws& draws) {
    Column<int64_t> ranges(draws.resamples, 0);
    const uint64_t row_words = systems / 2;
    share_out(draws, queries * systems, [&](size_t begin, size_t end) {
        std::vector<int64_t> scratch(systems), sums(systems);
        for (size_t r = begin; r < end; ++r) {
            std::fill(sums.begin(), sums.end(), 0);
            const uint64_t first_word = (draws.first + r) * queries * row_words;
            for (size_t q = 0; q < queries; ++q) {
                add_shuffled(values + q * systems, systems, draws.key, first_word + q * row_words, scratch.data(), sums.data());
            }
            const auto [least, most] = std::minmax_element(sums.begin(), sums.end());
            ranges[r] = *most - *least;
        }
    });
    return ranges;
}

}  // namespace assay

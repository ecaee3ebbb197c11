// Feeds the search with small and awkward rows, in memory of exactly their size and no more aligned
// than their elements, and checks every answer: scores with long double, choice and counts with
// plain loops. The search goes by products of float32, of 8 bits and of 16. Run under sanitizers, and for other
// processors; prints the vectors in use, a digest of every answer, and "ok".
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "search/coarse_search.hpp"
#include "search/float32_search.hpp"

using namespace assay;

namespace {

std::mt19937 generator(12345);

uint64_t digest = 14695981039346656037u;

// Takes bytes into the digest.
template <class T>
void note(const T* values, size_t count) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values);
    for (size_t i = 0; i < count * sizeof(T); ++i) digest = (digest ^ bytes[i]) * 1099511628211u;
}

size_t below(size_t end) { return generator() % end; }

enum class Values { integers, reals, clones, near_clones, rising };

struct Case {
    size_t n_queries, n_docs, columns, k;
    Values values;
};

void require(bool condition, const char* what, const Case& at) {
    if (condition) return;
    std::printf("failed: %s (%zu queries, %zu docs, %zu columns, k = %zu, values %d)\n", what, at.n_queries,
                at.n_docs, at.columns, at.k, static_cast<int>(at.values));
    std::exit(1);
}

// An array that starts one element into its memory and ends with it.
template <class T>
class Tight {
public:
    explicit Tight(size_t size) : memory_(size + 1) {}
    T* data() { return memory_.data() + 1; }
    const T* data() const { return memory_.data() + 1; }
    T& operator[](size_t i) { return memory_[i + 1]; }
    const T& operator[](size_t i) const { return memory_[i + 1]; }

private:
    std::vector<T> memory_;
};

double random_real() { return static_cast<double>(generator()) / 4294967296.0 - 0.5; }

double random_value(const Case& at, size_t row) {
    switch (at.values) {
        case Values::integers: return static_cast<double>(below(5)) - 2.0;
        case Values::rising: return 1.0 + static_cast<double>(row) + random_real() / 4;
        default: return random_real();
    }
}

// Rows of one kind, each kind with its own reason: ties, near-ties, floors that rise all the time.
std::vector<double> random_rows(const Case& at, size_t count) {
    std::vector<double> rows(count * at.columns);
    for (size_t row = 0; row < count; ++row) {
        const bool clone = row > 2 && (at.values == Values::clones || at.values == Values::near_clones);
        for (size_t column = 0; column < at.columns; ++column) {
            double& value = rows[row * at.columns + column];
            value = clone ? rows[row % 3 * at.columns + column] : random_value(at, row);
            if (clone && at.values == Values::near_clones) value *= 1.0 + 1e-7 * random_real();
        }
    }
    return rows;
}

// Rows as the search takes them.
struct Rows {
    size_t count, columns;
    bool doubled;
    Tight<float> singles, find;
    Tight<double> doubles, norm_hi, norm_lo;
    Tight<int32_t> exponents;
    std::vector<double> norms;  // rounded up a little

    Rows(const std::vector<double>& values, size_t n_columns, bool as_double)
        : count(values.size() / n_columns), columns(n_columns), doubled(as_double), singles(values.size()), find(values.size()),
          doubles(values.size()), norm_hi(count), norm_lo(count), exponents(count), norms(count) {
        for (size_t i = 0; i < values.size(); ++i) {
            find[i] = singles[i] = static_cast<float>(values[i]);
            doubles[i] = values[i];
        }
        for (size_t row = 0; row < count; ++row) exponents[row] = doubled ? exponent_of(row) : 0;
        search_kernels().square_norms(exact(), 0, count, norm_hi.data(), norm_lo.data());
        for (size_t row = 0; row < count; ++row) norms[row] = std::ldexp(std::sqrt(norm_hi[row]) * 1.0000001, exponents[row]);
    }

    double value(size_t row, size_t column) const {
        const size_t at = row * columns + column;
        return doubled ? doubles[at] : static_cast<double>(singles[at]);
    }

    int exponent_of(size_t row) const {
        double largest = 0.0;
        for (size_t column = 0; column < columns; ++column) largest = std::max(largest, std::fabs(doubles[row * columns + column]));
        int exponent = -1021;
        if (largest > 0.0) std::frexp(largest, &exponent);
        return exponent;
    }

    ExactRows exact() const {
        const void* rows = doubled ? static_cast<const void*>(doubles.data()) : singles.data();
        return {rows, doubled, count, columns, exponents.data(), norm_hi.data(), norm_lo.data()};
    }
};

double error_factor(size_t columns) { return 1.01 * static_cast<double>(columns + 8) / (1 << 24); }

struct Queries : Rows {
    Tight<double> weight, shift;
    double largest = 0.0;

    Queries(const std::vector<double>& values, size_t n_columns, bool as_double, Metric metric)
        : Rows(values, n_columns, as_double), weight(count), shift(count) {
        for (size_t row = 0; row < count; ++row) {
            const double norm = norms[row] > 0.0 ? norms[row] : metric == Metric::cosine ? NAN : 1.0;
            const bool squared = metric == Metric::l2;
            largest = std::max(largest, norms[row]);
            weight[row] = squared ? 0.5 : metric == Metric::dot ? 1.0 / norm : 1.0;
            shift[row] = squared ? std::ldexp(norm_hi[row], 2 * exponents[row]) : 0.0;
            for (size_t i = row * columns; !squared && i < (row + 1) * columns; ++i) find[i] = static_cast<float>(find[i] / norm);
        }
    }
    QueryRows view() const { return {exact(), find.data(), weight.data(), shift.data()}; }
};

struct Docs : Rows {
    Tight<float> scale, bias, bound;

    Docs(const std::vector<double>& values, size_t n_columns, bool as_double, Metric metric, double largest_query)
        : Rows(values, n_columns, as_double), scale(count), bias(count), bound(count) {
        const double factor = error_factor(columns), reach = metric == Metric::l2 ? largest_query : 1.0;
        for (size_t row = 0; row < count; ++row) {
            const double norm = norms[row], half_square = metric == Metric::l2 ? norm * norm / 2 : 0.0;
            const bool cosine = metric == Metric::cosine, empty = norm == 0.0;
            scale[row] = !cosine ? 1.0f : empty ? 0.0f : static_cast<float>(1.0 / norm);
            bias[row] = cosine && empty ? -2.0f : static_cast<float>(-half_square);
            // the norms are off by 1e-7 of themselves, so are their squares by twice that
            bound[row] = static_cast<float>(factor * (cosine ? 1.0 : norm * reach) + (factor + 3e-7) * half_square + 3e-7 * cosine + 1e-35);
        }
    }
    DocRows view(int64_t first) const { return {exact(), find.data(), scale.data(), bias.data(), bound.data(), 1.0, first}; }
};

// Documents in 8 bits, in memory of exactly their size.
struct Codes {
    Tight<uint8_t> panels;
    Tight<float> step, residual, norm, lean, signs, axis;
    CoarseRows rows;

    explicit Codes(const Docs& docs)
        : panels(bytes_of(docs)), step(docs.count), residual(docs.count), norm(docs.count),
          lean(docs.count), signs(docs.columns), axis(docs.columns), rows{nullptr, step.data(), residual.data(), norm.data(), lean.data()} {
        for (size_t column = 0; column < docs.columns; ++column) signs[column] = column % 3 == 0 ? -1.0f : 1.0f;
        axis[docs.columns / 2] = docs.count % 2 == 0 ? 0.0f : 1.0f;
        const Rotation turned(signs.data(), axis.data(), docs.columns);
        coarsen(coarse_kernels().narrow, {docs.find.data(), ElementType::wide, docs.count, docs.columns}, turned.view(), 1, panels.data(), rows);
    }
    Codes(const Codes&) = delete;
    static size_t bytes_of(const Docs& docs) { return panels_of(docs.count) * coarse_kernels().narrow.panel_bytes(docs.columns); }
    CoarseDocs view(const DocRows& docs) const { return {docs, panels.data(), rows, signs.data(), axis.data()}; }
};

// What a score should be, and how far a sum of long doubles may be from it.
struct Expected {
    long double score, slack;
};

Expected expected_score(Metric metric, const Rows& queries, size_t q, const Rows& docs, size_t d) {
    long double dot = 0, size = 0, x_square = 0, y_square = 0, gap_square = 0;
    for (size_t i = 0; i < queries.columns; ++i) {
        const long double x = queries.value(q, i), y = docs.value(d, i);
        dot += x * y;
        size += std::fabs(x * y);
        x_square += x * x;
        y_square += y * y;
        gap_square += (x - y) * (x - y);
    }
    const long double rounding = std::ldexp(static_cast<long double>(queries.columns) + 8, -63);
    if (metric == Metric::l2) return {-gap_square, gap_square * rounding};
    if (metric == Metric::dot) return {dot, size * rounding};
    const long double norms = std::sqrt(x_square) * std::sqrt(y_square);
    return norms == 0 ? Expected{-2.0L, 0} : Expected{dot / norms, size / norms * 2 * rounding};
}

bool is_right(double score, Expected expected) {
    const long double half_unit = std::ldexp(std::fabs(expected.score), -53);
    return std::fabs(static_cast<long double>(score) - expected.score) <= half_unit + expected.slack;
}

bool better(const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.doc < b.doc; }

struct Exclusions {
    std::vector<int64_t> offsets{0}, docs;
    std::vector<bool> holds;  // by query and document

    Exclusions(const Case& at, bool any) : holds(at.n_queries * at.n_docs) {
        for (size_t q = 0; q < at.n_queries; ++q) {
            for (size_t d = 0; d < at.n_docs; ++d) {
                if (!any || (q != 1 && below(4) != 0)) continue;  // query 1 finds nothing
                docs.push_back(static_cast<int64_t>(d));
                holds[q * at.n_docs + d] = true;
            }
            offsets.push_back(static_cast<int64_t>(docs.size()));
        }
    }
    Excluded view() const { return {offsets.data(), docs.data()}; }
};

class Trial {
public:
    Trial(const Case& at, Metric metric, bool double_queries, bool double_docs)
        : at_(at), metric_(metric), double_docs_(double_docs), values_(random_rows(at, at.n_docs)),
          queries_(random_rows(at, at.n_queries), at.columns, double_queries, metric),
          docs_(values_, at.columns, double_docs, metric, queries_.largest) {
        if (at.values == Values::integers && at.n_docs > 3) empty_row(3);
        for (size_t d = 0; d < at.n_docs; ++d) all_.push_back(static_cast<uint32_t>(d));
        for (size_t q = 0; q < at.n_queries; ++q) scores_.push_back(scores_with(search_kernels(), q));
    }

    void run() {
        check_scores();
        for (const bool keep_ties : {false, true}) {
            for (const bool any : {false, true}) check_top(Exclusions(at_, any), keep_ties);
        }
        check_targets(Exclusions(at_, true));
        check_stop();
    }

private:
    void empty_row(size_t row) {
        std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(row * at_.columns), at_.columns, 0.0);
        docs_ = Docs(values_, at_.columns, double_docs_, metric_, queries_.largest);
    }

    std::vector<double> scores_with(const SearchKernels& kernels, size_t q) const {
        const std::vector<uint32_t> rows(all_.size(), static_cast<uint32_t>(q));
        std::vector<double> scores(all_.size());
        kernels.score(metric_, queries_.exact(), docs_.exact(), {rows.data(), all_.data(), all_.size()}, scores.data());
        return scores;
    }

    bool empty(size_t q) const { return metric_ == Metric::cosine && queries_.norms[q] == 0.0; }

    void check_scores() const {
        for (size_t q = 0; q < at_.n_queries; ++q) {
            require(scores_[q] == scores_with(plain_search_kernels(), q), "the same bits as the plain kernels", at_);
            for (size_t d = 0; d < at_.n_docs; ++d) {
                require(is_right(scores_[q][d], expected_score(metric_, queries_, q, docs_, d)), "score", at_);
            }
        }
    }

    // A query without direction finds nothing.
    std::vector<Scored> expected_top(size_t q, const Exclusions& exclusions, bool keep_ties) const {
        std::vector<Scored> order;
        for (size_t d = 0; d < at_.n_docs && !empty(q); ++d) {
            if (!exclusions.holds[q * at_.n_docs + d]) order.push_back({static_cast<int64_t>(d), scores_[q][d]});
        }
        std::sort(order.begin(), order.end(), better);
        size_t kept = std::min(at_.k, order.size());
        while (keep_ties && kept != 0 && kept < order.size() && order[kept].score == order[kept - 1].score) ++kept;
        order.resize(kept);
        return order;
    }

    void check_top(const Exclusions& exclusions, bool keep_ties) {
        TopK whole(at_.n_queries, at_.k, keep_ties), blocks(whole), left(whole), right(whole), coarse(whole), wide(whole);
        const size_t cut = at_.n_docs / 3;
        find(whole, docs_, 0, exclusions, {0, at_.n_docs});
        find(left, docs_, 0, exclusions, {0, cut});
        find(right, docs_, 0, exclusions, {cut, at_.n_docs});
        left.absorb(right);
        find_block(blocks, exclusions, {cut, at_.n_docs});
        find_block(blocks, exclusions, {0, cut});
        find_coarse(coarse, exclusions, {cut, at_.n_docs});
        find_coarse(coarse, exclusions, {0, cut});
        find_wide(wide, exclusions, {cut, at_.n_docs});
        find_wide(wide, exclusions, {0, cut});
        for (TopK* top : {&whole, &left, &blocks, &coarse, &wide}) check_found(*top, exclusions, keep_ties);
    }

    // By 8 bits; where there is no product of them, as without.
    void find_coarse(TopK& top, const Exclusions& exclusions, Range range) {
        const Codes codes(docs_);
        note(codes.panels.data(), Codes::bytes_of(docs_));
        for (const Tight<float>* each : {&codes.step, &codes.residual, &codes.norm}) note(each->data(), docs_.count);
        if (coarse_kernels().narrow.scan == nullptr) return find(top, docs_, 0, exclusions, range);
        int64_t done = 0;
        const DocRows docs = docs_.view(0);
        scan_coarse(top, metric_, queries_.view(), codes.view(docs), exclusions.view(), range, {&go_, &done});
        require(done == static_cast<int64_t>((range.to - range.from) * at_.n_queries), "progress by 8 bits", at_);
    }

    // By 16 bits, likewise.
    void find_wide(TopK& top, const Exclusions& exclusions, Range range) {
        if (coarse_kernels().wide.scan == nullptr) return find(top, docs_, 0, exclusions, range);
        int64_t done = 0;
        scan_16_bits(top, metric_, queries_.view(), docs_.view(0), exclusions.view(), range, {&go_, &done});
        require(done == static_cast<int64_t>((range.to - range.from) * at_.n_queries), "progress by 16 bits", at_);
    }

    // In some of the documents, as a block of their own.
    void find_block(TopK& top, const Exclusions& exclusions, Range range) {
        const double* begin = values_.data();
        const std::vector<double> values(begin + range.from * at_.columns, begin + range.to * at_.columns);
        const Docs part(values, at_.columns, double_docs_, metric_, queries_.largest);
        find(top, part, static_cast<int64_t>(range.from), exclusions, {0, part.count});
    }

    void check_found(TopK& top, const Exclusions& exclusions, bool keep_ties) const {
        top.sort();
        for (size_t q = 0; q < at_.n_queries; ++q) {
            const std::vector<Scored> expected = expected_top(q, exclusions, keep_ties);
            require(top.best()[q].size() == expected.size(), "how many were found", at_);
            for (size_t i = 0; i < expected.size(); ++i) {
                require(top.best()[q][i].doc == expected[i].doc, "which were found", at_);
                require(top.best()[q][i].score == expected[i].score, "the scores of those found", at_);
                note(&expected[i].doc, 1);
                note(&expected[i].score, 1);
            }
        }
    }

    // With the fused product, or, where there is none, by deciding on all documents.
    void find(TopK& top, const Docs& docs, int64_t first, const Exclusions& exclusions, Range range) {
        int64_t done = 0;
        if (search_kernels().scan != nullptr) {
            top.scan(metric_, queries_.view(), docs.view(first), exclusions.view(), range, {&go_, &done});
            require(done == static_cast<int64_t>((range.to - range.from) * at_.n_queries), "progress", at_);
            return;
        }
        std::vector<int64_t> offsets = {0};
        std::vector<uint32_t> candidates;
        for (size_t q = 0; q < at_.n_queries; ++q) {
            for (size_t d = range.from; d < range.to && !empty(q); ++d) {
                if (!exclusions.view().holds(q, first + static_cast<int64_t>(d))) candidates.push_back(static_cast<uint32_t>(d));
            }
            offsets.push_back(static_cast<int64_t>(candidates.size()));
        }
        top.decide(metric_, queries_.view(), docs.view(first), offsets.data(), candidates.data());
    }

    struct Counts {
        std::vector<int64_t> above, tied, before;

        explicit Counts(size_t count) : above(count), tied(count), before(count) {}
        bool operator==(const Counts& other) const { return above == other.above && tied == other.tied && before == other.before; }
        TargetCounts view() { return {above.data(), tied.data(), before.data()}; }
    };

    void add_expected(Counts& counts, size_t q, size_t target, size_t d, int64_t weight) const {
        const bool tied = scores_[q][d] == scores_[q][target] && d != target;
        counts.above[q] += scores_[q][d] > scores_[q][target] ? weight : 0;
        counts.tied[q] += tied ? weight : 0;
        counts.before[q] += tied && d < target ? weight : 0;
    }

    void check_targets(const Exclusions& exclusions) {
        std::vector<int64_t> targets;
        std::vector<double> scores;
        Counts expected(at_.n_queries), found(at_.n_queries);
        for (size_t q = 0; q < at_.n_queries; ++q) {
            const size_t target = at_.n_docs == 0 || empty(q) || below(5) == 0 ? at_.n_docs : below(at_.n_docs);
            targets.push_back(target == at_.n_docs ? -1 : static_cast<int64_t>(target));
            scores.push_back(target == at_.n_docs ? 0.0 : scores_[q][target]);
            for (size_t d = 0; d < at_.n_docs && target != at_.n_docs; ++d) add_expected(expected, q, target, d, 1);
        }
        count(found, {targets.data(), scores.data()});
        require(found == expected, "counts around the targets", at_);
        count_by_codes({targets.data(), scores.data()}, expected);
        std::vector<uint32_t> barred(exclusions.docs.begin(), exclusions.docs.end());
        decide_targets(metric_, queries_.view(), docs_.view(0), {targets.data(), scores.data()}, exclusions.offsets.data(),
                       barred.data(), found.view(), -1);
        for (size_t q = 0; q < at_.n_queries; ++q) {
            for (int64_t i = exclusions.offsets[q]; i < exclusions.offsets[q + 1] && targets[q] >= 0; ++i) {
                add_expected(expected, q, static_cast<size_t>(targets[q]), barred[static_cast<size_t>(i)], -1);
            }
        }
        require(found == expected, "counts without what is excluded", at_);
    }

    void count(Counts& counts, const Targets& targets) {
        int64_t done = 0;
        const size_t cut = at_.n_docs / 2;
        if (search_kernels().scan != nullptr) {
            for (const Range range : {Range{0, cut}, Range{cut, at_.n_docs}}) {
                count_targets(metric_, queries_.view(), docs_.view(0), targets, range, counts.view(), {&go_, &done});
            }
            return;
        }
        std::vector<int64_t> offsets;
        std::vector<uint32_t> candidates;
        for (size_t q = 0; q <= at_.n_queries; ++q) offsets.push_back(static_cast<int64_t>(q * at_.n_docs));
        for (size_t q = 0; q < at_.n_queries; ++q) candidates.insert(candidates.end(), all_.begin(), all_.end());
        decide_targets(metric_, queries_.view(), docs_.view(0), targets, offsets.data(), candidates.data(), counts.view(), 1);
    }

    void count_by_codes(const Targets& targets, const Counts& expected) {
        if (coarse_kernels().narrow.scan == nullptr) return;
        const Codes codes(docs_);
        const DocRows docs = docs_.view(0);
        const size_t cut = at_.n_docs / 2;
        Counts counts(at_.n_queries);
        int64_t done = 0;
        for (const Range range : {Range{0, cut}, Range{cut, at_.n_docs}}) {
            count_coarse_targets(metric_, queries_.view(), codes.view(docs), targets, range, counts.view(), {&go_, &done});
        }
        require(counts == expected, "counts by 8 bits", at_);
        require(done == static_cast<int64_t>(at_.n_docs * at_.n_queries), "progress of counts by 8 bits", at_);
        if (coarse_kernels().wide.scan == nullptr) return;
        Counts wide(at_.n_queries);
        for (const Range range : {Range{0, cut}, Range{cut, at_.n_docs}}) {
            count_by_16_bits(metric_, queries_.view(), docs, targets, range, wide.view(), {&go_, &done});
        }
        require(wide == expected, "counts by 16 bits", at_);
    }

    void check_stop() {
        if (search_kernels().scan == nullptr) return;
        const int32_t stop = 1;
        int64_t done = 0;
        TopK top(at_.n_queries, at_.k, false);
        top.scan(metric_, queries_.view(), docs_.view(0), Exclusions(at_, false).view(), {0, at_.n_docs}, {&stop, &done});
        require(done == 0, "a wish to stop is heard", at_);
        for (const std::vector<Scored>& best : top.best()) require(best.empty(), "nothing is found after a stop", at_);
    }

    Case at_;
    Metric metric_;
    bool double_docs_;
    std::vector<double> values_;
    Queries queries_;
    Docs docs_;
    std::vector<uint32_t> all_;
    std::vector<std::vector<double>> scores_;
    const int32_t go_ = 0;
};

void run_all_types(const Case& at) {
    for (const Metric metric : {Metric::cosine, Metric::dot, Metric::l2}) {
        Trial(at, metric, false, false).run();
        Trial(at, metric, true, true).run();
        const bool double_queries = below(2) == 0, double_docs = below(2) == 0;
        Trial(at, metric, double_queries, double_docs).run();
    }
}

// Around the sizes of a group of queries, a panel, a lane, a chunk and a buffer of candidates.
const Case kCases[] = {
    {1, 1, 1, 1, Values::reals},        {1, 17, 1, 3, Values::integers},    {2, 17, 7, 40, Values::integers},
    {5, 15, 8, 4, Values::reals},       {6, 16, 9, 16, Values::reals},      {7, 31, 15, 5, Values::clones},
    {13, 32, 16, 32, Values::integers}, {14, 33, 17, 7, Values::reals},     {15, 63, 23, 64, Values::near_clones},
    {29, 100, 3, 10, Values::integers}, {3, 65, 31, 1, Values::near_clones}, {28, 97, 2, 9, Values::rising},
    {4, 1200, 3, 2, Values::clones},    {4, 1200, 5, 3, Values::rising},    {2, 1200, 2, 2, Values::integers},
    {3, 230, 701, 5, Values::reals},    {3, 1000, 4, 5, Values::near_clones}, {1, 8800, 1, 4200, Values::integers},
    {3, 0, 5, 2, Values::reals},        {0, 20, 5, 2, Values::reals},
};

// Any finite double, subnormal or huge.
double random_double() {
    const double size = std::ldexp(1.0 + random_real(), static_cast<int>(below(2098)) - 1074);
    return std::isfinite(size) && below(20) != 0 ? (below(2) == 0 ? size : -size) : 0.0;
}

// Exact arithmetic of one column is what the processor rounds once; more columns that cancel leave it.
void run_exact_values() {
    for (int round = 0; round < 20000; ++round) {
        const Case at = {1, 1, 5, 1, Values::reals};
        const double a = random_double(), b = random_double(), c = random_double(), e = random_double();
        const Tight<int32_t> exponents(1);
        Tight<double> x(5), y(5);
        x[0] = a, x[1] = c, x[2] = e, x[3] = c, x[4] = e;
        y[0] = b, y[1] = e, y[2] = c, y[3] = -e, y[4] = -c;
        const ExactRows queries = {x.data(), true, 1, 5, exponents.data(), nullptr, nullptr};
        const ExactRows docs = {y.data(), true, 1, 5, exponents.data(), nullptr, nullptr};
        const ExactRows one = {x.data(), true, 1, 1, exponents.data(), nullptr, nullptr};
        const ExactRows other = {y.data(), true, 1, 1, exponents.data(), nullptr, nullptr};
        require(exact_score(Metric::dot, queries, 0, docs, 0) == a * b, "exact dot product", at);
        require(exact_score(Metric::l2, queries, 0, queries, 0) == 0.0, "exact distance", at);
        const double sign = a == 0.0 || b == 0.0 ? 0.0 : (a < 0) == (b < 0) ? 1.0 : -1.0;
        require(exact_score(Metric::cosine, one, 0, other, 0) == sign, "exact cosine", at);
        y[0] = 0.0;
        require(exact_score(Metric::l2, one, 0, other, 0) == -(a * a), "exact square", at);
    }
}

}  // namespace

int main() {
    run_exact_values();
    for (const Case& at : kCases) run_all_types(at);
    for (int round = 0; round < 20; ++round) {
        run_all_types({1 + below(31), 1 + below(140), 1 + below(40), 1 + below(60), static_cast<Values>(below(5))});
    }
    std::printf("%zu and %zu rows at a time, %016llx: ok\n", search_kernels().query_rows, coarse_kernels().query_rows,
                static_cast<unsigned long long>(digest));
    return 0;
}

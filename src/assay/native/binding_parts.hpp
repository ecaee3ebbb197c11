// The parts of the Python face that have sources of their own.
#pragma once

#include <nanobind/nanobind.h>

namespace assay {

void bind_hamming(nanobind::module_& module);
void bind_objects(nanobind::module_& module);
void bind_score_ranks(nanobind::module_& module);
void bind_search(nanobind::module_& module);

}  // namespace assay

// The part of the Python face that belongs to the exact search.
#pragma once

#include <nanobind/nanobind.h>

namespace assay {

void bind_search(nanobind::module_& module);

}  // namespace assay

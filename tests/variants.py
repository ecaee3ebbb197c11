"""Tests of many alike variants: every n-th runs by default, and the others with `-m slow`.

A step that shares no factor with the number of choices of a parameter still tries each choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import pytest

EVERY = {
    "benchmarks/test_headlines.py::test_both_sides_of_a_figure_run": 3,
    "cli/test_compare.py::test_a_copy_of_the_baseline_passes_every_gate": 7,
    "cli/test_signatures.py::test_another_number_has_another_signature": 3,
    "cluster/test_flow.py::test_no_more_is_held_than_stated": 3,
    "codes/test_quantisers.py::test_the_size_of_the_numbers_changes_nothing": 5,
    "comparison/test_compare.py::test_robust_runs_agree_with_the_statistics": 2,
    "comparison/test_gate.py::test_the_least_margin_is_the_least_that_equal_scores_show": 7,
    "comparison/test_gate.py::test_the_scores_of_the_baseline_pass": 7,
    "comparison/test_looks.py::test_the_bound_of_a_margin_never_contradicts_its_test": 3,
    "crossmodal/test_crossmodal.py::test_every_direction_agrees_with_brute_force": 3,
    "inspect/test_explain.py::test_ends_in_the_number_of_evaluate": 3,
    "integrations/test_action.py::test_the_documented_action_on_every_kind_of_run": 3,
    "integrations/test_action.py::test_the_documented_script_on_every_kind_of_run": 2,
    "io/test_plain_data.py::test_larger_dictionaries_of_both_engines": 7,
    "io/test_trec_text.py::test_real_runs": 3,
    "judging/test_holes.py::test_differences_have_the_bounds_of_all_judgments": 3,
    "judging/test_holes.py::test_one_system_has_the_bounds_of_all_judgments": 3,
    "measures/test_ties.py::test_labels_under_ties": 3,
    "measures/test_ties.py::test_the_tie_share_counts_queries_whose_value_depends_on_ties": 3,
    "measures/test_ties.py::test_worst_expected_best_are_in_order": 3,
    "native/test_canonical.py::test_canonical_scores_rank_as_the_oracle": 5,
    "native/test_canonical.py::test_rounding_keeps_the_exact_order": 5,
    "native/test_canonical.py::test_scores_are_the_exact_values_rounded_once": 5,
    "native/test_float_scores.py::test_awkward_floats_score_exactly_in_any_order": 7,
    "native/test_hamming.py::test_nearest_equal_a_loop_over_bits": 5,
    "peers/test_scikit_learn.py::test_ndcg_score": 4,
    "prediction/test_score_kinds.py::test_a_softmax_in_any_precision_is_probabilities": 4,
    "prediction/test_score_kinds.py::"
    "test_one_odd_row_is_an_error_with_the_row_and_a_remark_when_stated": 3,
    "prediction/test_score_kinds.py::test_the_size_of_blocks_changes_nothing": 3,
    "properties/test_same_predictions.py::test_the_same_is_said": 3,
    "properties/test_same_runs.py::test_the_same_is_said": 3,
    "properties/test_same_texts.py::test_the_same_is_said": 3,
    "properties/test_same_vectors.py::test_the_same_is_said": 3,
    "scoring/test_absent_documents.py::test_every_measure_under_every_convention": 5,
    "scoring/test_same_number.py::test_written_and_read_in_every_format": 5,
    "search/engine/test_coarse.py::test_what_is_left_over_is_never_more_than_stated": 5,
    "search/engine/test_floors.py::test_what_reaches_the_floor_is_found": 5,
    "search/engine/test_hostile.py::test_hostile_input_is_ranked_as_exact_arithmetic_ranks_it": 5,
    "search/engine/test_inputs.py::test_any_memory_layout_gives_the_same_ranking": 5,
    "search/engine/test_prepared.py::test_every_type_and_metric": 7,
    "search/engine/test_rank_exact.py::test_blocks_of_documents_give_the_same_lists": 5,
    "search/engine/test_rank_exact.py::test_rank_equals_exact_arithmetic": 5,
    "search/engine/test_rerank.py::test_scores_and_order_are_those_of_a_search": 5,
    "search/engine/test_same_bytes.py::test_a_large_cluster_of_equal_documents": 5,
    "search/engine/test_same_bytes.py::test_any_blocks_give_the_same_bytes": 3,
    "search/engine/test_same_bytes.py::test_other_types_in_blocks_and_windows": 5,
    "search/engine/test_target_ranks_exact.py::test_target_ranks_equal_exact_arithmetic": 5,
    "search/engine/test_target_ranks_exact.py::"
    "test_the_rank_of_a_target_is_its_place_in_the_list": 5,
    "search/engine/test_wide.py::test_the_same_answers_as_for_few_queries": 4,
    "search/indexes/test_engines.py::test_exhaustive_engines_answer_as_exact_search_does": 5,
    "search/test_neighbours.py::test_overlap_is_what_all_orders_of_tied_documents_give": 5,
    "stats/test_corrections.py::test_adjusted_p_is_statsmodels": 3,
    "stats/test_intervals.py::test_means_near_a_bound_are_covered": 4,
    "store/test_digests.py::test_every_change_is_named": 4,
    "store/test_import_numbers.py::test_numbers_beyond_bounds": 5,
    "store/test_round_trip.py::test_conventions_come_back": 5,
    "store/test_round_trip.py::test_every_bit_comes_back": 5,
    "store/test_round_trip.py::test_what_is_imported_is_exported_as_it_was": 5,
    "store/test_settings.py::test_the_signature_travels_in_every_format": 5,
    "test_newcomers_day.py::test_a_column_of_the_standings_is_one_line": 3,
    "test_tensors.py::test_tensors_give_what_arrays_give": 3,
    "verify/test_command.py::test_what_an_exported_run_says_of_itself_counts": 3,
    "verify/test_edits.py::test_every_edit_of_data_is_noticed": 4,
    "verify/test_edits.py::test_thousands_of_edits_are_told_apart": 4,
    "vision/test_descriptors.py::test_angles_go_around": 5,
    "vision/test_descriptors.py::test_any_descriptor_takes_any_keypoints": 3,
    "vision/test_descriptors.py::test_strange_keypoints_never_crash": 5,
    "vision/test_once.py::test_values_are_added_while_others_are_forgotten": 3,
    "web/test_parameters.py::test_no_value_makes_a_page_fail": 3,
}


class _Item(Protocol):
    nodeid: str

    def add_marker(self, marker: pytest.MarkDecorator) -> None: ...
    def get_closest_marker(self, name: str) -> object: ...


def thin_variants(items: Iterable[_Item]) -> Counter[str]:
    """Mark all but every n-th variant as slow; return how many there are of each test."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0].removeprefix("tests/")
        step = EVERY.get(test)
        if step and not item.get_closest_marker("slow"):
            if seen[test] % step:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
    return seen

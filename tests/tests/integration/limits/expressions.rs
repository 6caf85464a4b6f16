//! Expressions and tests: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "an evaluation: all expressions",
        elsewhere(
            &[
                ("crates/value/src/budget.rs", "full_and_inline_budgets_have_the_documented_limits"),
                ("crates/expression/src/tests.rs", "an_expression_that_would_grow_without_bound_is_stopped"),
                (
                    "crates/expression/tests/hostile.rs",
                    "no_expression_over_a_hostile_body_exceeds_its_budget",
                ),
            ],
            &[],
        ),
    ),
    (
        "an evaluation on a shared thread",
        elsewhere(
            &[
                ("crates/value/src/budget.rs", "full_and_inline_budgets_have_the_documented_limits"),
                ("crates/allocator/src/large_work.rs", "large_work_uses_at_most_its_number_of_threads"),
            ],
            &[("crates/runtime/src/evaluator.rs", "let count = processors.saturating_sub(1).max(1);")],
        ),
    ),
    (
        "the condition of a trigger",
        elsewhere(
            &[
                ("crates/engine/tests/suite/limits.rs", "a_trigger_condition_times_out_after_one_second"),
                (
                    "crates/engine/tests/suite/evaluations.rs",
                    "a_trigger_condition_over_its_budget_gets_400_condition_too_costly",
                ),
            ],
            &[],
        ),
    ),
    (
        "the `key` of `concurrency`",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_concurrency_key_has_the_budget_of_a_short_evaluation",
            )],
            &[],
        ),
    ),
    (
        "consecutive pure steps before a commit",
        elsewhere(
            &[
                ("crates/engine/tests/suite/evaluations.rs", "many_short_steps_yield_to_other_tasks"),
                ("crates/engine/tests/suite/durability.rs", "an_execution_of_pure_steps_is_one_write"),
            ],
            &[("crates/runtime/src/run/evaluate.rs", "const YIELD_WORK: u64 = 2_000_000;")],
        ),
    ),
    (
        "a pattern of the [functions]",
        elsewhere(
            &[
                (
                    "crates/expression/src/functions/tests/patterns.rs",
                    "a_pattern_that_cannot_be_used_is_an_error_before_evaluation",
                ),
                (
                    "crates/expression/src/functions/tests/patterns.rs",
                    "the_searches_of_a_pattern_are_charged",
                ),
            ],
            &[],
        ),
    ),
    (
        "an [exact number]",
        elsewhere(&[("crates/value/src/decimal.rs", "a_decimal_has_at_most_38_digits")], &[]),
    ),
    (
        "months of a duration",
        elsewhere(&[("crates/text/src/units.rs", "a_duration_with_months_has_no_fixed_length")], &[]),
    ),
    (
        "text with expressions",
        elsewhere(&[("crates/expression/src/template.rs", "a_rendered_text_is_bounded")], &[]),
    ),
    (
        "a [file on disk]",
        elsewhere(
            &[
                (
                    "crates/server/tests/http/uploads.rs",
                    "bytes_needed_in_memory_are_loaded_up_to_a_limit_named_in_the_error",
                ),
                (
                    "crates/engine/tests/suite/large_files.rs",
                    "code_reads_file_bytes_up_to_a_limit_and_metadata_of_any_file",
                ),
            ],
            &[
                ("crates/value/src/data.rs", "pub const MAX_LOADED_BYTES: usize = 16 << 20;"),
                ("crates/script/src/protocol/value.rs", "const MOST_KEPT: usize = 6 << 20;"),
            ],
        ),
    ),
    (
        "a JSON, XML or CSV text parsed by a function",
        elsewhere(
            &[
                (
                    "crates/expression/src/functions/tests/data.rs",
                    "invalid_json_is_reported_with_its_location",
                ),
                ("crates/expression/src/functions/tests/data.rs", "invalid_xml_is_reported_with_its_line"),
                (
                    "crates/expression/src/functions/tests/data.rs",
                    "csv_that_does_not_match_its_header_is_reported_with_its_line",
                ),
                (
                    "crates/expression/src/functions/tests/data.rs",
                    "a_parsed_csv_is_bounded_in_cells_and_rows",
                ),
            ],
            &[
                ("crates/expression/src/functions/mod.rs", "const MAX_NODES: usize = 250_000;"),
                ("crates/expression/src/functions/mod.rs", "const MAX_DEPTH: usize = 64;"),
            ],
        ),
    ),
    (
        "the [functions]",
        elsewhere(
            &[
                ("crates/expression/src/functions/tests/data.rs", "a_generated_csv_is_bounded_in_bytes"),
                (
                    "crates/expression/src/functions/tests/mod.rs",
                    "the_work_of_all_functions_of_an_expression_is_bounded",
                ),
            ],
            &[],
        ),
    ),
    (
        "a pattern of `match` and `search`",
        elsewhere(
            &[(
                "crates/expression/src/tests.rs",
                "a_jsonpath_pattern_over_the_compiled_size_limit_matches_nothing",
            )],
            &[("crates/expression/src/jsonpath/evaluation.rs", "const PATTERN_MEMORY: usize = 1 << 20;")],
        ),
    ),
    (
        "tests of a file",
        elsewhere(
            &[("crates/language/src/load/test_suite/tests.rs", "the_number_of_tests_of_a_file_is_bounded")],
            &[],
        ),
    ),
    (
        "real time that one test may take",
        elsewhere(
            &[("crates/engine/tests/suite/trials.rs", "a_test_over_its_time_limit_is_stopped_and_fails")],
            &[("crates/testing/src/runner.rs", "const MAX_TEST_TIME: Duration = Duration::from_secs(60);")],
        ),
    ),
    (
        "a recording",
        elsewhere(
            &[
                ("crates/connector/src/http/cassette/tests.rs", "a_recording_is_bounded_in_exchanges"),
                ("crates/catalog/src/project_dir/tests.rs", "a_file_over_the_read_limit_is_an_error"),
            ],
            &[
                ("crates/connector/src/http/cassette/mod.rs", "const MAX_EXCHANGES: usize = 10_000;"),
                ("crates/cli/src/commands/test/cassettes.rs", "const MAX_BYTES: u64 = 64 << 20;"),
            ],
        ),
    ),
];

//! Executions: the rows that tests elsewhere try.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "running at the same time",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_thousand_executions_run_and_a_synchronous_one_more_is_refused",
            )],
            &[],
        ),
    ),
    (
        "accepted and waiting to start",
        elsewhere(
            &[(
                "crates/engine/tests/suite/hooks.rs",
                "over_the_limits_a_caller_is_refused_before_anything_is_accepted",
            )],
            &[("crates/runtime/src/settings.rs", "queue: 100_000,")],
        ),
    ),
    (
        "an execution |",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "a_file_without_a_timeout_has_a_quarter_of_an_hour")],
            &[],
        ),
    ),
    (
        "`onError` and `finally` of the file",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "the_closing_steps_have_five_minutes")],
            &[(
                "crates/runtime/src/run/mod.rs",
                "const CLOSING_TIMEOUT: Duration = Duration::from_secs(300);",
            )],
        ),
    ),
    (
        "result of a step, of a `set`",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/limits.rs",
                    "a_result_has_sixteen_mebibytes_and_the_variables_together_four_times_as_much",
                ),
                (
                    "crates/engine/tests/suite/evaluations.rs",
                    "the_results_that_a_loop_gathers_are_held_to_the_limit_of_one_result",
                ),
            ],
            &[],
        ),
    ),
    (
        "values of `set` that an execution holds",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_result_has_sixteen_mebibytes_and_the_variables_together_four_times_as_much",
            )],
            &[],
        ),
    ),
    (
        "[large values]",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/evaluations.rs",
                    "an_execution_waits_until_there_is_room_for_its_large_values",
                ),
                (
                    "tests/tests/integration/memory.rs",
                    "executions_with_large_data_wait_for_memory_and_hold_up_no_small_one",
                ),
            ],
            &[
                ("crates/runtime/src/settings.rs", "memory: 64 << 20,"),
                ("crates/runtime/src/context.rs", "memory: Memory::new(settings.limits.memory / 2),"),
            ],
        ),
    ),
    (
        "iterations of a loop",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "a_loop_has_a_maximum_of_iterations")],
            &[("crates/runtime/src/settings.rs", "loop_turns: 1_000_000,")],
        ),
    ),
    (
        "nested `call` steps",
        elsewhere(&[("crates/engine/tests/suite/limits.rs", "calls_nest_32_levels_deep")], &[]),
    ),
    (
        "[spans]",
        elsewhere(
            &[
                (
                    "crates/telemetry/src/spans/tests.rs",
                    "an_execution_of_any_length_has_a_bounded_number_of_spans",
                ),
                (
                    "crates/telemetry/src/spans/tests.rs",
                    "a_span_has_a_maximum_of_events_and_an_execution_of_links",
                ),
            ],
            &[
                ("crates/telemetry/src/spans/mod.rs", "const MAX_SPANS: usize = 10_000;"),
                ("crates/telemetry/src/spans/mod.rs", "const MAX_PARTS: usize = 128;"),
            ],
        ),
    ),
    (
        "ended executions, and log records, that wait for a collector",
        elsewhere(
            &[
                (
                    "crates/telemetry/src/logs.rs",
                    "what_does_not_fit_into_the_queue_is_counted_and_what_the_export_itself_logs_is_left_out",
                ),
                ("crates/telemetry/src/config.rs", "an_endpoint_turns_signals_on_and_none_turns_one_off"),
            ],
            &[("crates/telemetry/src/config.rs", ".unwrap_or(2048);")],
        ),
    ),
    (
        "the page of an approval",
        elsewhere(
            &[
                ("crates/server/src/resume/page/strings.rs", "the_first_line_of_a_message_is_its_heading"),
                ("crates/server/tests/http/resume.rs", "a_page_shows_at_most_fifty_approvals"),
            ],
            &[("crates/server/src/resume/page/strings.rs", "const MAX_SHOWN: usize = 10_000;")],
        ),
    ),
    (
        "event streams at one time",
        elsewhere(
            &[
                ("crates/server/tests/http/streams.rs", "the_number_of_streams_is_bounded"),
                (
                    "crates/server/src/admin/operations/stream/topic.rs",
                    "topics_are_parsed_and_unknown_ones_rejected",
                ),
            ],
            &[
                ("crates/server/src/admin/api.rs", "const STREAMS: usize = 64;"),
                ("crates/server/src/admin/operations/stream/topic.rs", "const MOST: usize = 32;"),
            ],
        ),
    ),
    (
        "news kept for streams that come back",
        elsewhere(
            &[
                (
                    "crates/server/src/admin/operations/stream/hub.rs",
                    "a_thousand_messages_are_kept_until_a_minute_without_subscribers",
                ),
                (
                    "crates/server/src/admin/operations/stream/hub.rs",
                    "the_backlog_is_bounded_and_a_slow_stream_learns_that_it_missed_events",
                ),
            ],
            &[
                ("crates/server/src/admin/operations/stream/hub.rs", "const MOST_MESSAGES: usize = 1000;"),
                ("crates/server/src/admin/operations/stream/hub.rs", "const MOST_WEIGHT: usize = 20_000;"),
            ],
        ),
    ),
    (
        "search for executions by what has no index",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "a_search_ends_when_its_time_is_over")],
            &[
                (
                    "crates/server/src/admin/executions/execution_list.rs",
                    "const SEARCH_TIME: Duration = Duration::from_secs(1);",
                ),
                (
                    "crates/cli/src/commands/executions/list.rs",
                    "const SEARCH_TIME: Duration = Duration::from_secs(30);",
                ),
            ],
        ),
    ),
    (
        "answers of people that the inbox shows",
        elsewhere(
            &[("crates/runtime/src/answers.rs", "the_answers_that_are_kept_are_bounded_and_newest_first")],
            &[("crates/runtime/src/answers.rs", "pub const MAX_ANSWERS: usize = 100;")],
        ),
    ),
    (
        "refused requests that are shown",
        elsewhere(
            &[
                ("crates/runtime/src/refusals.rs", "the_latest_hundred_are_kept_newest_first"),
                ("crates/runtime/src/refusals.rs", "the_refusals_of_all_automations_are_bounded"),
            ],
            &[("crates/runtime/src/refusals.rs", "const MAX_TOTAL: usize = 20_000;")],
        ),
    ),
    (
        "statistics of executions",
        elsewhere(
            &[
                (
                    "crates/runtime/src/statistics.rs",
                    "old_hours_and_automations_that_are_gone_take_no_memory",
                ),
                (
                    "crates/runtime/src/statistics.rs",
                    "beyond_the_maximum_of_hours_the_oldest_hour_of_all_automations_goes",
                ),
            ],
            &[
                ("crates/runtime/src/statistics.rs", "pub const MAX_WINDOW_HOURS: u32 = 7 * 24;"),
                ("crates/runtime/src/statistics.rs", "const MAX_HOURS: usize = 250_000;"),
                ("crates/runtime/src/statistics.rs", "const RESTORED_HOURS: i64 = 24;"),
                ("crates/runtime/src/statistics.rs", "const MAX_RESTORED: usize = 50_000;"),
            ],
        ),
    ),
    (
        "requests to a resume address",
        elsewhere(
            &[
                (
                    "crates/server/tests/http/resume.rs",
                    "a_resume_body_over_64_kib_is_rejected_before_it_is_read",
                ),
                ("crates/server/tests/http/resume.rs", "resume_requests_over_the_rate_limit_get_retry_after"),
                (
                    "crates/server/src/resume/rate_limit.rs",
                    "after_a_burst_requests_are_limited_to_ten_per_second",
                ),
            ],
            &[],
        ),
    ),
    (
        "events that the `if` of one pause rejects",
        elsewhere(
            &[(
                "crates/runtime/src/run/journal/pauses.rs",
                "a_wait_takes_a_maximum_of_events_that_do_not_end_it",
            )],
            &[("crates/runtime/src/run/journal/pauses.rs", "const MAX_SIGNALS: usize = 1000;")],
        ),
    ),
    (
        "events that are kept for later waits",
        elsewhere(
            &[
                (
                    "crates/runtime/src/admission/recent_events.rs",
                    "events_from_outside_leave_room_for_those_of_executions_until_they_are_over",
                ),
                (
                    "crates/engine/tests/suite/limits.rs",
                    "only_an_event_below_a_mebibyte_is_kept_for_later_waits",
                ),
            ],
            &[
                ("crates/runtime/src/admission/recent_events.rs", "Self::Execution => 64 << 20,"),
                ("crates/store/src/types/state.rs", "pub const MAX_VALUE_BYTES: usize = 1 << 20;"),
            ],
        ),
    ),
    (
        "daemon crashes while one execution",
        elsewhere(
            &[(
                "crates/engine/tests/suite/durability.rs",
                "a_step_that_computed_whenever_the_process_died_is_set_aside_as_stuck",
            )],
            &[],
        ),
    ),
    (
        "line of an execution's log",
        elsewhere(
            &[
                ("crates/script/tests/suite/contract.rs", "log_lines_are_bounded_in_length_and_number"),
                ("crates/model/src/log.rs", "a_line_has_a_maximum_of_characters"),
                (
                    "crates/engine/tests/suite/hiding.rs",
                    "what_code_logs_and_throws_is_cut_after_secrets_are_hidden_in_it",
                ),
            ],
            &[("crates/model/src/log.rs", "pub const MAX_CHARS: usize = 4096;")],
        ),
    ),
    (
        "address of a call in the history",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "an_address_in_the_history_has_300_characters")],
            &[],
        ),
    ),
    (
        "open waits of an execution",
        elsewhere(
            &[("crates/store/src/codec/rows.rs", "the_open_waits_of_an_execution_are_bounded")],
            &[("crates/store/src/types/wait.rs", "pub const MAX: usize = 10_000;")],
        ),
    ),
    (
        "a value of the state",
        elsewhere(
            &[
                ("crates/store/src/conformance/state.rs", "bounded"),
                ("crates/store-sqlite/tests/sqlite/conformance.rs", "sqlite_passes_the_conformance_suite"),
            ],
            &[("crates/store/src/types/state.rs", "pub const MAX_VALUE_BYTES: usize = 1 << 20;")],
        ),
    ),
    (
        "values of the state changed in one write",
        elsewhere(
            &[
                ("crates/store/src/conformance/state.rs", "bounded"),
                ("crates/store-sqlite/tests/sqlite/conformance.rs", "sqlite_passes_the_conformance_suite"),
            ],
            &[("crates/store/src/types/state.rs", "pub const MAX_AT_ONCE: usize = 1000;")],
        ),
    ),
    (
        "pending OAuth consents",
        elsewhere(
            &[(
                "crates/engine/tests/suite/connections.rs",
                "a_hundred_consents_are_pending_at_one_time_each_for_ten_minutes",
            )],
            &[],
        ),
    ),
    (
        "secrets that are [redacted]",
        elsewhere(
            &[
                ("crates/value/src/redact/tests.rs", "a_short_secret_is_not_redacted"),
                ("crates/value/src/redact/tests.rs", "a_recently_used_secret_is_not_evicted_by_newer_ones"),
            ],
            &[
                ("crates/value/src/redact/mod.rs", "const MIN_SECRET_BYTES: usize = 8;"),
                ("crates/value/src/redact/mod.rs", "const MAX_SECRETS: usize = 1000;"),
            ],
        ),
    ),
    (
        "stored secrets, including tokens of connections",
        elsewhere(
            &[(
                "crates/runtime/src/vault/tests.rs",
                "a_vault_has_a_maximum_of_secrets_and_of_the_bytes_of_one",
            )],
            &[("crates/runtime/src/vault/mod.rs", "const MAX_ROWS: usize = StateWrite::MAX_AT_ONCE;")],
        ),
    ),
    (
        "retention of finished executions",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/retention.rs",
                    "a_file_says_how_long_and_how_many_of_its_executions_are_kept",
                ),
                (
                    "crates/engine/tests/suite/retention.rs",
                    "without_a_rule_executions_are_kept_for_a_fortnight",
                ),
                ("crates/engine/src/retention.rs", "age_count_and_outcome_each_have_their_say"),
            ],
            &[],
        ),
    ),
    (
        "the store |",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/retention.rs",
                    "where_the_size_runs_out_the_oldest_that_ended_go_and_new_ones_are_taken",
                ),
                (
                    "crates/engine/tests/suite/retention.rs",
                    "where_nothing_can_go_new_ones_are_refused_until_something_has_ended",
                ),
                (
                    "crates/store-sqlite/tests/sqlite/budget.rs",
                    "a_nearly_full_store_rejects_starts_and_lets_running_executions_end",
                ),
            ],
            &[
                ("crates/store-sqlite/src/usage.rs", "if used >= most - most / 20 {"),
                ("crates/store-sqlite/src/usage.rs", "if used >= most - most / 10 {"),
                ("crates/store-postgres/src/usage.rs", "if used >= most - most / 20 {"),
                ("crates/store-postgres/src/usage.rs", "if used >= most - most / 10 {"),
            ],
        ),
    ),
    (
        "the log of the store, in addition",
        elsewhere(
            &[("crates/store-sqlite/tests/sqlite/files.rs", "the_wal_stays_bounded_under_continuous_load")],
            &[
                ("crates/store-sqlite/src/settings.rs", "const WAL_SIZE_LIMIT: i64 = 32 << 20;"),
                ("crates/store-sqlite/src/checkpoint.rs", "const CEILING: u32 = 2 * Self::STEP;"),
                ("crates/store-sqlite/src/checkpoint.rs", "const STEP: u32 = 4096;"),
            ],
        ),
    ),
    (
        "a store on PostgreSQL",
        elsewhere(
            &[
                (
                    "crates/store-postgres/tests/postgres/main.rs",
                    "new_executions_are_rejected_while_a_write_waits_for_a_foreign_lock",
                ),
                (
                    "crates/store-postgres/tests/postgres/main.rs",
                    "a_batch_reads_only_its_own_rows_despite_stale_statistics",
                ),
                ("crates/store/src/outage.rs", "only_an_unreachable_database_gets_a_grace_period"),
            ],
            &[
                ("crates/store-postgres/src/node.rs", "const LANES: i16 = 2;"),
                ("crates/store-postgres/src/reader.rs", "const READERS: usize = 4;"),
                ("crates/store-postgres/src/queue.rs", "const BATCH_WRITES: usize = 512;"),
                ("crates/store-postgres/src/queue.rs", "const BATCH_BYTES: usize = 8 << 20;"),
                ("crates/store-postgres/src/queue.rs", "const QUEUE_BYTES: usize = 64 << 20;"),
                ("crates/store/src/outage.rs", "pub const GRACE: Duration = Duration::from_secs(2);"),
                (
                    "crates/store-postgres/src/reader.rs",
                    "const PATIENCE: Duration = Duration::from_secs(30);",
                ),
            ],
        ),
    ),
    (
        "a value inside the file of the store",
        elsewhere(
            &[(
                "crates/store-sqlite/tests/sqlite/blobs.rs",
                "values_below_the_default_blob_size_stay_in_the_database",
            )],
            &[("crates/store/src/options.rs", "pub const BLOB_BYTES: usize = 64 << 10;")],
        ),
    ),
    (
        "events, log lines and state in one write",
        elsewhere(
            &[("crates/store-sqlite/src/queue.rs", "a_write_larger_than_the_queue_is_rejected")],
            &[
                ("crates/store-sqlite/src/queue.rs", "const QUEUE_BYTES: usize = 64 << 20;"),
                ("crates/store-postgres/src/queue.rs", "const QUEUE_BYTES: usize = 64 << 20;"),
            ],
        ),
    ),
];

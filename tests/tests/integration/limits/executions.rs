//! Executions: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "running at the same time",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_thousand_executions_run_at_once_and_another_synchronous_one_gets_429",
            )],
            &[],
        ),
    ),
    (
        "accepted and waiting to start",
        elsewhere(
            &[(
                "crates/engine/tests/suite/hooks.rs",
                "a_caller_over_the_limits_is_refused_before_acceptance",
            )],
            &[("crates/runtime/src/settings.rs", "queue: 100_000,")],
        ),
    ),
    (
        "an execution |",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "the_default_execution_timeout_is_15_minutes")],
            &[],
        ),
    ),
    (
        "`onError` of the file, each `finally` and each `undo`",
        elsewhere(
            &[
                ("crates/engine/tests/suite/limits.rs", "finally_steps_time_out_after_five_minutes"),
                (
                    "crates/engine/tests/suite/closing.rs",
                    "closing_steps_that_pause_have_five_minutes_over_restarts",
                ),
            ],
            &[(
                "crates/runtime/src/run/closing.rs",
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
                    "a_result_has_at_most_16_mib_and_the_variables_together_64_mib",
                ),
                (
                    "crates/engine/tests/suite/evaluations.rs",
                    "the_collected_results_of_a_loop_obey_the_result_limit",
                ),
            ],
            &[],
        ),
    ),
    (
        "`data` of an error",
        elsewhere(
            &[("crates/engine/tests/suite/own_errors.rs", "a_fail_with_keys_gives_the_error_its_fields")],
            &[("crates/model/src/automation/verbs.rs", "pub const MAX_DATA: usize = 64 << 10;")],
        ),
    ),
    (
        "values of `set` that an execution holds",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_result_has_at_most_16_mib_and_the_variables_together_64_mib",
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
                    "an_execution_waits_for_memory_for_its_large_values",
                ),
                (
                    "tests/tests/integration/memory.rs",
                    "executions_with_large_data_wait_for_memory_and_block_no_small_ones",
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
                ("crates/telemetry/src/spans/tests.rs", "the_number_of_spans_of_an_execution_is_bounded"),
                (
                    "crates/telemetry/src/spans/tests.rs",
                    "the_events_of_a_span_and_the_links_of_an_execution_are_bounded",
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
                    "records_over_the_queue_limit_are_counted_and_logs_of_the_exporter_ignored",
                ),
                ("crates/telemetry/src/config.rs", "an_endpoint_enables_signals_and_none_disables_one"),
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
            &[("crates/engine/tests/suite/limits.rs", "a_search_ends_at_its_time_limit")],
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
            &[("crates/runtime/src/answers.rs", "kept_answers_are_bounded_and_newest_first")],
            &[("crates/runtime/src/answers.rs", "pub const MAX_ANSWERS: usize = 100;")],
        ),
    ),
    (
        "refused requests that are shown",
        elsewhere(
            &[
                ("crates/ingress/src/refusals.rs", "the_latest_hundred_refusals_are_kept_newest_first"),
                ("crates/ingress/src/refusals.rs", "the_refusals_of_all_automations_are_bounded"),
            ],
            &[("crates/ingress/src/refusals.rs", "const MAX_TOTAL: usize = 20_000;")],
        ),
    ),
    (
        "statistics of executions",
        elsewhere(
            &[
                ("crates/runtime/src/statistics.rs", "old_hours_and_removed_automations_take_no_memory"),
                (
                    "crates/runtime/src/statistics.rs",
                    "the_oldest_hour_of_all_automations_is_dropped_over_the_maximum",
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
                    "crates/runtime/src/recent_events.rs",
                    "external_events_leave_space_for_events_of_executions_until_they_expire",
                ),
                (
                    "crates/engine/tests/suite/limits.rs",
                    "only_an_event_below_a_mebibyte_is_kept_for_later_waits",
                ),
            ],
            &[
                ("crates/runtime/src/recent_events.rs", "Self::Execution => 64 << 20,"),
                ("crates/store/src/types/state.rs", "pub const MAX_VALUE_BYTES: usize = 1 << 20;"),
            ],
        ),
    ),
    (
        "`since` of a",
        elsewhere(
            &[(
                "crates/language/src/load/tests/steps.rs",
                "a_wait_for_an_event_may_look_back_and_end_at_an_instant",
            )],
            &[(
                "crates/model/src/automation/verbs.rs",
                "pub const MAX_SINCE: Duration = Duration::from_secs(7 * 86_400);",
            )],
        ),
    ),
    (
        "triggers of one",
        elsewhere(
            &[("crates/authoring/src/validate/tests.rs", "one_event_starts_at_most_a_hundred_triggers")],
            &[("crates/model/src/automation/trigger.rs", "pub const MAX_PER_NAME: usize = 100;")],
        ),
    ),
    (
        "data of an own event that starts a trigger",
        elsewhere(
            &[(
                "crates/engine/tests/suite/own_events.rs",
                "data_of_more_than_1_mib_start_nothing_and_the_step_fails",
            )],
            &[("crates/runtime/src/outbox.rs", "const MAX_DATA: usize = 1 << 20;")],
        ),
    ),
    (
        "own events on their way",
        elsewhere(
            &[(
                "crates/engine/tests/suite/own_events.rs",
                "a_step_fails_that_sends_more_events_than_can_be_under_way",
            )],
            &[("crates/store/src/types/outbox.rs", "pub const MAX: u64 = 1_000_000;")],
        ),
    ),
    (
        "time in which an own event can be delivered",
        elsewhere(
            &[(
                "crates/engine/tests/suite/own_events.rs",
                "an_event_that_no_trigger_could_take_for_7_days_is_dropped",
            )],
            &[(
                "crates/ingress/src/outbox/lane.rs",
                "const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 7);",
            )],
        ),
    ),
    (
        "time in which the id of an own event that a program sends is known",
        elsewhere(
            &[(
                "crates/engine/tests/suite/own_events.rs",
                "an_event_that_is_sent_again_under_its_id_starts_once",
            )],
            &[(
                "crates/runtime/src/outbox.rs",
                "const KNOWN: SignedDuration = SignedDuration::from_hours(24 * 37);",
            )],
        ),
    ),
    (
        "texts of an error that [`cogwork.failure`]",
        elsewhere(
            &[(
                "crates/engine/tests/suite/other_failures.rs",
                "a_failure_with_long_texts_ends_its_execution_and_is_told_with_their_begin",
            )],
            &[("crates/runtime/src/engine_events.rs", "const MAX_ERROR_TEXT: usize = 4 << 10;")],
        ),
    ),
    (
        "time in which [own events](own-events.md) and [events of the engine](engine-events.md) wait for a trigger that is not in force",
        elsewhere(
            &[(
                "crates/engine/tests/suite/moved_triggers.rs",
                "events_of_a_trigger_that_is_not_in_force_wait_some_minutes_for_it",
            )],
            &[(
                "crates/ingress/src/outbox/mod.rs",
                "const FORSAKEN: SignedDuration = SignedDuration::from_mins(10);",
            )],
        ),
    ),
    (
        "executions that all triggers on [events of the engine]",
        elsewhere(
            &[(
                "crates/ingress/src/outbox/engine/mod.rs",
                "no_more_start_than_there_is_room_and_the_last_stands_for_the_rest",
            )],
            &[("crates/ingress/src/outbox/engine/mod.rs", "pub(crate) const MAX_STARTS: usize = 600;")],
        ),
    ),
    (
        "failures that one of them stands for",
        elsewhere(
            &[("crates/ingress/src/outbox/engine/merge.rs", "a_full_group_leaves_further_rows")],
            &[("crates/ingress/src/outbox/engine/merge.rs", "const MAX_ROWS: usize = 10_000;")],
        ),
    ),
    (
        "`after` of `cogwork.failure`",
        elsewhere(
            &[(
                "crates/engine/tests/suite/engine_events.rs",
                "mistakes_in_the_inputs_of_an_engine_event_are_reported",
            )],
            &[("crates/model/src/engine_event.rs", "pub const MAX_AFTER: u32 = 1000;")],
        ),
    ),
    (
        "`within` of `cogwork.missing`",
        elsewhere(
            &[(
                "crates/engine/tests/suite/engine_events.rs",
                "mistakes_in_the_inputs_of_an_engine_event_are_reported",
            )],
            &[(
                "crates/model/src/engine_event.rs",
                "pub const MAX_EVENT_SILENCE: Duration = Duration::from_secs(7 * 86_400);",
            )],
        ),
    ),
    (
        "daemon crashes while one execution",
        elsewhere(
            &[(
                "crates/engine/tests/suite/durability.rs",
                "a_step_that_computes_at_every_crash_is_marked_stuck",
            )],
            &[],
        ),
    ),
    (
        "line of an execution's log",
        elsewhere(
            &[
                ("crates/script/tests/suite/contract.rs", "log_lines_are_bounded_in_length_and_number"),
                ("crates/model/src/log.rs", "a_log_line_has_a_maximum_of_characters"),
                (
                    "crates/engine/tests/suite/hiding.rs",
                    "log_lines_and_errors_of_code_are_truncated_after_masking",
                ),
            ],
            &[("crates/model/src/log.rs", "pub const MAX_CHARS: usize = 4096;")],
        ),
    ),
    (
        "address of a call in the history",
        elsewhere(
            &[("crates/engine/tests/suite/limits.rs", "a_url_in_the_history_is_truncated_to_300_characters")],
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
                "at_most_a_hundred_logins_are_pending_each_for_ten_minutes",
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
            &[("crates/runtime/src/vault/tests.rs", "a_vault_has_a_maximum_of_secrets_and_of_their_size")],
            &[("crates/runtime/src/vault/mod.rs", "const MAX_ROWS: usize = StateWrite::MAX_AT_ONCE;")],
        ),
    ),
    (
        "retention of finished executions",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/retention.rs",
                    "a_file_sets_the_age_and_the_number_of_kept_executions",
                ),
                ("crates/engine/tests/suite/retention.rs", "executions_are_kept_for_14_days_by_default"),
                ("crates/engine/src/retention.rs", "retention_rules_combine_age_count_and_outcome"),
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
                    "a_full_store_prunes_the_oldest_ended_executions_and_accepts_new_ones",
                ),
                (
                    "crates/engine/tests/suite/retention.rs",
                    "a_full_store_of_unfinished_executions_refuses_starts_until_one_ends",
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

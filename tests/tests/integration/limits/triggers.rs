//! Webhooks, schedules and polls: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "body | 6 MiB",
        elsewhere(
            &[(
                "crates/server/tests/http/uploads.rs",
                "a_json_document_of_any_size_up_to_its_limit_is_parsed",
            )],
            &[(
                "crates/trigger/src/webhook/content_type.rs",
                "pub const MAX_PARSED_BYTES: usize = 25 << 20;",
            )],
        ),
    ),
    (
        "all bodies in memory, with their read buffers",
        elsewhere(
            &[
                ("crates/server/src/net/body.rs", "large_bodies_leave_room_for_small_ones"),
                ("crates/server/src/net/body.rs", "a_large_body_is_spooled_to_disk_while_it_arrives"),
                ("crates/server/src/net/body.rs", "small_json_items_are_counted_at_their_parsed_size"),
                ("crates/server/src/net/body.rs", "a_received_body_waits_for_memory_unless_it_can_never_fit"),
                ("crates/server/tests/http/limits.rs", "bodies_share_a_memory_budget"),
            ],
            &[
                ("crates/server/src/options.rs", "body_budget: 32 << 20,"),
                ("crates/server/src/net/body.rs", "for_small: bytes / 4,"),
                ("crates/server/src/net/body.rs", "const SMALL: usize = 256 << 10;"),
                ("crates/server/src/net/body.rs", "const PATIENCE: Duration = Duration::from_secs(30);"),
            ],
        ),
    ),
    (
        "a body in gzip, decompressed",
        elsewhere(
            &[("crates/trigger/src/webhook/tests.rs", "a_gzip_body_is_decompressed_within_the_limit")],
            &[
                (
                    "crates/trigger/src/webhook/content_type.rs",
                    "pub const MAX_PARSED_BYTES: usize = 25 << 20;",
                ),
                ("crates/ingress/src/ingress.rs", "const INFLATING: usize = 2;"),
                ("crates/ingress/src/ingress.rs", "const INFLATING_SMALL: usize = 8;"),
                ("crates/ingress/src/hooks/mod.rs", "const SMALL_INFLATED: usize = 1 << 20;"),
            ],
        ),
    ),
    (
        "text and JSON in a form whose files are on disk",
        elsewhere(
            &[(
                "crates/trigger/src/webhook/external_body_tests.rs",
                "the_text_parts_of_an_external_form_are_bounded",
            )],
            &[(
                "crates/trigger/src/webhook/content_type.rs",
                "pub const MAX_PARSED_BYTES: usize = 25 << 20;",
            )],
        ),
    ),
    (
        "the body of a response",
        elsewhere(
            &[
                ("crates/server/src/net/outgoing.rs", "only_large_response_bodies_are_spooled_to_disk"),
                (
                    "crates/server/tests/memory.rs",
                    "memory_does_not_grow_with_uploads_responses_or_slow_readers",
                ),
            ],
            &[("crates/server/src/net/body.rs", "const SMALL: usize = 256 << 10;")],
        ),
    ),
    (
        "all bodies on disk",
        elsewhere(
            &[
                ("crates/server/src/net/spool.rs", "spooled_bytes_never_exceed_the_disk_limit"),
                (
                    "crates/server/src/net/spool.rs",
                    "a_spooled_body_round_trips_and_frees_its_disk_share_when_dropped",
                ),
            ],
            &[("crates/server/src/net/spool.rs", "const MOST_BYTES: usize = 1 << 30;")],
        ),
    ),
    (
        "validation of a body by its `schema`",
        elsewhere(
            &[
                ("crates/trigger/src/webhook/tests.rs", "a_body_too_costly_to_check_is_rejected_as_such"),
                (
                    "crates/expression/src/json_schema/tests/cost.rs",
                    "too_deeply_nested_subschemas_end_the_check_without_stack_overflow",
                ),
                (
                    "crates/expression/src/json_schema/tests/cost.rs",
                    "patterns_are_charged_by_text_and_by_their_own_size",
                ),
                ("crates/value/src/budget.rs", "full_and_inline_budgets_have_the_documented_limits"),
            ],
            &[
                ("crates/expression/src/json_schema/evaluate.rs", "const MAX_DEPTH: u32 = 500;"),
                ("crates/expression/src/pattern.rs", "const BYTES_PER_UNIT: usize = 64 << 10;"),
            ],
        ),
    ),
    (
        "a challenge",
        elsewhere(
            &[
                ("crates/trigger/src/challenge/tests.rs", "challenges_are_bounded_in_size"),
                (
                    "crates/engine/tests/suite/admission.rs",
                    "challenges_ignore_the_allowed_methods_and_are_rate_limited",
                ),
            ],
            &[
                ("crates/trigger/src/challenge/mod.rs", "const MAX_BODY: usize = 4 << 10;"),
                ("crates/trigger/src/challenge/mod.rs", "const MAX_ECHO: usize = 1 << 10;"),
                ("crates/trigger/src/challenge/mod.rs", "const MAX_SIGNED: usize = 256;"),
                (
                    "crates/ingress/src/hooks/limits.rs",
                    "RateLimit { max: 5, per: Duration::from_secs(1), burst: 20 };",
                ),
            ],
        ),
    ),
    (
        "records of deduplication",
        elsewhere(
            &[("crates/trigger/src/dedup.rs", "an_idempotency_key_is_bound_to_one_request_content")],
            &[
                (
                    "crates/language/src/load/trigger/limits.rs",
                    "const WINDOW: Duration = Duration::from_secs(7 * 86_400);",
                ),
                (
                    "crates/trigger/src/dedup.rs",
                    "const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);",
                ),
                ("crates/trigger/src/dedup.rs", "const MAX_KEY: usize = 255;"),
            ],
        ),
    ),
    (
        "requests of a webhook",
        elsewhere(
            &[(
                "crates/engine/tests/suite/admission.rs",
                "a_webhook_over_its_rate_limit_gets_429_with_retry_after",
            )],
            &[("crates/language/src/load/trigger/webhook.rs", "rate_limit: None,")],
        ),
    ),
    (
        "executions that start each other's webhooks",
        elsewhere(
            &[("crates/engine/tests/suite/admission.rs", "a_webhook_loop_is_refused_after_ten_hops")],
            &[("crates/runtime/src/settings.rs", "chain: 10,")],
        ),
    ),
    (
        "multipart",
        elsewhere(
            &[("crates/trigger/src/webhook/tests.rs", "parts_and_their_headers_are_limited")],
            &[("crates/trigger/src/webhook/multipart.rs", "const MAX_PART_HEADERS: usize = 16 * 1024;")],
        ),
    ),
    (
        "headers | 64 fields",
        elsewhere(
            &[
                ("crates/server/tests/http/framing.rs", "request_heads_are_limited_in_size"),
                ("crates/server/src/net/guard.rs", "the_header_section_is_limited_in_size"),
            ],
            &[("crates/server/src/options.rs", "header_bytes: 16 << 10,")],
        ),
    ),
    (
        "header section",
        elsewhere(
            &[
                (
                    "crates/server/tests/http/limits.rs",
                    "a_head_that_misses_its_deadline_closes_the_connection",
                ),
                ("crates/server/tests/http/limits.rs", "an_idle_connection_is_closed"),
            ],
            &[
                ("crates/server/src/options.rs", "head: Duration::from_secs(10),"),
                ("crates/server/src/options.rs", "keep_alive: Duration::from_secs(15),"),
            ],
        ),
    ),
    (
        "time for a body to arrive",
        elsewhere(
            &[
                (
                    "crates/server/src/net/body.rs",
                    "received_bytes_extend_the_deadline_by_the_minimum_throughput",
                ),
                ("crates/server/tests/http/limits.rs", "a_body_that_misses_its_deadline_gets_408"),
                ("crates/server/tests/http/limits.rs", "a_body_below_the_minimum_throughput_gets_408"),
            ],
            &[
                ("crates/server/src/options.rs", "body: Duration::from_secs(30),"),
                ("crates/server/src/options.rs", "body_grace: Duration::from_secs(5),"),
                ("crates/server/src/options.rs", "body_pace: 1024,"),
                ("crates/server/src/net/body.rs", "const GOOD_PACE: f64 = (256 << 10) as f64;"),
            ],
        ),
    ),
    (
        "connections | 1,024",
        elsewhere(
            &[
                ("crates/server/tests/http/limits.rs", "connections_over_the_limit_get_503"),
                ("crates/server/src/net/slots.rs", "a_peer_over_its_limit_gets_no_slot_until_it_frees_one"),
                ("crates/server/src/net/slots.rs", "loopback_counts_only_towards_the_total"),
            ],
            &[
                ("crates/server/src/options.rs", "connections: 1024,"),
                ("crates/server/src/options.rs", "connections_per_peer: 64,"),
                ("crates/server/src/options.rs", "loopback_exempt: true,"),
            ],
        ),
    ),
    (
        "time that a synchronous caller waits",
        elsewhere(
            &[(
                "crates/engine/tests/suite/hooks.rs",
                "a_synchronous_caller_gets_504_after_its_timeout_and_the_execution_continues",
            )],
            &[],
        ),
    ),
    (
        "headers of an answer",
        elsewhere(
            &[
                ("crates/trigger/src/response/tests.rs", "response_headers_are_bounded_in_number_and_bytes"),
                ("crates/language/src/load/tests/triggers.rs", "headers_set_by_the_server_are_rejected"),
            ],
            &[],
        ),
    ),
    (
        "one `listen` at a test address",
        elsewhere(
            &[("crates/engine/tests/suite/listening.rs", "listening_ends_at_its_timeout_or_on_request")],
            &[],
        ),
    ),
    (
        "the body of a capture that is listed",
        elsewhere(
            &[(
                "crates/server/tests/http/runs.rs",
                "a_capture_with_a_large_body_is_listed_without_its_results",
            )],
            &[],
        ),
    ),
    (
        "all captured requests in memory",
        elsewhere(
            &[
                (
                    "crates/ingress/src/listen/mod.rs",
                    "the_session_that_ends_first_is_dropped_over_the_maximum",
                ),
                ("crates/store-postgres/tests/postgres/listening.rs", "sessions_and_captures_are_bounded"),
            ],
            &[
                ("crates/ingress/src/listen/mod.rs", "const MAX_BYTES: usize = 64 << 20;"),
                ("crates/ingress/src/listen/mod.rs", "const MAX_SESSIONS: usize = 16;"),
            ],
        ),
    ),
    (
        "saved payloads",
        elsewhere(
            &[
                ("crates/engine/tests/suite/limits.rs", "an_automation_has_a_maximum_of_saved_payloads"),
                ("crates/catalog/src/project_dir/tests.rs", "a_file_over_the_read_limit_is_an_error"),
            ],
            &[("crates/ingress/src/listen/saved.rs", "const MAX_BYTES: u64 = 64 << 20;")],
        ),
    ),
    (
        "missed instants that run with `misfire: all`",
        elsewhere(
            &[("crates/trigger/src/schedule/tests.rs", "only_the_latest_hundred_missed_instants_run")],
            &[],
        ),
    ),
    (
        "last year",
        elsewhere(
            &[("crates/trigger/src/schedule/tests.rs", "no_local_time_fires_after_the_last_year")],
            &[],
        ),
    ),
    (
        "one poll",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/polls.rs",
                    "an_unanswered_poll_ends_at_its_deadline_and_an_interrupted_one_is_repeated",
                ),
                ("crates/engine/tests/suite/polls.rs", "a_poll_reads_a_maximum_of_items"),
                ("crates/engine/tests/suite/polls.rs", "a_poll_of_an_event_reads_a_maximum_of_pages"),
            ],
            &[],
        ),
    ),
    (
        "results that a replay from a step keeps",
        elsewhere(
            &[(
                "crates/engine/tests/suite/limits.rs",
                "a_replay_from_a_step_and_a_trial_have_a_maximum_of_events",
            )],
            &[],
        ),
    ),
    (
        "recorded executions of one trial",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/replays.rs",
                    "a_trial_needs_a_text_without_errors_and_at_most_fifty_executions",
                ),
                (
                    "crates/engine/tests/suite/limits.rs",
                    "a_replay_from_a_step_and_a_trial_have_a_maximum_of_events",
                ),
                ("crates/engine/tests/suite/replays.rs", "a_trial_waits_for_a_dropped_trial_to_end"),
                ("crates/engine/src/trials.rs", "no_further_trial_starts_after_the_time_limit_of_a_request"),
                ("crates/engine/tests/suite/trials.rs", "a_test_over_its_time_limit_is_stopped_and_fails"),
            ],
            &[
                (
                    "crates/testing/src/trial/mod.rs",
                    "const MAX_TRIAL_TIME: Duration = Duration::from_secs(10);",
                ),
                ("crates/engine/src/trials.rs", "const MAX_TIME: Duration = Duration::from_secs(30);"),
            ],
        ),
    ),
    (
        "executions of one operation",
        elsewhere(
            &[
                ("crates/server/tests/http/bulk.rs", "an_invalid_or_too_large_selection_is_rejected"),
                (
                    "crates/server/tests/http/bulk.rs",
                    "four_bulk_operations_run_concurrently_and_a_fifth_gets_503",
                ),
                ("crates/server/tests/http/bulk.rs", "the_last_fifty_bulk_operations_are_listed"),
                (
                    "crates/engine/tests/suite/replays.rs",
                    "a_bulk_replay_runs_at_a_limited_rate_until_it_is_stopped",
                ),
            ],
            &[("crates/engine/src/bulk.rs", "pub const BULK_PER_SECOND: u32 = 10;")],
        ),
    ),
    (
        "records of one poll that start executions",
        elsewhere(
            &[("crates/ingress/src/poll/dedup.rs", "items_over_the_limit_stay_new_for_the_next_poll")],
            &[
                ("crates/ingress/src/poll/dedup.rs", "const MAX_NEW: usize = 1000;"),
                (
                    "crates/ingress/src/poll/cycle.rs",
                    "const NEXT_BATCH_DELAY: Duration = Duration::from_secs(1);",
                ),
            ],
        ),
    ),
    (
        "remembered ids of one automation",
        elsewhere(
            &[
                ("crates/store/src/conformance/polls.rs", "keys_are_bounded"),
                ("crates/store-sqlite/tests/sqlite/conformance.rs", "sqlite_passes_the_conformance_suite"),
            ],
            &[
                ("crates/store/src/types/poll.rs", "pub const MAX_KEYS: usize = 10_000;"),
                ("crates/store/src/types/poll.rs", "pub const MAX_KEY_BYTES: usize = 200;"),
            ],
        ),
    ),
    (
        "interval after failed polls",
        elsewhere(&[("crates/ingress/src/poll/cycle.rs", "failing_polls_back_off_up_to_an_hour")], &[]),
    ),
    (
        "parallel polls, recorded results",
        elsewhere(
            &[
                ("crates/store/src/conformance/polls.rs", "log_is_bounded"),
                ("crates/store-sqlite/tests/sqlite/conformance.rs", "sqlite_passes_the_conformance_suite"),
                ("crates/engine/tests/suite/polls.rs", "polls_run_in_parallel_up_to_a_limit"),
            ],
            &[
                ("crates/store/src/types/poll.rs", "pub const MAX_ENTRIES: u32 = 100;"),
                ("crates/ingress/src/poll/mod.rs", "const MAX_CONCURRENT: usize = 32;"),
            ],
        ),
    ),
];

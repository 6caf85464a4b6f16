//! Outages, clean-ups and the limits of rare requests: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "one [clean-up]",
        elsewhere(
            &[
                (
                    "crates/engine/src/retention.rs",
                    "a_clean_up_keeps_20_and_three_quarters_and_deletes_at_most_25_000",
                ),
                ("crates/engine/src/retention.rs", "an_insufficient_clean_up_is_repeated_only_after_a_pause"),
            ],
            &[
                ("crates/engine/src/retention.rs", "const ROOM_SHARE: u32 = 4;"),
                ("crates/engine/src/retention.rs", "const ROOM_FLOOR: u32 = 20;"),
                ("crates/engine/src/retention.rs", "const ROOM_PAUSE: Duration = Duration::from_secs(45);"),
            ],
        ),
    ),
    (
        "keys that make instants",
        elsewhere(
            &[(
                "crates/engine/tests/suite/retention.rs",
                "a_schedule_key_outlives_its_execution_for_30_days_after_acceptance",
            )],
            &[],
        ),
    ),
    (
        "an [outage](storage.md#outages) of the store: new",
        elsewhere(
            &[
                (
                    "crates/store-postgres/tests/postgres/outage.rs",
                    "unsent_starts_and_request_reads_fail_after_the_grace_period",
                ),
                (
                    "crates/store/src/outage.rs",
                    "the_grace_period_starts_when_the_database_becomes_unreachable",
                ),
            ],
            &[
                ("crates/store/src/outage.rs", "pub const GRACE: Duration = Duration::from_secs(2);"),
                ("crates/store-postgres/src/lane.rs", "const LONG: Duration = Duration::from_secs(10);"),
            ],
        ),
    ),
    (
        "an outage of the store: requests",
        elsewhere(
            &[("crates/store/src/outage.rs", "a_caller_waits_only_for_an_outage_that_queues_writes")],
            &[(
                "crates/ingress/src/hooks/mod.rs",
                "const UNCONFIRMED: Duration = Outage::GRACE.saturating_add(Duration::from_millis(500));",
            )],
        ),
    ),
    (
        "an outage of the store: pauses",
        elsewhere(
            &[(
                "crates/model/src/backoff.rs",
                "backoff_doubles_up_to_the_maximum_and_resets_after_a_success",
            )],
            &[
                (
                    "crates/store/src/outage.rs",
                    "Backoff::new(Duration::from_millis(500), Duration::from_secs(15))",
                ),
                (
                    "crates/runtime/src/run/journal/commit.rs",
                    "Backoff::new(Duration::from_millis(250), LONGEST_DELAY)",
                ),
                (
                    "crates/ingress/src/poll/mod.rs",
                    "Backoff::new(Duration::from_secs(1), Duration::from_secs(30))",
                ),
            ],
        ),
    ),
    (
        "pauses of an execution whose write",
        elsewhere(
            &[(
                "crates/model/src/backoff.rs",
                "backoff_doubles_up_to_the_maximum_and_resets_after_a_success",
            )],
            &[(
                "crates/runtime/src/refused_writes.rs",
                "Backoff::new(Duration::from_millis(250), Duration::from_secs(60))",
            )],
        ),
    ),
    (
        "numbers of `range`",
        elsewhere(&[("crates/expression/src/tests.rs", "ranges_and_format_widths_are_bounded")], &[]),
    ),
    (
        "a reader that takes no byte",
        elsewhere(
            &[("crates/server/src/net/stream.rs", "a_peer_that_reads_nothing_times_out")],
            &[("crates/server/src/options.rs", "write_stall: Duration::from_secs(30),")],
        ),
    ),
    (
        "[operations of services]",
        elsewhere(
            &[
                (
                    "crates/connector/src/manifest/operation.rs",
                    "looks_become_rarer_and_never_pass_the_time_limit",
                ),
                (
                    "crates/connector/src/manifest/tests/operation.rs",
                    "an_operation_is_checked_where_it_is_read",
                ),
                (
                    "crates/engine/tests/suite/operations.rs",
                    "an_operation_that_does_not_end_fails_the_step_after_its_limit",
                ),
            ],
            &[
                (
                    "crates/connector/src/manifest/operation.rs",
                    "const MAX_PAUSE: Duration = Duration::from_secs(10 * 60);",
                ),
                (
                    "crates/connector/src/manifest/read/operation.rs",
                    "const EVERY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);",
                ),
                (
                    "crates/connector/src/manifest/read/operation.rs",
                    "const MAX_AT_MOST: Duration = Duration::from_secs(30 * 86_400);",
                ),
            ],
        ),
    ),
    (
        "[uploads]",
        elsewhere(
            &[
                ("crates/connector/src/manifest/tests/upload.rs", "an_upload_is_checked_where_it_is_read"),
                (
                    "crates/connector/src/manifest/tests/upload.rs",
                    "an_upload_that_makes_no_progress_gives_up_after_five_failures",
                ),
            ],
            &[
                ("crates/connector/src/manifest/read/upload.rs", "const MAX_CHUNK: usize = 60 << 20;"),
                ("crates/connector/src/manifest/upload.rs", "const MAX_FAILURES: u32 = 5;"),
            ],
        ),
    ),
    (
        "[subscriptions]",
        elsewhere(
            &[(
                "crates/engine/tests/suite/events.rs",
                "a_clock_step_does_not_change_a_subscription_retry_delay",
            )],
            &[
                ("crates/ingress/src/subscribe/mod.rs", "const MAX_CONCURRENT: usize = 8;"),
                (
                    "crates/ingress/src/subscribe/call.rs",
                    "const DEADLINE: Duration = Duration::from_secs(30);",
                ),
                (
                    "crates/ingress/src/subscribe/mod.rs",
                    "const MIN_DELAY: Duration = Duration::from_secs(10);",
                ),
                (
                    "crates/ingress/src/subscribe/mod.rs",
                    "const MAX_DELAY: Duration = Duration::from_secs(60 * 60);",
                ),
                ("crates/ingress/src/subscribe/mod.rs", "const MAX_FAILURES: u32 = 32;"),
            ],
        ),
    ),
    (
        "executions that `cogwork executions list`",
        elsewhere(
            &[("crates/cli/tests/cli/history.rs", "a_list_is_limited_to_a_hundred_thousand_executions")],
            &[("crates/cli/src/commands/executions/list.rs", "const MAX_ROWS: u32 = 100_000;")],
        ),
    ),
    (
        "operations of one [edit]",
        elsewhere(&[("crates/language/src/edit/mod.rs", "an_edit_is_limited_to_a_hundred_operations")], &[]),
    ),
];

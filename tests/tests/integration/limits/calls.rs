//! Outgoing calls and the admin API: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "connecting, the whole call",
        elsewhere(
            &[
                ("crates/connector/src/http/send/tests/mod.rs", "silence_is_a_timeout"),
                (
                    "crates/connector/src/native/tests/mod.rs",
                    "contradicting_inputs_are_refused_before_sending",
                ),
            ],
            &[
                ("crates/connector/src/http/mod.rs", "connect_timeout: Duration::from_secs(5),"),
                ("crates/connector/src/http/mod.rs", "timeout: Duration::from_secs(60),"),
                ("crates/connector/src/http/mod.rs", "idle_timeout: Duration::from_secs(15),"),
            ],
        ),
    ),
    (
        "answer |",
        elsewhere(
            &[
                ("crates/connector/src/http/send/tests/mod.rs", "an_answer_has_ten_mebibytes"),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "an_answer_larger_than_the_limit_is_not_read",
                ),
                ("crates/connector/src/http/send/tests/mod.rs", "inflated_bytes_count"),
                ("crates/connector/src/http/send/tests/mod.rs", "headers_have_a_limit_too"),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "an_answer_has_a_hundred_header_fields_in_http_1_1",
                ),
            ],
            &[("crates/connector/src/http/mod.rs", "pub const MAX_RESPONSE_HEADERS: usize = 64 * 1024;")],
        ),
    ),
    (
        "error texts of an answer",
        elsewhere(
            &[
                ("crates/connector/src/http/failure.rs", "the_message_takes_the_words_of_the_answer"),
                ("crates/connector/src/http/failure.rs", "bodies_of_other_shapes_are_shown"),
                (
                    "crates/connector/src/http/failure.rs",
                    "the_words_of_an_answer_are_cut_after_secrets_are_hidden_in_them",
                ),
                (
                    "crates/connector/src/http/failure.rs",
                    "the_body_of_an_error_is_cut_after_secrets_are_hidden_in_it",
                ),
            ],
            &[
                (
                    "crates/connector/src/http/failure.rs",
                    "const MAX_MESSAGE: LengthLimit = LengthLimit::Bytes(400);",
                ),
                ("crates/connector/src/http/failure.rs", "const MAX_ERRORS: i64 = 3;"),
                (
                    "crates/connector/src/http/failure.rs",
                    "const MAX_BODY_EXCERPT: LengthLimit = LengthLimit::Chars(200);",
                ),
                ("crates/connector/src/http/failure.rs", "const MAX_ERROR_BODY: usize = 64 * 1024;"),
            ],
        ),
    ),
    (
        "redirects",
        elsewhere(
            &[("crates/connector/src/http/send/tests/mod.rs", "redirects_end_and_are_not_for_writes")],
            &[],
        ),
    ),
    (
        "calls to one host at one time",
        elsewhere(
            &[("crates/connector/src/http/host_limits.rs", "a_host_has_its_own_slots_and_gives_them_back")],
            &[],
        ),
    ),
    (
        "`Retry-After` that Cogwork respects",
        elsewhere(
            &[
                ("crates/model/src/retry.rs", "retry_after_is_the_minimum_delay_and_capped_at_an_hour"),
                (
                    "crates/connector/src/http/failure.rs",
                    "retry_after_is_seconds_or_a_date_and_never_over_an_hour",
                ),
                (
                    "crates/connector/src/native/tests/retries.rs",
                    "a_wait_of_hours_is_waited_for_an_hour_at_most",
                ),
                (
                    "crates/connector/src/native/tests/retries.rs",
                    "a_host_that_asked_to_be_left_alone_is_waited_for_and_that_is_no_try",
                ),
            ],
            &[
                (
                    "crates/model/src/retry.rs",
                    "pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);",
                ),
                (
                    "crates/connector/src/native/raw_request.rs",
                    "const MAX_PATIENCE: Duration = RetryPolicy::MAX_RETRY_AFTER;",
                ),
            ],
        ),
    ),
    (
        "consecutive failures before Cogwork pauses calls",
        elsewhere(
            &[
                (
                    "crates/connector/src/http/host_health.rs",
                    "a_host_that_does_not_answer_is_asked_once_in_a_while",
                ),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "a_host_that_is_down_is_left_alone_until_one_call_gets_through",
                ),
            ],
            &[
                ("crates/connector/src/http/host_health.rs", "pub const FAILURES_TO_OPEN: u32 = 20;"),
                (
                    "crates/connector/src/http/host_health.rs",
                    "pub const INITIAL_OPEN_TIME: Duration = Duration::from_secs(30);",
                ),
                (
                    "crates/connector/src/http/host_health.rs",
                    "pub const MAX_OPEN_TIME: Duration = Duration::from_secs(300);",
                ),
            ],
        ),
    ),
    (
        "`fetchAll`, `paging` of `http.request`",
        elsewhere(
            &[
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "a_list_that_was_stopped_at_its_bound_says_so_in_the_log",
                ),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "empty_pages_with_a_fresh_cursor_each_come_to_an_end",
                ),
                ("crates/connector/src/manifest/tests/paging.rs", "numbered_pages_that_repeat_are_an_error"),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "a_page_that_fails_is_asked_for_again_and_the_others_are_not",
                ),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "a_list_has_a_maximum_of_bytes_and_each_of_its_pages_of_attempts",
                ),
                (
                    "crates/connector/src/native/tests/bodies_and_pages.rs",
                    "a_list_of_pages_has_a_maximum_of_bytes",
                ),
            ],
            &[
                ("crates/connector/src/manifest/fetch_all.rs", "const MOST_ITEMS: i64 = 100_000;"),
                ("crates/connector/src/manifest/fetch_all.rs", "const MOST_PAGES: usize = 10_000;"),
                ("crates/connector/src/manifest/fetch_all.rs", "const MOST_EMPTY: usize = 100;"),
                ("crates/connector/src/manifest/fetch_all.rs", "const MOST_BYTES: usize = 16 << 20;"),
                ("crates/connector/src/manifest/fetch_all.rs", "const TRIES: u32 = 4;"),
                ("crates/connector/src/native/pages.rs", "const DEFAULT_ITEMS: i64 = 10_000;"),
                ("crates/connector/src/native/pages.rs", "const MOST_ITEMS: i64 = 100_000;"),
                ("crates/connector/src/native/pages.rs", "const MOST_PAGES: usize = 10_000;"),
                ("crates/connector/src/native/pages.rs", "const MOST_BYTES: usize = 16 << 20;"),
            ],
        ),
    ),
    (
        "a pattern of `text.*`",
        elsewhere(
            &[
                (
                    "crates/connector/src/native/text/pattern.rs",
                    "a_text_has_a_maximum_of_matches_and_a_pattern_a_compiled_size",
                ),
                ("crates/connector/src/native/text/pattern.rs", "a_text_may_be_as_large_as_its_limit"),
                (
                    "crates/connector/src/native/text/pattern.rs",
                    "a_text_that_grows_beyond_its_bound_is_refused",
                ),
            ],
            &[
                ("crates/connector/src/native/text/pattern.rs", "const MAX_PATTERN: usize = 1 << 20;"),
                ("crates/connector/src/native/text/mod.rs", "const MAX_OUTPUT: usize = 16 << 20;"),
            ],
        ),
    ),
    (
        "a mail",
        elsewhere(
            &[(
                "crates/connector/src/native/mail/tests.rs",
                "a_mail_has_a_maximum_of_recipients_and_of_attached_bytes",
            )],
            &[],
        ),
    ),
    (
        "files of `files.*`",
        elsewhere(
            &[
                ("crates/runtime/src/native/files/sandboxed_dir.rs", "a_path_has_a_maximum_of_components"),
                ("crates/runtime/src/native/files/sandboxed_dir.rs", "a_written_file_can_be_read_and_listed"),
            ],
            &[
                ("crates/runtime/src/native/files/mod.rs", "const MAX_ENTRIES: usize = 10_000;"),
                ("crates/runtime/src/settings.rs", "result_bytes: 16 << 20,"),
            ],
        ),
    ),
    (
        "[logins at an identity provider]",
        elsewhere(
            &[
                ("crates/server/src/admin/auth/login.rs", "one_address_leaves_room_for_the_logins_of_others"),
                (
                    "crates/server/src/admin/auth/login.rs",
                    "a_login_belongs_to_its_cookie_and_lasts_ten_minutes",
                ),
                ("crates/server/tests/http/login.rs", "what_a_provider_answers_is_bounded_and_checked"),
                ("crates/connector/src/oidc/mod.rs", "a_provider_that_never_answers_fails_the_login_in_time"),
            ],
            &[
                (
                    "crates/connector/src/oidc/provider.rs",
                    "const TIMEOUT: Duration = Duration::from_secs(15);",
                ),
                ("crates/connector/src/oidc/provider.rs", "const RESPONSE_BYTES: usize = 256 << 10;"),
            ],
        ),
    ),
    (
        "lines of an [import]",
        elsewhere(
            &[
                ("crates/engine/src/transfer/import.rs", "a_line_has_a_maximum_of_bytes"),
                (
                    "crates/engine/src/transfer/parts.rs",
                    "an_execution_that_is_too_large_is_named_and_the_others_stay",
                ),
            ],
            &[
                ("crates/engine/src/transfer/mod.rs", "const MAX_LINE_BYTES: usize = 256 << 20;"),
                ("crates/engine/src/transfer/parts.rs", "pub const MAX_PART_BYTES: usize = 30 << 20;"),
            ],
        ),
    ),
    (
        "tokens; their names; their validity",
        elsewhere(&[("crates/server/tests/http/tokens.rs", "there_is_a_maximum_of_tokens")], &[]),
    ),
    (
        "[audit log]",
        elsewhere(
            &[
                ("crates/server/src/audit/mod.rs", "the_log_has_a_bound_and_belongs_to_its_owner"),
                (
                    "crates/server/src/audit/mod.rs",
                    "refused_requests_push_nothing_out_that_was_done_and_are_counted_by_credential",
                ),
                ("crates/server/src/audit/mod.rs", "a_full_file_is_deleted_by_its_age"),
            ],
            &[
                (
                    "crates/server/src/audit/mod.rs",
                    "Bounds { file_bytes: 8 << 20, files: 128, keep_for: Some(SignedDuration::from_hours(400 * 24)) };",
                ),
                (
                    "crates/server/src/audit/mod.rs",
                    "Bounds { file_bytes: 8 << 20, files: 2, keep_for: None };",
                ),
                ("crates/server/src/audit/mod.rs", "const REFUSALS_EACH: u64 = 10;"),
                (
                    "crates/server/src/audit/mod.rs",
                    "const COUNTED_FOR: SignedDuration = SignedDuration::from_mins(1);",
                ),
                ("crates/server/src/audit/mod.rs", "const PATH_BYTES: usize = 500;"),
            ],
        ),
    ),
    (
        "login links",
        elsewhere(
            &[("crates/server/src/admin/auth/session.rs", "links_of_one_credential_push_out_its_own_alone")],
            &[
                ("crates/server/src/admin/auth/session.rs", "const LINKS: usize = 64;"),
                (
                    "crates/server/src/admin/auth/session.rs",
                    "const LINK_FOR: SignedDuration = SignedDuration::from_mins(10);",
                ),
            ],
        ),
    ),
    (
        "event streams after the end",
        elsewhere(
            &[("crates/server/tests/http/tokens.rs", "an_open_stream_ends_when_its_token_is_revoked")],
            &[(
                "crates/server/src/admin/auth/guard.rs",
                "const RECHECK: Duration = Duration::from_secs(20);",
            )],
        ),
    ),
    (
        "[reads of large executions]",
        elsewhere(
            &[
                ("crates/server/src/admin/api.rs", "a_request_that_gets_no_turn_in_time_is_refused_for_now"),
                ("crates/runtime/src/memory.rs", "a_reservation_is_capped_at_the_whole_budget"),
            ],
            &[
                ("crates/runtime/src/context.rs", "reads: Memory::new(settings.limits.memory / 4),"),
                ("crates/runtime/src/settings.rs", "memory: 64 << 20,"),
                ("crates/runtime/src/memory.rs", "const READ_PATIENCE: Duration = Duration::from_secs(5);"),
            ],
        ),
    ),
    (
        "texts that are checked, edited or completed",
        elsewhere(
            &[("crates/server/src/admin/api.rs", "a_request_that_gets_no_turn_in_time_is_refused_for_now")],
            &[
                ("crates/server/src/admin/api.rs", "let checks = Arc::new(Semaphore::new(processors));"),
                (
                    "crates/server/src/admin/api.rs",
                    "const CHECK_PATIENCE: Duration = Duration::from_secs(10);",
                ),
            ],
        ),
    ),
    (
        "connections, streams",
        elsewhere(
            &[
                (
                    "crates/server/tests/http/limits.rs",
                    "connections_without_the_token_never_keep_out_who_has_it",
                ),
                (
                    "crates/server/src/net/slots.rs",
                    "a_stranger_takes_the_place_of_the_oldest_and_none_of_who_is_known",
                ),
                (
                    "crates/server/src/net/slots.rs",
                    "an_owner_that_takes_all_places_loses_its_oldest_to_others",
                ),
                ("crates/server/tests/http/streams.rs", "there_are_only_so_many_streams"),
            ],
            &[(
                "crates/server/src/options.rs",
                "Limits { connections: 256, unauthenticated: Some(128), ..Limits::default() },",
            )],
        ),
    ),
    (
        "run with `wait=true`",
        elsewhere(
            &[("crates/server/tests/http/runs.rs", "a_run_that_takes_longer_than_the_wait_goes_on")],
            &[("crates/server/src/options.rs", "wait: Duration::from_secs(30),")],
        ),
    ),
];

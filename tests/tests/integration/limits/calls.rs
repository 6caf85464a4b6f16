//! Outgoing calls and the admin API: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "rows of `sql.query`",
        elsewhere(
            &[("crates/systems/tests/sql/results.rs", "a_result_says_if_there_are_more_rows")],
            &[
                ("crates/systems/src/sql/spec.rs", "const USUAL_ROWS: i64 = 10_000;"),
                ("crates/systems/src/sql/spec.rs", "const MAX_ROWS: i64 = 100_000;"),
                ("crates/systems/src/sql/rows.rs", "const MAX_ROW: usize = 16 << 20;"),
            ],
        ),
    ),
    (
        "a [connector of others]",
        elsewhere(
            &[("crates/cli/src/commands/connectors/source.rs", "a_connector_has_limits")],
            &[
                ("crates/cli/src/commands/connectors/source.rs", "const MAX_FILES: usize = 100;"),
                ("crates/cli/src/commands/connectors/source.rs", "const MAX_SIZE: u64 = 4 << 20;"),
                ("crates/cli/src/commands/connectors/source.rs", "const MAX_DEPTH: usize = 8;"),
            ],
        ),
    ),
    (
        "a file that a step writes",
        elsewhere(
            &[("crates/connector/src/file_sink.rs", "a_file_has_a_size_limit_and_little_of_it_in_memory")],
            &[
                ("crates/connector/src/file_sink.rs", "const MAX_IN_MEMORY: usize = 1 << 20;"),
                ("crates/connector/src/http/mod.rs", "pub const MAX_FILE: u64 = 512 << 20;"),
            ],
        ),
    ),
    (
        "polls that `wake` of `sql.newRows` starts",
        elsewhere(
            &[(
                "crates/engine/tests/suite/sql_wake.rs",
                "a_notification_polls_at_once_and_nothing_listens_for_a_removed_file",
            )],
            &[("crates/ingress/src/poll/mod.rs", "const WAKE_GAP: Duration = Duration::from_secs(1);")],
        ),
    ),
    (
        "memory of all files that steps write",
        elsewhere(
            &[("crates/connector/src/file_sink.rs", "many_files_together_stay_within_their_memory")],
            &[("crates/connector/src/file_sink.rs", "pub const FILE_MEMORY: usize = 8 << 20;")],
        ),
    ),
    (
        "an object that `s3.put` writes in parts",
        elsewhere(
            &[("crates/systems/tests/s3/parts.rs", "a_large_object_is_sent_in_parts_and_comes_back_whole")],
            &[
                ("crates/systems/src/s3/write.rs", "const MAX_WHOLE: usize = 16 << 20;"),
                ("crates/systems/src/s3/parts.rs", "const PART: usize = 8 << 20;"),
                ("crates/systems/src/s3/parts.rs", "const CONCURRENT: usize = 3;"),
            ],
        ),
    ),
    (
        "keys of `s3.delete`",
        elsewhere(
            &[
                ("crates/systems/tests/s3/objects.rs", "a_list_is_read_to_its_end_or_page_by_page"),
                (
                    "crates/systems/tests/s3/objects.rs",
                    "inputs_that_cannot_work_are_refused_before_a_request",
                ),
            ],
            &[
                ("crates/systems/src/s3/spec.rs", "const MAX_KEYS: usize = 1_000;"),
                ("crates/systems/src/s3/spec.rs", "const MAX_ITEMS: i64 = 100_000;"),
                ("crates/systems/src/s3/spec.rs", "const USUAL_ITEMS: i64 = 10_000;"),
            ],
        ),
    ),
    (
        "keys that `s3.objectChanged` lists",
        elsewhere(
            &[("crates/systems/tests/s3/events.rs", "a_prefix_with_more_keys_than_a_poll_reads_is_an_error")],
            &[("crates/systems/src/s3/list.rs", "const MAX_READ: usize = 100_000;")],
        ),
    ),
    (
        "the life of an address of `s3.presign`",
        elsewhere(
            &[("crates/systems/tests/s3/objects.rs", "inputs_that_cannot_work_are_refused_before_a_request")],
            &[(
                "crates/systems/src/s3/read.rs",
                "const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);",
            )],
        ),
    ),
    (
        "files and folders that `sftp.list`",
        elsewhere(
            &[("crates/systems/tests/sftp/files.rs", "a_folder_with_more_files_than_are_read_is_an_error")],
            &[
                ("crates/systems/src/sftp/client/folder.rs", "const MAX_ENTRIES: usize = 10_000;"),
                ("crates/systems/src/sftp/client/folder.rs", "const MAX_DEPTH: usize = 32;"),
            ],
        ),
    ),
    (
        "an answer of an SFTP server",
        elsewhere(
            &[(
                "crates/systems/tests/sftp/errors.rs",
                "a_server_that_says_nothing_is_given_up_at_the_end_of_the_step",
            )],
            &[
                (
                    "crates/systems/src/sftp/client/session.rs",
                    "const ANSWER_TIME: Duration = Duration::from_secs(30);",
                ),
                (
                    "crates/systems/src/connection.rs",
                    "const USUAL_LIMIT: std::time::Duration = std::time::Duration::from_secs(15 * 60);",
                ),
            ],
        ),
    ),
    (
        "a list in `in (…)`",
        elsewhere(
            &[("crates/systems/tests/sql/parameters.rs", "a_list_in_parentheses_is_several_values")],
            &[("crates/systems/src/sql/params.rs", "const MAX_LIST: usize = 1_000;")],
        ),
    ),
    (
        "the stored result of a step with `once`",
        elsewhere(
            &[("crates/systems/tests/sql/once.rs", "a_result_that_cannot_be_stored_changes_nothing")],
            &[("crates/systems/src/sql/once.rs", "const MAX_RESULT: usize = 256 << 10;")],
        ),
    ),
    (
        "a connection to a database",
        elsewhere(
            &[("crates/systems/tests/sql/cancel.rs", "sessions_are_kept_and_limited")],
            &[
                ("crates/systems/src/pool.rs", "const MAX_WAIT: Duration = Duration::from_secs(10);"),
                ("crates/systems/src/sql/session.rs", "const MAX_IDLE: Duration = Duration::from_secs(60);"),
            ],
        ),
    ),
    (
        "connections and logins without use that are kept",
        elsewhere(
            &[("crates/systems/src/pool.rs", "unused_sessions_have_a_limit_for_each_connection_and_for_all")],
            &[("crates/systems/src/pool.rs", "const MAX_KEPT: usize = 256;")],
        ),
    ),
    (
        "a statement | 60 s",
        elsewhere(
            &[
                (
                    "crates/systems/tests/sql/cancel.rs",
                    "a_statement_that_takes_too_long_is_ended_and_taken_back",
                ),
                ("crates/systems/tests/sql/transactions.rs", "transactions_that_collide_are_tried_again"),
            ],
            &[
                (
                    "crates/systems/src/sql/attempt.rs",
                    "const USUAL_LIMIT: Duration = Duration::from_secs(60);",
                ),
                ("crates/systems/src/sql/attempt.rs", "const MAX_CONFLICTS: u32 = 5;"),
            ],
        ),
    ),
    (
        "names in `of` of a connection or a `call`",
        elsewhere(
            &[("crates/language/src/load/tests/computed.rs", "a_selection_has_at_most_a_hundred_names")],
            &[("crates/model/src/automation/setting.rs", "pub const MAX_NAMES: usize = 100;")],
        ),
    ),
    (
        "connecting, the whole call",
        elsewhere(
            &[
                ("crates/connector/src/http/send/tests/mod.rs", "a_silent_server_is_a_timeout"),
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
                ("crates/connector/src/http/send/tests/mod.rs", "a_response_is_limited_to_ten_mebibytes"),
                ("crates/connector/src/http/send/tests/mod.rs", "a_response_over_the_size_limit_is_not_read"),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "decompressed_bytes_count_towards_the_size_limit",
                ),
                ("crates/connector/src/http/send/tests/mod.rs", "response_headers_have_a_size_limit"),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "an_http_1_1_response_is_limited_to_a_hundred_header_fields",
                ),
            ],
            &[("crates/connector/src/http/mod.rs", "pub const MAX_RESPONSE_HEADERS: usize = 64 * 1024;")],
        ),
    ),
    (
        "error texts of an answer",
        elsewhere(
            &[
                ("crates/connector/src/http/failure.rs", "the_error_message_is_taken_from_the_response_body"),
                ("crates/connector/src/http/failure.rs", "error_bodies_of_unknown_shape_are_shown"),
                (
                    "crates/connector/src/http/failure.rs",
                    "error_messages_are_redacted_before_they_are_truncated",
                ),
                (
                    "crates/connector/src/http/failure.rs",
                    "error_bodies_are_redacted_before_they_are_truncated",
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
            &[(
                "crates/connector/src/http/send/tests/mod.rs",
                "redirects_are_limited_and_writes_do_not_follow_them",
            )],
            &[],
        ),
    ),
    (
        "calls to one host at one time",
        elsewhere(
            &[(
                "crates/connector/src/http/host_limits.rs",
                "each_host_has_its_own_concurrency_slots_and_frees_them",
            )],
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
                    "retry_after_is_seconds_or_a_date_capped_at_an_hour",
                ),
                (
                    "crates/connector/src/native/tests/retries.rs",
                    "a_retry_after_of_hours_is_capped_at_one_hour",
                ),
                (
                    "crates/connector/src/native/tests/retries.rs",
                    "waiting_for_a_hosts_retry_after_does_not_count_as_an_attempt",
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
                ("crates/connector/src/http/host_health.rs", "an_open_circuit_lets_single_probes_through"),
                (
                    "crates/connector/src/http/send/tests/mod.rs",
                    "a_host_that_is_down_is_not_called_until_a_probe_succeeds",
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
                ("crates/connector/src/manifest/tests/paging.rs", "a_list_truncated_at_its_limit_is_logged"),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "endless_empty_pages_with_new_cursors_are_stopped",
                ),
                ("crates/connector/src/manifest/tests/paging.rs", "numbered_pages_that_repeat_are_an_error"),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "only_the_failed_page_of_a_list_is_retried",
                ),
                (
                    "crates/connector/src/manifest/tests/paging.rs",
                    "a_list_is_bounded_in_bytes_and_each_page_in_attempts",
                ),
                (
                    "crates/connector/src/native/tests/bodies_and_pages.rs",
                    "a_paginated_list_is_bounded_in_bytes",
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
                    "matches_and_the_compiled_pattern_size_are_bounded",
                ),
                (
                    "crates/connector/src/native/text/pattern.rs",
                    "a_replacement_result_of_exactly_the_limit_is_accepted",
                ),
                (
                    "crates/connector/src/native/text/pattern.rs",
                    "a_replacement_result_over_the_limit_is_rejected",
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
                "a_mail_is_bounded_in_recipients_and_attached_bytes",
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
                ("crates/server/src/admin/auth/login.rs", "one_client_address_cannot_take_all_login_permits"),
                (
                    "crates/server/src/admin/auth/login.rs",
                    "a_login_belongs_to_its_cookie_and_lasts_ten_minutes",
                ),
                ("crates/server/tests/http/login.rs", "responses_of_the_provider_are_bounded_and_validated"),
                (
                    "crates/connector/src/oidc/mod.rs",
                    "a_provider_that_never_responds_fails_the_login_at_the_timeout",
                ),
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
        elsewhere(&[("crates/server/tests/http/tokens.rs", "the_number_of_tokens_is_bounded")], &[]),
    ),
    (
        "[audit log]",
        elsewhere(
            &[
                ("crates/server/src/audit/mod.rs", "the_audit_log_is_bounded_and_private_to_its_owner"),
                (
                    "crates/server/src/audit/mod.rs",
                    "rejected_requests_evict_no_performed_action_and_are_counted_by_credential",
                ),
                ("crates/server/src/audit/mod.rs", "a_full_log_file_is_deleted_when_it_expires"),
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
            &[("crates/server/src/admin/auth/session.rs", "the_login_link_limit_applies_per_credential")],
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
                ("crates/server/src/admin/api.rs", "a_request_without_a_permit_in_time_gets_503"),
                ("crates/runtime/src/memory.rs", "a_reservation_is_capped_at_the_whole_budget"),
            ],
            &[
                ("crates/runtime/src/context.rs", "reads: Memory::new(settings.limits.memory / 4),"),
                ("crates/runtime/src/settings.rs", "memory: 64 << 20,"),
                (
                    "crates/runtime/src/history_memory.rs",
                    "const READ_PATIENCE: Duration = Duration::from_secs(5);",
                ),
            ],
        ),
    ),
    (
        "texts that are checked, edited or completed",
        elsewhere(
            &[("crates/server/src/admin/api.rs", "a_request_without_a_permit_in_time_gets_503")],
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
                    "unauthenticated_connections_never_block_authenticated_ones",
                ),
                (
                    "crates/server/src/net/slots.rs",
                    "an_unauthenticated_connection_evicts_only_the_oldest_unauthenticated_one",
                ),
                (
                    "crates/server/src/net/slots.rs",
                    "a_credential_that_holds_all_slots_loses_its_oldest_to_others",
                ),
                ("crates/server/tests/http/streams.rs", "the_number_of_streams_is_bounded"),
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
            &[("crates/server/tests/http/runs.rs", "a_run_that_outlasts_the_wait_continues")],
            &[("crates/server/src/options.rs", "wait: Duration::from_secs(30),")],
        ),
    ),
];

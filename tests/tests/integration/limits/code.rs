//! Files and code: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "a YAML file",
        elsewhere(
            &[
                (
                    "crates/text/src/yaml/tests/limits.rs",
                    "a_file_of_256_kib_is_accepted_and_one_byte_more_is_rejected",
                ),
                (
                    "crates/text/src/yaml/tests/limits.rs",
                    "thirty_two_levels_are_accepted_and_one_more_is_rejected",
                ),
                (
                    "crates/text/src/yaml/tests/limits.rs",
                    "twenty_thousand_nodes_are_accepted_and_one_more_is_rejected",
                ),
                (
                    "crates/text/src/yaml/tests/limits.rs",
                    "a_hundred_aliases_are_accepted_and_one_more_is_rejected",
                ),
                ("crates/text/src/yaml/tests/limits.rs", "nodes_below_anchors_count_once_for_each_anchor"),
            ],
            &[],
        ),
    ),
    (
        "parts of a result type",
        elsewhere(
            &[
                ("crates/model/src/action/result.rs", "a_type_is_bounded_up_to_the_maximum_number_of_parts"),
                (
                    "crates/connector/src/manifest/tests/types.rs",
                    "a_type_that_expands_exponentially_is_rejected",
                ),
            ],
            &[("crates/model/src/action/result.rs", "pub const MAX_PARTS: usize = 5_000;")],
        ),
    ),
    (
        "files of a project",
        elsewhere(
            &[
                ("crates/catalog/src/snapshot/folder.rs", "the_number_of_project_files_is_limited"),
                ("crates/catalog/src/snapshot/folder.rs", "can_be_listed_agrees_with_a_full_scan"),
                (
                    "crates/catalog/src/project_dir/tests.rs",
                    "only_project_files_inside_the_project_folder_are_read",
                ),
            ],
            &[
                ("crates/catalog/src/snapshot/folder.rs", "const MAX_FILES: usize = 12_000;"),
                ("crates/catalog/src/snapshot/folder.rs", "const MAX_DEPTH: usize = 8;"),
            ],
        ),
    ),
    (
        "a [deployment]",
        elsewhere(
            &[
                (
                    "crates/engine/src/generations/deploy.rs",
                    "a_deployment_limits_its_files_its_bytes_and_its_note",
                ),
                (
                    "crates/server/tests/http/runs.rs",
                    "a_plan_and_an_import_take_bodies_up_to_their_documented_size",
                ),
                (
                    "crates/store-postgres/tests/postgres/main.rs",
                    "a_text_is_stored_once_and_the_last_fifty_generations_are_kept",
                ),
            ],
            &[
                ("crates/engine/src/generations/deploy.rs", "const MAX_FILES: usize = 24_000;"),
                ("crates/engine/src/generations/deploy.rs", "const MAX_BYTES: usize = 32 << 20;"),
                ("crates/engine/src/generations/deploy.rs", "const MAX_NOTE: usize = 1000;"),
                ("crates/store-postgres/src/generations.rs", "const KEPT: i32 = 50;"),
                ("crates/server/src/admin/listener.rs", "const LARGE_BYTES: usize = 32 << 20;"),
            ],
        ),
    ),
    (
        "reported problems of one file",
        elsewhere(
            &[("crates/text/src/diagnostic/collect.rs", "a_flood_is_capped_and_counted")],
            &[("crates/text/src/diagnostic/collect.rs", "pub const MAX_DIAGNOSTICS: usize = 200;")],
        ),
    ),
    (
        "the text of a module",
        elsewhere(
            &[
                ("crates/script/tests/suite/values.rs", "a_module_is_limited_to_a_mebibyte"),
                (
                    "crates/catalog/src/snapshot/folder.rs",
                    "code_of_one_mib_is_read_and_longer_code_is_reported_instead_of_truncated",
                ),
            ],
            &[("crates/script/src/module.rs", "pub const MAX_SOURCE: usize = 1024 * 1024;")],
        ),
    ),
    (
        "heap, stack of a run",
        elsewhere(
            &[
                ("crates/script/tests/suite/hostile.rs", "memory_is_bounded"),
                ("crates/script/tests/suite/hostile.rs", "stacks_are_bounded"),
            ],
            &[
                ("crates/script/src/pool/settings.rs", "memory: 64 * 1024 * 1024,"),
                ("crates/runtime/src/settings.rs", "code_memory: 64 << 20,"),
                ("crates/script/src/worker/isolate.rs", "const MAX_STACK: usize = 1024 * 1024;"),
            ],
        ),
    ),
    (
        "inputs and result of a run",
        elsewhere(
            &[
                (
                    "crates/script/tests/suite/values.rs",
                    "too_large_or_deep_values_are_rejected_with_an_explanation",
                ),
                ("crates/script/tests/suite/values.rs", "a_result_is_limited_to_a_thousand_files"),
                ("crates/script/src/protocol/tests.rs", "messages_are_bounded_in_bytes_and_parts"),
                (
                    "crates/script/src/protocol/tests.rs",
                    "a_result_is_limited_to_64_levels_and_a_million_items",
                ),
            ],
            &[("crates/script/src/protocol/mod.rs", "const MAX_MESSAGE: usize = 8 * 1024 * 1024;")],
        ),
    ),
    (
        "log of a run",
        elsewhere(
            &[("crates/script/tests/suite/contract.rs", "log_lines_are_bounded_in_length_and_number")],
            &[
                ("crates/script/src/protocol/line.rs", "const MAX_LINES: usize = 1_000;"),
                ("crates/script/src/protocol/line.rs", "const MAX_LOG: usize = 64 * 1024;"),
                ("crates/model/src/log.rs", "pub const MAX_CHARS: usize = 4096;"),
            ],
        ),
    ),
    (
        "keys of the state that a run writes",
        elsewhere(
            &[("crates/script/tests/suite/contract.rs", "a_run_is_limited_to_a_thousand_state_keys")],
            &[("crates/script/src/worker/host_state.rs", "const MAX_WRITES: usize = 1_000;")],
        ),
    ),
    (
        "time between the deadline of a run",
        elsewhere(
            &[
                (
                    "crates/script/tests/suite/workers.rs",
                    "a_misbehaving_worker_is_an_error_of_its_own_run_only",
                ),
                ("crates/script/tests/suite/hostile.rs", "loops_end_at_their_deadline"),
            ],
            &[("crates/script/src/pool/mod.rs", "const GRACE: Duration = Duration::from_millis(50);")],
        ),
    ),
    (
        "runs that wait for a worker",
        elsewhere(
            &[("crates/script/tests/suite/workers.rs", "runs_over_the_queue_limit_are_rejected_as_busy")],
            &[
                ("crates/script/src/pool/settings.rs", "queue: 1_000,"),
                ("crates/runtime/src/settings.rs", "queue: self.in_flight,"),
                ("crates/catalog/src/code.rs", "settings.queue = limits.queue.max(settings.queue);"),
                ("crates/catalog/src/code.rs", "const MAX_WAIT: Duration = Duration::from_secs(15 * 60);"),
                (
                    "crates/ingress/src/hooks/code.rs",
                    "const WORKER_WAIT_LIMIT: Duration = Duration::from_secs(10);",
                ),
            ],
        ),
    ),
    (
        "lifetime of a worker",
        elsewhere(
            &[
                ("crates/script/tests/suite/workers.rs", "a_worker_ends_after_its_maximum_of_runs"),
                ("crates/script/tests/suite/workers.rs", "a_worker_over_its_maximum_age_is_not_reused"),
            ],
            &[
                ("crates/script/src/pool/settings.rs", "runs_per_worker: 50_000,"),
                ("crates/script/src/pool/settings.rs", "age: Duration::from_secs(600),"),
                ("crates/script/src/pool/settings.rs", "idle: Duration::from_secs(60),"),
            ],
        ),
    ),
    (
        "consecutive code steps in one batch",
        elsewhere(
            &[
                ("crates/script/tests/suite/sequences.rs", "long_arguments_are_not_batched"),
                (
                    "crates/script/src/worker/sequence.rs",
                    "results_wake_the_pool_after_the_quiet_time_and_no_call_starts_too_late",
                ),
            ],
            &[
                ("crates/script/src/pool/sequence.rs", "pub const MAX_CALLS: usize = 64;"),
                ("crates/script/src/pool/sequence.rs", "pub const MAX_BYTES: usize = 64 * 1024;"),
                ("crates/script/src/pool/settings.rs", "together: Duration::from_millis(20),"),
            ],
        ),
    ),
    (
        "buffering of their results",
        elsewhere(
            &[
                (
                    "crates/script/src/worker/sequence.rs",
                    "results_wake_the_pool_after_the_quiet_time_and_no_call_starts_too_late",
                ),
                ("crates/script/tests/suite/sequences.rs", "replies_keep_their_order_over_pipe_and_socket"),
            ],
            &[
                ("crates/script/src/worker/sequence.rs", "const QUIET: Duration = Duration::from_millis(2);"),
                ("crates/script/src/pool/settings.rs", "together: Duration::from_millis(20),"),
                ("crates/script/src/worker/transport.rs", "const MAX_PIPE_MESSAGE: usize = 4096;"),
            ],
        ),
    ),
    (
        "code of a synchronous execution",
        elsewhere(
            &[
                (
                    "crates/engine/tests/suite/code.rs",
                    "an_execution_with_slow_code_is_stored_while_the_code_runs",
                ),
                ("crates/engine/tests/suite/code.rs", "a_synchronous_execution_of_short_code_is_one_write"),
            ],
            &[(
                "crates/runtime/src/admission/accept.rs",
                "const CODE_GRACE: Duration = Duration::from_millis(50);",
            )],
        ),
    ),
    (
        "compiled modules that a worker caches",
        elsewhere(
            &[("crates/script/src/worker/isolates.rs", "the_least_recently_used_module_is_evicted")],
            &[
                ("crates/script/src/protocol/mod.rs", "const MAX_MODULES: usize = 1_024;"),
                ("crates/script/src/worker/isolates.rs", "const MAX_SOURCES: usize = 8 * 1024 * 1024;"),
            ],
        ),
    ),
];

//! Secrets of providers: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

const PROVIDER: &str = "crates/runtime/src/secrets/provider.rs";
const PROVIDER_TESTS: &str = "crates/connector/src/secret_provider/tests.rs";
const PROGRAM: &str = "crates/runtime/src/secrets/command.rs";

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "secrets of a [provider]",
        elsewhere(
            &[(PROVIDER, "the_name_that_was_used_least_recently_is_evicted")],
            &[(PROVIDER, "const MAX_NAMES: usize = 1000;")],
        ),
    ),
    (
        "a request to a [secret provider]",
        elsewhere(
            &[
                (PROVIDER_TESTS, "a_frozen_provider_and_an_endless_answer_are_errors_within_the_limits"),
                (PROGRAM, "a_program_that_fails_or_prints_too_much_is_an_error_without_its_output"),
                (PROGRAM, "a_program_that_does_not_end_is_killed_with_its_children"),
            ],
            &[
                ("crates/runtime/src/secrets/sources.rs", "timeout: Duration::from_secs(10),"),
                (
                    "crates/runtime/src/secrets/sources.rs",
                    "COMMAND_TIMEOUT: Duration = Duration::from_secs(5);",
                ),
                ("crates/connector/src/secret_provider/mod.rs", "const RESPONSE_BYTES: usize = 512 << 10;"),
                (PROGRAM, "const MAX_OUTPUT: usize = 64 << 10;"),
            ],
        ),
    ),
    (
        "the time between two requests to a secret provider",
        elsewhere(
            &[
                (
                    PROVIDER,
                    "a_value_is_used_while_its_provider_fails_until_the_limit_and_never_beyond_its_lease",
                ),
                (PROVIDER, "an_answer_ages_at_80_percent_and_ends_with_its_time_or_its_lease"),
            ],
            &[
                (PROVIDER, "const RETRY_AFTER: Duration = Duration::from_secs(5);"),
                (PROVIDER, "const KEEP_ABSENT: Duration = Duration::from_secs(10);"),
            ],
        ),
    ),
    (
        "the time between two reads of a secret whose login",
        elsewhere(
            &[(PROVIDER, "reads_after_a_login_that_stays_refused_are_further_and_further_apart")],
            &[
                (PROVIDER, "const RENEW_AFTER: Duration = Duration::from_secs(1);"),
                (PROVIDER, "const MAX_RENEW_PAUSE: Duration = Duration::from_secs(60);"),
            ],
        ),
    ),
];

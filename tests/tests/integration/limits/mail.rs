//! Mailboxes: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "logins at an SFTP server or a mailbox",
        elsewhere(
            &[
                (
                    "crates/systems/tests/sftp/sessions.rs",
                    "steps_at_the_same_time_have_sessions_of_their_own_of_which_few_are_kept",
                ),
                (
                    "crates/systems/tests/mail/sessions.rs",
                    "steps_at_the_same_time_have_sessions_of_their_own_of_which_few_are_kept",
                ),
                (
                    "crates/systems/src/pool.rs",
                    "a_session_is_kept_for_the_next_call_until_it_is_unused_for_long",
                ),
            ],
            &[
                ("crates/systems/src/pool.rs", "const OF_SERVERS: Size = Size { used: None, kept: 4 };"),
                ("crates/systems/src/pool.rs", "const OF_SERVERS_IDLE: Duration = Duration::from_secs(30);"),
            ],
        ),
    ),
    (
        "messages of `mail.search`",
        elsewhere(
            &[
                (
                    "crates/systems/src/mail/mod.rs",
                    "inputs_that_could_end_a_line_or_a_list_of_the_protocol_are_refused",
                ),
                (
                    "crates/systems/tests/mail/messages.rs",
                    "a_search_fits_all_inputs_and_gives_the_newest_first",
                ),
            ],
            &[("crates/systems/src/mail/mod.rs", "const MAX_FOUND: i64 = 1_000;")],
        ),
    ),
    (
        "a message that `mail.get` reads",
        elsewhere(
            &[
                ("crates/systems/tests/mail/hostile.rs", "a_message_above_the_limits_is_an_error"),
                (
                    "crates/systems/tests/mail/messages.rs",
                    "large_parts_are_read_in_pieces_and_large_texts_are_cut",
                ),
                (
                    "crates/systems/src/mail/client/structure.rs",
                    "parts_have_a_limit_for_their_number_and_their_depth",
                ),
            ],
            &[
                ("crates/systems/src/mail/client/get.rs", "const MAX_SIZE: u64 = 50 << 20;"),
                ("crates/systems/src/mail/client/get.rs", "const MAX_TEXT: usize = 1 << 20;"),
                ("crates/systems/src/mail/client/get.rs", "const PIECE: usize = 256 << 10;"),
                ("crates/systems/src/mail/client/structure.rs", "const MAX_PARTS: usize = 200;"),
                ("crates/systems/src/mail/client/structure.rs", "const MAX_LEVELS: usize = 8;"),
            ],
        ),
    ),
    (
        "a message that `mail.append` stores",
        elsewhere(
            &[("crates/systems/tests/mail/changes.rs", "a_message_above_the_limit_is_not_appended")],
            &[("crates/systems/src/mail/client/append.rs", "const MAX_SIZE: usize = 50 << 20;")],
        ),
    ),
    (
        "messages that a poll of `mail.received`",
        elsewhere(
            &[("crates/systems/tests/mail/arrivals.rs", "many_messages_arrive_in_pages")],
            &[("crates/systems/src/mail/client/search.rs", "const MAX_RECEIVED: usize = 200;")],
        ),
    ),
    (
        "an answer of a mail server (IMAP)",
        elsewhere(
            &[
                (
                    "crates/systems/tests/mail/refusals.rs",
                    "a_server_that_says_nothing_is_given_up_at_the_end_of_the_step",
                ),
                ("crates/systems/tests/mail/hostile.rs", "answers_without_a_limit_end_the_call"),
                ("crates/systems/src/mail/client/limited.rs", "responses_have_limits"),
            ],
            &[
                (
                    "crates/systems/src/mail/client/session.rs",
                    "const ANSWER_TIME: Duration = Duration::from_secs(30);",
                ),
                (
                    "crates/systems/src/connection.rs",
                    "const USUAL_LIMIT: std::time::Duration = std::time::Duration::from_secs(15 * 60);",
                ),
                ("crates/systems/src/mail/client/limited.rs", "const MAX_LINE: usize = 256 << 10;"),
                ("crates/systems/src/mail/client/limited.rs", "const MAX_LITERALS: usize = 512 << 10;"),
                ("crates/systems/src/mail/client/limited.rs", "const MAX_LISTS: usize = 40;"),
            ],
        ),
    ),
];

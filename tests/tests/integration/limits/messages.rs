//! Messages of brokers: the rows that tests elsewhere check.

use super::{Tried, elsewhere};

const SUITE: &str = "crates/engine/tests/suite/brokers.rs";

const REDIS: &str = "crates/systems/tests/brokers/redis/messages.rs";

pub(super) const ROWS: &[(&str, Tried)] = &[
    (
        "one commit of",
        elsewhere(
            &[
                (SUITE, "several_consumers_start_each_message_once"),
                (
                    "crates/systems/tests/brokers/nats/messages.rs",
                    "one_request_takes_no_more_messages_and_bytes_than_it_may",
                ),
            ],
            &[
                ("crates/model/src/automation/trigger.rs", "pub const MAX: usize = 500;"),
                ("crates/model/src/automation/trigger.rs", "Self { max: 100, within: Duration::ZERO }"),
                ("crates/ingress/src/source/intake.rs", "pub(super) const MAX_BYTES: usize = 8 << 20;"),
                ("crates/ingress/src/source/state.rs", "const MAX_INTAKES: usize = 4;"),
            ],
        ),
    ),
    (
        "messages of [AMQP]",
        elsewhere(
            &[
                (
                    "crates/systems/tests/brokers/amqp/messages.rs",
                    "messages_above_the_room_for_them_all_come",
                ),
                (
                    "crates/systems/tests/brokers/amqp/messages.rs",
                    "a_message_comes_again_when_its_time_has_come_and_others_go_on",
                ),
                ("crates/systems/src/amqp/frame.rs", "a_frame_above_the_limit_is_refused_before_it_has_come"),
                ("crates/systems/src/amqp/properties.rs", "broken_and_deep_headers_are_errors"),
            ],
            &[
                ("crates/ingress/src/source/consumer.rs", "const MAX_PREFETCH: usize = 500;"),
                ("crates/model/src/automation/trigger.rs", "Self { max: 100, within: Duration::ZERO }"),
                ("crates/systems/src/amqp/reader.rs", "pub(super) const MAX_HELD: usize = 8 << 20;"),
                ("crates/systems/src/amqp/source.rs", "const MAX_LATER: usize = 1000;"),
                ("crates/systems/src/amqp/frame.rs", "pub(super) const MAX_FRAME: usize = 128 << 10;"),
                ("crates/systems/src/amqp/properties.rs", "const MAX_DEPTH: usize = 16;"),
            ],
        ),
    ),
    (
        "entries of [Redis]",
        elsewhere(
            &[
                (REDIS, "messages_above_the_room_for_them_all_come_and_none_is_held_twice"),
                (REDIS, "an_entry_above_every_limit_is_cut_and_never_copied"),
                (REDIS, "a_source_with_many_failed_entries_reads_no_new_ones"),
                (
                    "crates/systems/src/redis/reply.rs",
                    "replies_beyond_the_limits_are_refused_before_they_have_come",
                ),
            ],
            &[
                ("crates/systems/src/redis/reply.rs", "pub(super) const MAX_VALUE: usize = 8 << 20;"),
                ("crates/systems/src/redis/reply.rs", "const MAX_SKIPPED: u64 = 1 << 30;"),
                ("crates/systems/src/redis/reply.rs", "const MAX_LINE: usize = 64 << 10;"),
                ("crates/systems/src/redis/reply.rs", "const MAX_ITEMS: u64 = 100_000;"),
                ("crates/systems/src/redis/reply.rs", "const MAX_DEPTH: usize = 8;"),
                ("crates/systems/src/redis/source.rs", "const MAX_LATER: usize = 1000;"),
            ],
        ),
    ),
    (
        "a value or an entry that",
        elsewhere(
            &[(
                "crates/systems/tests/brokers/redis/actions.rs",
                "values_have_a_largest_size_and_bytes_are_a_file",
            )],
            &[("crates/systems/src/redis/reply.rs", "pub(super) const MAX_VALUE: usize = 8 << 20;")],
        ),
    ),
    (
        "the body of a message",
        elsewhere(
            &[(
                "crates/ingress/src/source/message.rs",
                "a_body_of_another_form_or_above_max_body_is_an_error",
            )],
            &[
                ("crates/ingress/src/source/message.rs", "const USUAL_BODY: usize = 1 << 20;"),
                ("crates/model/src/automation/trigger.rs", "pub const MAX_BODY: u64 = 8 << 20;"),
            ],
        ),
    ),
    (
        "the ids of accepted messages",
        elsewhere(
            &[(SUITE, "a_lost_acknowledgement_starts_nothing_more")],
            &[(
                "crates/ingress/src/source/intake.rs",
                "const ID_WINDOW: SignedDuration = SignedDuration::from_hours(24 * 7);",
            )],
        ),
    ),
    (
        "attempts with a message that starts nothing",
        elsewhere(
            &[
                (
                    "crates/ingress/src/source/attempts.rs",
                    "attempts_with_a_message_are_counted_and_further_and_further_apart",
                ),
                (SUITE, "a_message_that_starts_nothing_goes_to_the_list_and_others_go_on"),
            ],
            &[
                ("crates/model/src/automation/trigger.rs", "pub const MAX_AFTER: u32 = 100;"),
                ("crates/model/src/automation/trigger.rs", "Self { after: 5, to: None }"),
            ],
        ),
    ),
    (
        "the [message list]",
        elsewhere(
            &[
                ("crates/ingress/src/source/list.rs", "a_kept_message_is_cut_above_its_limits_and_says_so"),
                (SUITE, "a_full_message_list_leaves_further_messages_at_the_broker"),
            ],
            &[
                ("crates/ingress/src/source/list.rs", "const MAX_MESSAGES: usize = 1000;"),
                ("crates/ingress/src/source/list.rs", "const MAX_KEPT: usize = 512 << 10;"),
                ("crates/ingress/src/source/list.rs", "const MAX_HEADERS: usize = 64 << 10;"),
            ],
        ),
    ),
    (
        "pauses before a broker is called again",
        elsewhere(
            &[(SUITE, "a_server_that_ends_or_stands_still_loses_and_repeats_nothing")],
            &[(
                "crates/ingress/src/source/consumer.rs",
                "const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));",
            )],
        ),
    ),
];

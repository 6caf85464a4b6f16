//! `batch`, `poison`, `consumers` and `dedup`: how messages of a broker start executions.

use std::time::Duration;

use expression::Expression;
use model::automation::{MessageBatch, Poison, StreamSettings};
use text::diagnostic::Diagnostics;
use text::yaml::{Field, MapReader};

use crate::load::common::{duration_within, plain};
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::template::expression;

const MAX_BATCH: i64 = MessageBatch::MAX as i64;
const MAX_AFTER: i64 = Poison::MAX_AFTER as i64;
const MAX_CONSUMERS: i64 = StreamSettings::MAX_CONSUMERS as i64;

static BATCH_KEYS: Object = Object {
    what: "a batch",
    keys: &[
        Key::new("max", Shape::Integer(1, MAX_BATCH), "The largest number of messages. Default: 100."),
        Key::new(
            "within",
            Shape::Duration,
            "How long it waits for more messages after the first, at most 30s. Default: 0s, for messages that are there.",
        ),
    ],
    choice: Choice::Any,
};

static POISON_KEYS: Object = Object {
    what: "a setting for poisoned messages",
    keys: &[
        Key::new(
            "after",
            Shape::Integer(1, MAX_AFTER),
            "The number of attempts, after which the message goes to the message list. Default: 5.",
        ),
        Key::new(
            "to",
            Shape::NonBlankText,
            "The subject, queue or stream of the same connection that gets a copy. Default: none.",
        ),
    ],
    choice: Choice::Any,
};

static DEDUP_KEYS: Object = Object {
    what: "an identity of messages",
    keys: &[Key::required(
        "by",
        Shape::Expression,
        "The value that only repetitions of a message share, read from `item`: `item.body.id`.",
    )],
    choice: Choice::Any,
};

pub(super) const BATCH: Key = Key::new(
    "batch",
    Shape::Object(&BATCH_KEYS),
    "With messages of a broker: how many are accepted in one commit, also with `deliver: each`.",
);
pub(super) const POISON: Key = Key::new(
    "poison",
    Shape::Object(&POISON_KEYS),
    "With messages of a broker: a message that cannot start an execution is tried again, and then kept in the message list.",
);
pub(super) const CONSUMERS: Key = Key::new(
    "consumers",
    Shape::Integer(1, MAX_CONSUMERS),
    "With messages of a broker: how many consumers take messages at one time, on all daemons together. Default: 1.",
);

pub(super) const DEDUP: Key = Key::new(
    "dedup",
    Shape::Object(&DEDUP_KEYS),
    "With messages of a broker: what identifies a message, so that a repetition starts nothing. Default: the identity that the broker or the \
     sender has given it.",
);

/// Reads the settings.
pub(super) fn read(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> StreamSettings {
    let batch = batch(reader.take("batch"), diagnostics).map(|batch| (batch, reader.key_span("batch")));
    let poison = poison(reader.take("poison"), diagnostics).map(|poison| (poison, reader.key_span("poison")));
    let consumers = reader.take("consumers").integer(1..=MAX_CONSUMERS);
    let consumers = consumers
        .and_then(|count| u32::try_from(count).ok())
        .map(|count| (count, reader.key_span("consumers")));
    let dedup = dedup(reader.take("dedup"), diagnostics).map(|by| (by, reader.key_span("dedup")));
    StreamSettings { batch, poison, consumers, dedup }
}

fn batch(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<MessageBatch> {
    let mut reader = BATCH_KEYS.open(field.node()?, diagnostics)?;
    let usual = MessageBatch::default();
    let max = reader.take("max").integer(1..=MAX_BATCH).and_then(|max| usize::try_from(max).ok());
    let range = Duration::ZERO..=MessageBatch::MAX_WITHIN;
    let within = duration_within(reader.take("within"), "within", &range, diagnostics);
    reader.finish();
    Some(MessageBatch { max: max.unwrap_or(usual.max), within: within.unwrap_or(usual.within) })
}

fn dedup(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Expression> {
    let mut reader = DEDUP_KEYS.open(field.node()?, diagnostics)?;
    let by = reader.take("by").node().and_then(|node| expression(node, "by", diagnostics));
    reader.finish();
    by
}

fn poison(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Poison> {
    let mut reader = POISON_KEYS.open(field.node()?, diagnostics)?;
    let after = reader.take("after").integer(1..=MAX_AFTER).and_then(|after| u32::try_from(after).ok());
    let to = plain(reader.take("to"), diagnostics).map(str::to_owned);
    reader.finish();
    Some(Poison { after: after.unwrap_or(Poison::default().after), to })
}

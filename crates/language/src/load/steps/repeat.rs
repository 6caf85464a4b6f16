//! `repeat`: a loop that ends by the results of its iterations.

use std::time::Duration;

use model::automation::setting::{REPEAT_DELAY, REPEAT_MAX};
use model::automation::{RepeatStep, Setting, Verb};

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::computed::{count, duration};
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::template::condition;

/// The maximum number of iterations.
const MAX_TURNS: i64 = REPEAT_MAX.most;

static REPEAT_KEYS: Object = Object {
    what: "a repeat",
    keys: &[
        Key::new(
            "until",
            Shape::Expression,
            "An expression, evaluated after each iteration; the loop ends when it is true. Without it there are `max` iterations.",
        ),
        Key::required(
            "max",
            Shape::AnyOf(&[Shape::Integer(1, MAX_TURNS), Shape::WrappedExpression]),
            "The largest number of iterations. If `until` is still false after them, the step fails.",
        ),
        Key::new(
            "delay",
            Shape::AnyOf(&[Shape::Duration, Shape::WrappedExpression]),
            "The pause between iterations. Default: none.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static REPEAT: VerbSpec = VerbSpec {
    word: "repeat",
    what: "a `repeat` step",
    about: "Repeats steps. Its result is that of the last iteration.",
    marks: &["repeat"],
    keys: &[
        Key::required(
            "repeat",
            Shape::Object(&REPEAT_KEYS),
            "When the loop ends: `{until: expression, max: 10, delay: 2s}`.",
        ),
        Key::required(
            "steps",
            Shape::Steps,
            "The steps of an iteration; they read its number, from 0, as `index`.",
        ),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let (mut until, mut max, mut delay) = (None, Setting::Literal(1), Setting::Literal(Duration::ZERO));
    let diagnostics = step.diagnostics();
    match step.object("repeat", &REPEAT_KEYS) {
        Some(mut reader) => {
            if let Some(node) = reader.take("until").node() {
                let written = condition(node, "until", diagnostics);
                until = Some(written.unwrap_or_else(|| step.placeholder_expression("repeat")));
            }
            max = count(reader.take("max"), &REPEAT_MAX, diagnostics).unwrap_or(max);
            delay = duration(reader.take("delay"), &REPEAT_DELAY, diagnostics).unwrap_or(delay);
            reader.finish();
        }
        None => step.note("verb"),
    }
    let steps = step.block("steps").unwrap_or_default();
    Some(Verb::Repeat(RepeatStep { until, max, delay, steps }))
}

//! The words for which a definition needs a level of the language above the first. A later word is one more row of [`WORDS`]; those of
//! expressions are listed by [`expression::Expression::later_word`].

use expression::Reference;
use expression::template::Template;
use model::automation::{Automation, DeclaredTrigger, Level, LeveledWord, SwitchCases, Verb};
use text::diagnostic::Span;

/// A word of a level above the first.
struct Word {
    level: Level,
    /// As authors write it.
    word: &'static str,
    /// Returns the first place at which an automation uses it.
    find: fn(&Automation) -> Option<Span>,
}

/// The words, by level. A word never changes its level once it was released.
static WORDS: &[Word] = &[
    Word {
        level: Level::SECOND,
        word: "defaults",
        find: |automation| automation.declared_defaults.as_ref().map(|defaults| defaults.span),
    },
    Word {
        level: Level::SECOND,
        word: "triggers",
        // The trigger of the key `trigger` has no id of its own.
        find: |automation| trigger(automation, |trigger| trigger.id_span != trigger.span),
    },
    Word {
        level: Level::SECOND,
        word: "inputs of a trigger",
        find: |automation| trigger(automation, |trigger| trigger.inputs.is_some()),
    },
    Word {
        level: Level::SECOND,
        word: "enabled of a trigger",
        find: |automation| trigger(automation, |trigger| trigger.enabled.is_some()),
    },
    Word {
        level: Level::SECOND,
        word: "connection: null",
        find: |automation| {
            step(automation, |verb| matches!(verb, Verb::Action(call) if call.refuses_default))
        },
    },
    Word {
        level: Level::SECOND,
        word: "stop.respond",
        find: |automation| step(automation, |verb| matches!(verb, Verb::Stop { respond: Some(_), .. })),
    },
    Word {
        level: Level::SECOND,
        word: "continue.result",
        find: |automation| {
            let has_result = |result: &Template| result.literal().is_none_or(|value| !value.is_null());
            step(automation, |verb| matches!(verb, Verb::Continue { result } if has_result(result)))
        },
    },
    Word {
        level: Level::SECOND,
        word: "switch with conditions",
        find: |automation| {
            step(
                automation,
                |verb| matches!(verb, Verb::Switch(switch) if matches!(switch.cases, SwitchCases::Conditions(_))),
            )
        },
    },
    Word { level: Level::SECOND, word: "state.take", find: |automation| action(automation, "state.take") },
    Word {
        level: Level::SECOND,
        word: "state.compareAndSet",
        find: |automation| action(automation, "state.compareAndSet"),
    },
];

/// Returns the first word of the highest level that an automation uses; `None` if it needs only the first level.
pub(super) fn find(automation: &Automation) -> Option<LeveledWord> {
    let used = WORDS.iter().filter_map(|word| {
        let span = (word.find)(automation)?;
        Some(LeveledWord { level: word.level, word: word.word.to_owned(), span })
    });
    // Of two words of one level the earlier row counts.
    used.chain(in_expressions(automation))
        .reduce(|found, next| if next.level > found.level { next } else { found })
}

/// Returns the first such trigger.
fn trigger(automation: &Automation, is_used: impl Fn(&DeclaredTrigger) -> bool) -> Option<Span> {
    automation.triggers.iter().find(|trigger| is_used(trigger)).map(|trigger| trigger.span)
}

/// Returns the first step with such a verb.
fn step(automation: &Automation, is_used: impl Fn(&Verb) -> bool) -> Option<Span> {
    let mut found = None;
    automation.walk(&mut |step| {
        if is_used(&step.verb) {
            found = found.or(Some(step.span));
        }
    });
    found
}

fn action(automation: &Automation, name: &str) -> Option<Span> {
    step(automation, |verb| matches!(verb, Verb::Action(call) if call.action.name == name))
}

/// Returns the first word of the highest level in the expressions.
fn in_expressions(automation: &Automation) -> Option<LeveledWord> {
    let mut found = None;
    automation.expressions(&mut |expression| {
        let reads_id = |reference: &Reference| matches!(&*reference.path, [root, name, ..] if root == "trigger" && name == "id");
        let word = expression.later_word();
        let word = word.or_else(|| expression.references().iter().any(reads_id).then_some("trigger.id"));
        if let (None, Some(word)) = (&found, word) {
            let word = word.to_owned();
            found = Some(LeveledWord { level: Level::SECOND, word, span: expression.span() });
        }
    });
    found
}

//! The words for which a definition needs a level of the language above the first. A later word is one more row of [`WORDS`];
//! [`expression::Expression::later_word`] lists the words of expressions.

use expression::template::Template;
use expression::{Expression, Reference};
use model::automation::{
    ActionStep, Automation, DeclaredTrigger, Level, LeveledWord, NameSetting, RepeatStep, Setting, Step,
    SwitchCases, Verb,
};
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
    Word {
        level: Level::SECOND,
        word: "computed `timeout`",
        find: |automation| any_step(automation, |step| matches!(step.timeout, Some(Setting::Computed(_)))),
    },
    Word {
        level: Level::SECOND,
        word: "computed `retry`",
        find: |automation| {
            any_step(automation, |step| step.retry.as_ref().is_some_and(|policy| policy.computed.is_some()))
        },
    },
    Word {
        level: Level::SECOND,
        word: "computed `repeat`",
        find: |automation| {
            let is_computed =
                |loops: &RepeatStep| loops.max.expression().is_some() || loops.delay.expression().is_some();
            step(automation, |verb| matches!(verb, Verb::Repeat(repeat) if is_computed(repeat)))
        },
    },
    Word {
        level: Level::SECOND,
        word: "computed `concurrency`",
        find: |automation| {
            step(
                automation,
                |verb| matches!(verb, Verb::ForEach(each) if each.concurrency.literal().is_none()),
            )
        },
    },
    Word {
        level: Level::SECOND,
        word: "computed `concurrency.limit`",
        find: |automation| automation.concurrency.as_ref()?.limit.expression().map(Expression::span),
    },
    Word {
        level: Level::SECOND,
        word: "connection with `of`",
        find: |automation| {
            let is_selected = |call: &ActionStep| matches!(call.connection, Some(NameSetting::Selected(_)));
            step(automation, |verb| matches!(verb, Verb::Action(call) if is_selected(call)))
        },
    },
    Word {
        level: Level::SECOND,
        word: "call with `of`",
        find: |automation| {
            step(automation, |verb| matches!(verb, Verb::Call(call) if call.automation.literal().is_none()))
        },
    },
    Word { level: Level::SECOND, word: "http.get", find: |automation| action(automation, "http.get") },
    Word { level: Level::SECOND, word: "http.post", find: |automation| action(automation, "http.post") },
    Word { level: Level::SECOND, word: "http.put", find: |automation| action(automation, "http.put") },
    Word { level: Level::SECOND, word: "http.patch", find: |automation| action(automation, "http.patch") },
    Word { level: Level::SECOND, word: "http.delete", find: |automation| action(automation, "http.delete") },
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
    any_step(automation, |step| is_used(&step.verb))
}

/// Returns the first such step.
fn any_step(automation: &Automation, is_used: impl Fn(&Step) -> bool) -> Option<Span> {
    let mut found = None;
    automation.walk(&mut |step| {
        if is_used(step) {
            found = found.or(Some(step.span));
        }
    });
    found
}

/// Returns the first place that names the action: the trigger, or a step.
fn action(automation: &Automation, name: &str) -> Option<Span> {
    let mut calls = automation.triggers.iter().filter_map(|trigger| trigger.on.call());
    let polled = calls.find(|call| call.action.name == name);
    let called = || step(automation, |verb| matches!(verb, Verb::Action(call) if call.action.name == name));
    polled.map(|call| call.action.span).or_else(called)
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

//! The words for which a definition needs a level of the language above the first. A later word is one more row of [`WORDS`];
//! [`expression::Expression::later_word`] lists the words of expressions.

use std::collections::HashSet;
use std::time::Duration;

use expression::Expression;
use expression::template::Template;
use model::automation::{
    ActionStep, Automation, DeclaredTrigger, Level, LeveledWord, NameSetting, RepeatStep, Setting, Step,
    StepRetry, SwitchCases, Trigger, Verb, WaitForStep, WaitOn,
};
use model::engine_event::EngineEventName;
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
        word: "own event",
        find: |automation| trigger(automation, |trigger| trigger.on.own_event().is_some()),
    },
    Word {
        level: Level::SECOND,
        word: "event of the engine",
        find: |automation| trigger(automation, |trigger| EngineEventName::of(&trigger.on).is_some()),
    },
    Word {
        level: Level::SECOND,
        word: "message of a broker",
        find: |automation| {
            trigger(
                automation,
                |trigger| matches!(&trigger.on, Trigger::Event(event) if event.call.action.name.ends_with(".message")),
            )
        },
    },
    Word {
        level: Level::SECOND,
        word: "waitFor.since",
        find: |automation| {
            wait_for(automation, |wait, _| matches!(wait.on, WaitOn::Event { since: Some(_), .. }))
        },
    },
    Word {
        level: Level::SECOND,
        word: "waitFor.until",
        find: |automation| wait_for(automation, |wait, _| wait.until.is_some()),
    },
    Word {
        level: Level::SECOND,
        word: "form by its types",
        find: |automation| {
            wait_for(
                automation,
                |wait, _| matches!(&wait.on, WaitOn::Approval(approval) if approval.short_form),
            )
        },
    },
    Word {
        level: Level::SECOND,
        word: "timeout: 0s",
        find: |automation| {
            let is_zero = |step: &Step| step.timeout == Some(Setting::Literal(Duration::ZERO));
            wait_for(automation, |_, step| is_zero(step))
        },
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
        word: "undo with keys",
        find: |automation| any_step(automation, |step| step.undo.as_ref().is_some_and(|undo| undo.is_map)),
    },
    Word {
        level: Level::SECOND,
        word: "finally of a step",
        find: |automation| any_step(automation, |step| step.finally.is_some()),
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
            any_step(automation, |step| step.retry.as_ref().is_some_and(|retry| retry.is_computed()))
        },
    },
    Word {
        level: Level::SECOND,
        word: "fail with keys",
        find: |automation| step(automation, |verb| matches!(verb, Verb::Fail(fail) if fail.is_map)),
    },
    Word {
        level: Level::SECOND,
        word: "retry with a list or a condition",
        find: |automation| {
            let is_new = |retry: &StepRetry| retry.is_list || retry.conditions().next().is_some();
            any_step(automation, |step| step.retry.as_ref().is_some_and(|retry| is_new(retry)))
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
        word: "parallel.enough",
        find: |automation| {
            step(automation, |verb| matches!(verb, Verb::Parallel(parallel) if parallel.enough.is_some()))
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
    Word {
        level: Level::SECOND,
        word: "executions.cancel",
        find: |automation| action(automation, "executions.cancel"),
    },
    Word { level: Level::SECOND, word: "state.take", find: |automation| action(automation, "state.take") },
    Word {
        level: Level::SECOND,
        word: "state.compareAndSet",
        find: |automation| action(automation, "state.compareAndSet"),
    },
];

/// Returns the first word of the highest level that an automation uses; `None` if it needs only the first level. `short_form` is the first
/// input that is declared by its type alone.
pub(super) fn find(automation: &Automation, short_form: Option<Span>) -> Option<LeveledWord> {
    let short_form = short_form.map(|span| LeveledWord {
        level: Level::SECOND,
        word: "inputs by their type".to_owned(),
        span,
    });
    let used = WORDS.iter().filter_map(|word| {
        let span = (word.find)(automation)?;
        Some(LeveledWord { level: word.level, word: word.word.to_owned(), span })
    });
    // Of two words of one level the earlier row counts.
    used.chain(short_form)
        .chain(in_expressions(automation))
        .reduce(|found, next| if next.level > found.level { next } else { found })
}

/// Returns the first such trigger.
fn trigger(automation: &Automation, is_used: impl Fn(&DeclaredTrigger) -> bool) -> Option<Span> {
    automation.triggers.iter().find(|trigger| is_used(trigger)).map(|trigger| trigger.span)
}

/// Returns the first such `waitFor`.
fn wait_for(automation: &Automation, is_used: impl Fn(&WaitForStep, &Step) -> bool) -> Option<Span> {
    any_step(automation, |step| matches!(&step.verb, Verb::WaitFor(wait) if is_used(wait, step)))
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
    let polled = calls.find(|call| call.action.name == name).map(|call| call.action.span);
    let called = || step(automation, |verb| matches!(verb, Verb::Action(call) if call.action.name == name));
    polled.or_else(called)
}

/// Returns the first word of the highest level in the expressions.
fn in_expressions(automation: &Automation) -> Option<LeveledWord> {
    let items = loop_items(automation);
    let mut found = None;
    automation.expressions(&mut |expression| {
        if found.is_some() {
            return;
        }
        if let Some(word) = expression.later_word().or_else(|| later_path(expression, &items)) {
            let word = word.to_owned();
            found = Some(LeveledWord { level: Level::SECOND, word, span: expression.span() });
        }
    });
    found
}

/// Returns the first path that release 0.1.0 refuses. `items` are names of the file's loops, which hide others.
fn later_path(expression: &Expression, items: &HashSet<&str>) -> Option<&'static str> {
    expression.references().iter().find_map(|reference| {
        let path: Vec<&str> = reference.path.iter().map(|name| name.as_str()).take(4).collect();
        let word = match path.as_slice() {
            ["trigger", "id", ..] => "trigger.id",
            ["execution", "url"] => "execution.url",
            ["steps", _, "ok", ..] => "steps.x.ok",
            ["error", "data", ..] | ["steps", _, "error", "data"] => "error.data",
            // Only closing lists have this name.
            ["outcome", ..] => "outcome",
            _ => return None,
        };
        (!items.contains(path[0])).then_some(word)
    })
}

fn loop_items(automation: &Automation) -> HashSet<&str> {
    let mut items = HashSet::new();
    automation.walk(&mut |step| {
        if let Verb::ForEach(each) = &step.verb {
            items.insert(each.item.as_ref());
        }
    });
    items
}

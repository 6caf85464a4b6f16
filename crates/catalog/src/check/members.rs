//! The members of the values that expressions read, as far as the checker knows them: for completion and hover.

use connector::Registry;
use expression::Link;
use language::load::Unreadable;
use model::ResultType;
use model::automation::{Automation, Handler, Step, Trigger, Verb};
use value::Key;

use super::references::{AUTOMATION, ERROR, EVENT, EXECUTION, OUTCOME, ROOTS, STEP, TRIGGER, WAITING_STEP};
use super::results::{Surroundings, Types, field_types, resolve};
use super::started_by::StartedBy;

/// A member of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name.
    pub name: String,
    /// The type in words, or another short description.
    pub detail: String,
}

/// Lists the members of the value at `path` for the expressions of the step `at`, or of no step. An empty path gives the names in
/// scope.
#[must_use]
pub fn members(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
    path: &[&str],
    at: Option<&str>,
) -> Vec<Member> {
    let plain = |names: &[&str]| {
        let member = |name: &&str| Member { name: (*name).to_owned(), detail: String::new() };
        names.iter().map(member).collect::<Vec<_>>()
    };
    match path {
        [] => {
            let mut roots = plain(&ROOTS);
            roots.extend(loop_names(automation, at));
            roots
        }
        ["steps"] => steps(automation),
        ["steps", id] => {
            let is_waiting =
                find(automation, Some(*id)).is_some_and(|step| matches!(step.verb, Verb::WaitFor(_)));
            plain(if is_waiting { &WAITING_STEP[..] } else { &STEP[..] })
        }
        ["steps" | "outcome", .., "error"] | ["error"] => plain(&ERROR),
        ["outcome"] => plain(&OUTCOME),
        ["vars"] => variables(automation),
        ["inputs"] => {
            let member = |input: &model::InputSpec| Member {
                name: input.name.clone(),
                detail: input.description.clone().unwrap_or_else(|| input.kind.describe()),
            };
            automation.inputs.iter().map(member).collect()
        }
        ["configVars"] => {
            let names: Vec<&str> =
                automation.config_vars.iter().map(|variable| variable.name.name.as_str()).collect();
            plain(&names)
        }
        ["execution"] => plain(&EXECUTION),
        ["automation"] => plain(&AUTOMATION),
        ["event"] => plain(&EVENT),
        ["trigger"] => plain(&TRIGGER),
        ["trigger", "results"] => names_of_triggers(automation, at, trigger::result_names),
        ["trigger", "results", "body"] => names_of_triggers(automation, at, trigger::body_names),
        _ => type_at(automation, unreadable, registry, path, at).map_or_else(Vec::new, |kind| {
            let member = |(name, kind): (String, ResultType)| Member { name, detail: describe(&kind) };
            field_types(&kind).into_iter().map(member).collect()
        }),
    }
}

/// Lists the names that the triggers of a step have.
fn names_of_triggers(
    automation: &Automation,
    at: Option<&str>,
    names: impl Fn(&Trigger) -> &'static [&'static str],
) -> Vec<Member> {
    let started_by = StartedBy::new(automation, Unreadable::NONE);
    let mut members: Vec<Member> = Vec::new();
    for name in started_by.of(find(automation, at)).iter().flat_map(|trigger| names(&trigger.on)) {
        if members.iter().all(|known| known.name != *name) {
            members.push(Member { name: (*name).to_owned(), detail: String::new() });
        }
    }
    members
}

/// Describes the type of the value at `path`; `None` if it is unknown.
#[must_use]
pub fn describe_type(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
    path: &[&str],
    at: Option<&str>,
) -> Option<String> {
    type_at(automation, unreadable, registry, path, at).map(|kind| describe(&kind))
}

/// Returns the texts that the value at `path` can be, if it is one of some texts; else none.
#[must_use]
pub fn possible_texts(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
    path: &[&str],
    at: Option<&str>,
) -> Vec<String> {
    let texts = |kind: &ResultType| match kind {
        ResultType::Choice { options } => options.to_vec(),
        _ => Vec::new(),
    };
    match type_at(automation, unreadable, registry, path, at) {
        Some(ResultType::OneOf { types }) => types.iter().flat_map(texts).collect(),
        Some(kind) => texts(&kind),
        None => Vec::new(),
    }
}

fn type_at(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
    path: &[&str],
    at: Option<&str>,
) -> Option<ResultType> {
    let surroundings = Surroundings {
        saved: &|_| None,
        described: &|_| None,
        called: &|_| None,
        consumers: &|_| Vec::new(),
        spellings: &|_, _| Vec::new(),
    };
    let types = Types::new(automation, unreadable, registry, surroundings);
    let keys: Vec<Key> = path.iter().map(|name| (*name).into()).collect();
    let (kind, depth) = types.base(&keys, find(automation, at))?;
    let link = |name: &&str| {
        if name.parse::<usize>().is_ok() { Link::Item } else { Link::Name((*name).into()) }
    };
    let links: Vec<Link> = path.get(depth..)?.iter().map(link).collect();
    resolve(&kind, &links).ok()
}

fn find<'a>(automation: &'a Automation, id: Option<&str>) -> Option<&'a Step> {
    let mut found = None;
    automation.walk(&mut |step| {
        if id == Some(step.id.as_ref()) {
            found = Some(step);
        }
    });
    found
}

fn steps(automation: &Automation) -> Vec<Member> {
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        let detail = match &step.verb {
            Verb::Action(call) => call.action.name.clone(),
            verb => verb.keyword().to_owned(),
        };
        found.push(Member { name: step.id.to_string(), detail });
    });
    found
}

fn variables(automation: &Automation) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Set(values) = &step.verb {
            for (name, _) in values {
                if !found.iter().any(|known| known.name == **name) {
                    found.push(Member { name: name.to_string(), detail: format!("set by {}", step.id) });
                }
            }
        }
    });
    found
}

/// The names of the loops around a step.
fn loop_names(automation: &Automation, at: Option<&str>) -> Vec<Member> {
    let mut found = Vec::new();
    let Some(at) = at else { return found };
    automation.walk(&mut |step| {
        let mut is_around = false;
        for inner in step.verb.nested_blocks() {
            inner.block.walk(&mut |nested| is_around |= nested.id.as_ref() == at);
        }
        let member =
            |name: &str| Member { name: name.to_owned(), detail: format!("of the loop {}", step.id) };
        match &step.verb {
            Verb::ForEach(each) if is_around => {
                found.push(member(&each.item));
                found.push(member("index"));
            }
            Verb::Repeat(_) if is_around => found.push(member("index")),
            _ => {}
        }
        for (handler, block) in step.handlers() {
            let name = if handler == Handler::Finally { "outcome" } else { "error" };
            block.walk(&mut |nested| {
                if nested.id.as_ref() == at {
                    found.push(Member { name: name.to_owned(), detail: format!("of {}", step.id) });
                }
            });
        }
    });
    found
}

/// A type in words.
fn describe(kind: &ResultType) -> String {
    match kind {
        ResultType::Any => "anything".to_owned(),
        ResultType::Null => "null".to_owned(),
        ResultType::Text => "text".to_owned(),
        ResultType::Integer => "integer".to_owned(),
        ResultType::Number => "number".to_owned(),
        ResultType::Boolean => "boolean".to_owned(),
        ResultType::Choice { options } => format!("one of {}", options.join(", ")),
        ResultType::List { items } => format!("list of {}", describe(items)),
        ResultType::Map { values } => format!("map of {}", describe(values)),
        ResultType::Object(_) => {
            let names: Vec<String> = field_types(kind).into_iter().map(|(name, _)| name).take(8).collect();
            format!("{{{}}}", names.join(", "))
        }
        ResultType::File => "file".to_owned(),
        ResultType::OneOf { types } => types.iter().map(describe).collect::<Vec<_>>().join(" or "),
    }
}

//! `forEach`: a loop over a list.

use std::sync::Arc;

use expression::template::Template;
use model::automation::setting::FOR_EACH_CONCURRENCY;
use model::automation::{ForEachStep, Setting, Verb};
use text::diagnostic::Diagnostic;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::{MAX_NAME, shorten};
use crate::load::computed::count;
use crate::load::keys::{IDENTIFIER, Key, Shape, is_identifier};

/// The default item name.
const ITEM: &str = "item";
/// The maximum number of concurrent iterations.
const MAX_CONCURRENCY: i64 = FOR_EACH_CONCURRENCY.most;
/// The other root names of expressions, which an item must not shadow.
const TAKEN: [&str; 13] = [
    "trigger",
    "steps",
    "inputs",
    "vars",
    "index",
    "error",
    "event",
    "configVars",
    "state",
    "execution",
    "automation",
    "env",
    "secrets",
];

pub(super) static FOR_EACH: VerbSpec = VerbSpec {
    word: "forEach",
    what: "a `forEach` step",
    about: "Runs steps for each item of a list. Its result is the list of the iterations' last results, in order.",
    marks: &["forEach"],
    keys: &[
        Key::required(
            "forEach",
            Shape::ListOrExpression,
            "The list: an expression, without `${{ }}`, or the items themselves.",
        ),
        Key::required(
            "steps",
            Shape::Steps,
            "The steps of an iteration; they read the item as `item` and its position as `index`.",
        ),
        Key::new("as", Shape::Pattern(IDENTIFIER), "A second name of the item, which is also `item`."),
        Key::new(
            "concurrency",
            Shape::AnyOf(&[Shape::Integer(1, MAX_CONCURRENCY), Shape::WrappedExpression]),
            "How many iterations run in parallel. Default: 1, sequentially. With an expression each iteration has variables of its own.",
        ),
        Key::new(
            "failFast",
            Shape::Bool,
            "The first failed iteration ends the loop (`true`), or the others still run and the result of a failed one is `{error}` (`false`). \
             Default: true.",
        ),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let items =
        step.items("forEach").unwrap_or_else(|| Template::Expression(step.placeholder_expression("forEach")));
    let item = item(step);
    let concurrency = count(step.take("concurrency"), &FOR_EACH_CONCURRENCY, step.diagnostics());
    let concurrency = concurrency.unwrap_or(Setting::Literal(1));
    let fail_fast = step.take("failFast").bool().unwrap_or(true);
    let steps = step.block("steps").unwrap_or_default();
    Some(Verb::ForEach(Box::new(ForEachStep { items, item, steps, concurrency, fail_fast })))
}

fn item(step: &mut StepReader<'_, '_, '_>) -> Arc<str> {
    let Some(name) = step.named("as") else {
        if step.take("as").is_present() {
            step.unreadable().note("as");
        }
        return ITEM.into();
    };
    let diagnostic = if TAKEN.contains(&name.name.as_str()) {
        let message = format!("`{}` already means something else in expressions", name.name);
        Diagnostic::error("reserved-name", message, name.span).help("take another name for the item")
    } else if !is_identifier(&name.name) || name.name.len() > MAX_NAME {
        let message = format!("`{}` cannot be the name of an item", shorten(&name.name));
        Diagnostic::error("invalid-name", message, name.span)
            .help("a name has letters, digits and `_`, begins with no digit, and has at most 100 characters")
    } else {
        return name.name.into();
    };
    step.diagnostics().push(diagnostic);
    step.unreadable().note("as");
    ITEM.into()
}

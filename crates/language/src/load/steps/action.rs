//! `action`: calls an action of a connector.

use model::automation::{ActionStep, NameSetting, Verb};
use text::yaml::Kind;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::action_name;
use crate::load::computed::{CONNECTION, CONNECTION_KEYS};
use crate::load::defaults::is_explicit_null;
use crate::load::keys::{ANY_NAME, Key, Shape};

pub(super) static ACTION: VerbSpec = VerbSpec {
    word: "action",
    what: "an `action` step",
    about: "Calls an action of a connector. Its result is that of the action.",
    marks: &["action"],
    keys: &[
        Key::required(
            "action",
            Shape::Pattern(r"^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$"),
            "The action: `connector.action`, such as `wiki.createPage` or `http.request`.",
        ),
        Key::new(
            "connection",
            Shape::Optional(&Shape::AnyOf(&[Shape::NonBlankText, Shape::Object(&CONNECTION_KEYS)])),
            "The connection: the name of a file in `connections/`, or `{name, of}`, with an expression for one of several. \
             Default: that of `defaults`; `null`: none.",
        ),
        Key::new(
            "with",
            Shape::MapOf(ANY_NAME, &Shape::Template),
            "The action's inputs. Values may contain `${{ }}`.",
        ),
        Key::new(
            "debug",
            Shape::Bool,
            "Debug Request: logs the request and the answer, without credentials. Default: false.",
        ),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let action = step.text_or_stand_in("action");
    let action = action.filter(|action| !action.name.is_empty() && action_name(action, step.diagnostics()));
    let action = action.unwrap_or_else(|| step.stand_in("action"));
    let refuses_default = is_explicit_null(step.take("connection"), step.diagnostics());
    let connection = if refuses_default { None } else { connection(step) };
    let with_span = step.key_span("with");
    let with = step.templates("with");
    if with.is_none() && step.take("with").is_present() {
        step.note("with");
    }
    let debug = step.take("debug").bool().unwrap_or(false);
    let with = with.unwrap_or_default();
    Some(Verb::Action(ActionStep { action, connection, refuses_default, with, with_span, debug }))
}

/// The name of a connection, or the selection of one; a placeholder if it cannot be read.
fn connection(step: &mut StepReader<'_, '_, '_>) -> Option<NameSetting> {
    let (field, diagnostics) = (step.take("connection"), step.diagnostics());
    match field.node().map(|node| (node, &node.kind)) {
        Some((node, Kind::Map(_))) => {
            let selection = CONNECTION.read(node, diagnostics, |_| true);
            Some(match selection {
                Some(selection) => NameSetting::Selected(Box::new(selection)),
                None => NameSetting::Literal(step.stand_in("connection")),
            })
        }
        Some(_) if CONNECTION.refuse_expression(field, diagnostics) => {
            Some(NameSetting::Literal(step.stand_in("connection")))
        }
        _ => step.text_or_stand_in("connection").map(NameSetting::Literal),
    }
}

//! Connection files.

use std::sync::Arc;

use model::automation::SpannedName;
use model::connection::Connection;
use text::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use text::yaml::Node;

use super::common::{named, shorten};
use super::keys::{ANY_NAME, Choice, Key, Object, Shape, is_identifier};
use super::template::template;
use super::{Partial, Unreadable};

pub(crate) static CONNECTION: Object = Object {
    what: "a connection",
    keys: &[
        Key::required(
            "type",
            Shape::Pattern(r"^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$"),
            "The type that a connector declares, such as `wiki.basic`.",
        ),
        Key::new("description", Shape::Text, "The purpose, for people."),
        Key::new(
            "with",
            Shape::MapOf(ANY_NAME, &Shape::Template),
            "The type's inputs. Refer to secrets, never write them: `${{ secrets.wikiToken }}`.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) fn read(
    node: &Node,
    stem: &str,
    source: Arc<Source>,
    diagnostics: &Diagnostics,
) -> Option<Partial<Connection>> {
    if !is_connection_name(stem) {
        let message = format!("the file's name `{}` cannot be the name of a connection", shorten(stem));
        diagnostics
            .push(Diagnostic::error("invalid-name", message, Span::at(node.span.start as usize)).help(
                "rename the file: a name has letters, digits, `_` and `-`, and at most 100 characters",
            ));
    }
    let mut reader = CONNECTION.open(node, diagnostics)?;
    let mut unreadable = Unreadable::new();
    let kind = named(reader.take("type"), diagnostics).filter(|kind| is_type(kind, diagnostics));
    let kind = kind.unwrap_or_else(|| {
        unreadable.note("type");
        SpannedName { name: String::new(), span: reader.key_span("type") }
    });
    let description = reader.take("description").string().map(str::to_owned);
    let written = reader.take("with");
    let with = written.entries();
    if with.is_none() && (written.is_present() || reader.unknown_entries().next().is_some()) {
        unreadable.note("with");
    }
    let with = with.map(|entries| {
        let read = entries.iter().map(|entry| {
            let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
            (name, template(&entry.value, diagnostics))
        });
        read.collect()
    });
    reader.finish();
    let value = Connection {
        name: stem.to_owned(),
        kind: kind.name,
        kind_span: kind.span,
        with: with.unwrap_or_default(),
        description,
        source,
    };
    Some(Partial { value, unreadable })
}

fn is_connection_name(stem: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !stem.is_empty() && stem.len() <= super::common::MAX_NAME && stem.bytes().all(fine)
}

/// Checks the form of a connection type's name. The connector registry checks if the type exists.
fn is_type(kind: &SpannedName, diagnostics: &Diagnostics) -> bool {
    let parts = kind.name.split_once('.');
    if parts.is_some_and(|(connector, name)| is_identifier(connector) && is_identifier(name)) {
        return true;
    }
    let message = format!("`{}` is no name of a connection type", shorten(&kind.name));
    diagnostics.push(
        Diagnostic::error("invalid-type", message, kind.span)
            .help("write the connector, a dot and the type, like `wiki.basic`"),
    );
    false
}

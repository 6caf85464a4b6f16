//! `connections/NAME.types.yaml`: the statements of a connection with the types that its database states. `cogwork connections describe`
//! writes it.

use model::described::{DescribedStatement, DescribedStatements, NamedType};
use text::diagnostic::Diagnostics;
use text::yaml::{Field, Node};

use super::keys::{ANY_NAME, Choice, Key, Object, Shape};
use super::{Partial, Unreadable};

static DESCRIBED: Object = Object {
    what: "the description of statements",
    keys: &[Key::required(
        "statements",
        Shape::List(&Shape::Object(&STATEMENT)),
        "The statements of the connection.",
    )],
    choice: Choice::Any,
};

static STATEMENT: Object = Object {
    what: "a described statement",
    keys: &[
        Key::required("sql", Shape::Text, "The statement, as a step has it."),
        Key::new("parameters", Shape::MapOf(ANY_NAME, &Shape::Text), "The type of each parameter."),
        Key::new("columns", Shape::MapOf(ANY_NAME, &Shape::Text), "The type of each column."),
    ],
    choice: Choice::Any,
};

pub(super) fn read(node: &Node, diagnostics: &Diagnostics) -> Option<Partial<DescribedStatements>> {
    let mut reader = DESCRIBED.open(node, diagnostics)?;
    let mut value = DescribedStatements::default();
    for item in reader.take("statements").list().unwrap_or_default() {
        let Some(mut reader) = STATEMENT.open(item, diagnostics) else { continue };
        let sql = reader.take("sql").string().map(str::to_owned);
        let described = DescribedStatement {
            parameters: named_types(reader.take("parameters")),
            columns: named_types(reader.take("columns")),
        };
        value.statements.extend(sql.map(|sql| (sql, described)));
        reader.finish();
    }
    reader.finish();
    Some(Partial { value, unreadable: Unreadable::new() })
}

fn named_types(field: Field<'_, '_>) -> Vec<NamedType> {
    let entries = field.entries().into_iter().flat_map(text::yaml::Map::iter);
    let named = entries.filter_map(|entry| {
        Some(NamedType { name: entry.key.clone(), kind: entry.value.as_str()?.to_owned() })
    });
    named.collect()
}

//! Reads the pagination of a connector.

use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader};

use super::input::DeclaredInput;
use crate::manifest::{CursorPages, Head, Next, NextSource, NumberedPages, Paging, PagingStyle, Unit};

/// Reads the `paging` section.
pub(super) fn read(mut reader: MapReader<'_, '_>) -> Paging {
    let input = reader.required("input").name().unwrap_or_default().to_owned();
    let style = match reader.take("style").choice(&["cursor", "page", "offset", "graphql"]) {
        Some("page") => {
            let first = reader.take("first").integer(0..=1).unwrap_or(1);
            counted(&mut reader, Unit::Page { first })
        }
        Some("offset") => counted(&mut reader, Unit::Offset),
        Some("graphql") => PagingStyle::GraphQl,
        _ => {
            let next = next(reader.required("next"));
            let more = reader.take("more").name().map(str::to_owned);
            PagingStyle::Cursor(CursorPages { next, more })
        }
    };
    let text = |field: Field<'_, '_>| field.name().map(str::to_owned);
    let (items, limit) = (text(reader.take("items")), text(reader.take("limit")));
    reader.finish();
    Paging { input, style, items, limit }
}

fn counted(reader: &mut MapReader<'_, '_>, unit: Unit) -> PagingStyle {
    let more = reader.take("more").name().map(str::to_owned);
    let total = reader.take("total").name().map(str::to_owned);
    PagingStyle::NumberedPages(NumberedPages { unit, more, total })
}

fn next(field: Field<'_, '_>) -> Vec<Next> {
    let mut next = Vec::new();
    for item in field.items().unwrap_or_default() {
        let Some(mut item) = item.map("a place of the next cursor") else { continue };
        let source = match item.exactly_one_of(&["body", "bodyLink", "lastItem", "link", "header"]) {
            Some("body") => item.take("body").name().map(|path| NextSource::Body(path.to_owned())),
            Some("bodyLink") => {
                item.take("bodyLink").name().map(|path| NextSource::BodyLink(path.to_owned()))
            }
            Some("lastItem") => {
                item.take("lastItem").name().map(|path| NextSource::LastItem(path.to_owned()))
            }
            Some("link") => item.take("link").name().map(|relation| NextSource::Link(relation.to_owned())),
            Some(_) => item.take("header").name().map(|name| NextSource::Header(name.to_owned())),
            None => None,
        };
        let parameter = item.take("parameter").name().map(str::to_owned);
        if matches!(source, Some(NextSource::Link(_))) && parameter.is_none() {
            item.required("parameter");
        }
        item.finish();
        next.extend(source.map(|source| Next { source, parameter }));
    }
    next
}

/// Reports undeclared inputs in `paging`.
pub(super) fn check(
    head: &Head,
    declared: &[DeclaredInput],
    reader: &MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) {
    let Some(paging) = &head.paging else { return };
    let named = [("input", Some(paging.input.as_str())), ("limit", paging.limit.as_deref())];
    for (key, name) in named {
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        if declared.iter().any(|input| input.spec.name == name) {
            continue;
        }
        let message = format!("`{name}` is not an input of this connector");
        let span = reader.node().get("paging").and_then(|node| node.get(key)).map(|node| node.span);
        let names = declared.iter().map(|input| input.spec.name.as_str());
        let diagnostic = Diagnostic::error("unknown-input", message, span.unwrap_or_default());
        diagnostics.push(diagnostic.expected_names(name, names));
    }
}

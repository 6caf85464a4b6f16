//! The paths that a JSONPath query reads, as far as they are known statically.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, JpQuery, Segment, Selector, SingularQuery,
    SingularQuerySegment, Test, TestFunction,
};

use crate::{Link, Reference};

/// The paths that a query reads: its own first (a path of no names, as for `$..id`, reads everything), then the paths used in
/// its filters, which are always optional.
pub(super) fn references(query: &JpQuery, singular: bool) -> Vec<Reference> {
    let mut found = Vec::new();
    follow(Some(Vec::new()), &query.segments, !singular, &mut found);
    found
}

/// Adds the path of a query, and the paths in its filters. From an unknown position, adds only the latter.
fn follow(from: Option<Vec<Link>>, segments: &[Segment], optional: bool, found: &mut Vec<Reference>) {
    let (mut links, mut inside) = (from, Vec::new());
    let mut known = links.clone();
    for segment in segments {
        let next = match segment {
            Segment::Selector(Selector::Name(name)) => Some(Link::Name(name.into())),
            Segment::Selector(Selector::Index(_)) => Some(Link::Item),
            Segment::Selector(_) => Some(Link::Every),
            Segment::Selectors(_) | Segment::Descendant(_) => None,
        };
        links = links.zip(next).map(|(mut links, link)| {
            links.push(link);
            links
        });
        known = links.clone().or(known);
        filters(segment, links.as_deref(), &mut inside);
    }
    found.extend(known.map(|links| Reference::new(links, optional)));
    found.append(&mut inside);
}

/// Adds the paths in the filters of a segment, which apply to each item.
fn filters(segment: &Segment, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    let selectors = match segment {
        Segment::Descendant(inner) => return filters(inner, None, found),
        Segment::Selector(selector) => std::slice::from_ref(selector),
        Segment::Selectors(selectors) => selectors,
    };
    for selector in selectors {
        if let Selector::Filter(inner) = selector {
            filter(inner, item, found);
        }
    }
}

fn filter(filter: &Filter, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => {
            parts.iter().for_each(|part| self::filter(part, item, found));
        }
        Filter::Atom(FilterAtom::Filter { expr, .. }) => self::filter(expr, item, found),
        Filter::Atom(FilterAtom::Test { expr, .. }) => test(expr, item, found),
        Filter::Atom(FilterAtom::Comparison(comparison)) => compared(comparison, item, found),
    }
}

fn test(test: &Test, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    match test {
        Test::RelQuery(segments) => follow(item.map(<[Link]>::to_vec), segments, true, found),
        Test::AbsQuery(query) => follow(Some(Vec::new()), &query.segments, true, found),
        Test::Function(called) => function(called, item, found),
    }
}

fn compared(comparison: &Comparison, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    let (left, right) = comparison.vals();
    for side in [left, right] {
        match side {
            Comparable::Literal(_) => {}
            Comparable::Function(called) => function(called, item, found),
            Comparable::SingularQuery(query) => singular(query, item, found),
        }
    }
}

fn singular(query: &SingularQuery, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    let (from, segments) = match query {
        SingularQuery::Current(segments) => (item, segments),
        SingularQuery::Root(segments) => (Some(&[][..]), segments),
    };
    let links = segments.iter().map(|segment| match segment {
        SingularQuerySegment::Index(_) => Link::Item,
        SingularQuerySegment::Name(name) => Link::Name(name.into()),
    });
    found.extend(from.map(|from| Reference::new(from.iter().cloned().chain(links).collect(), true)));
}

fn function(called: &TestFunction, item: Option<&[Link]>, found: &mut Vec<Reference>) {
    let mut argument = |argument: &FnArg| match argument {
        FnArg::Literal(_) => {}
        FnArg::Test(inner) => test(inner, item, found),
        FnArg::Filter(inner) => filter(inner, item, found),
    };
    match called {
        TestFunction::Custom(_, given) => given.iter().for_each(argument),
        TestFunction::Length(given) => argument(given),
        TestFunction::Value(given) | TestFunction::Count(given) => argument(given),
        TestFunction::Search(text, pattern) | TestFunction::Match(text, pattern) => {
            argument(text);
            argument(pattern);
        }
    }
}

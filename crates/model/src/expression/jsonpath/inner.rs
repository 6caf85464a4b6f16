//! The queries inside a query that begin at the root again: `$.steps.list.results[?@.id == $.vars.id]`.

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, FnArg, JpQuery, Segment, Selector, SingularQuery, SingularQuerySegment,
    Test, TestFunction,
};

use super::step;
use crate::expression::path::Segment as Step;

/// Calls `visit` with the names that each of them begins with.
pub(super) fn visit(segments: &[Segment], visit: &mut dyn FnMut(Vec<String>)) {
    segments.iter().for_each(|inner| segment(inner, visit));
}

/// The names that a query begins with.
pub(super) fn names<'a>(steps: impl Iterator<Item = Option<&'a Step>>) -> Vec<String> {
    let names = steps.map_while(|step| match step {
        Some(Step::Name(name)) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

fn segment(segment: &Segment, visit: &mut dyn FnMut(Vec<String>)) {
    match segment {
        Segment::Descendant(inner) => self::segment(inner, visit),
        Segment::Selector(selector) => self::selector(selector, visit),
        Segment::Selectors(selectors) => selectors.iter().for_each(|inner| selector(inner, visit)),
    }
}

fn selector(selector: &Selector, visit: &mut dyn FnMut(Vec<String>)) {
    if let Selector::Filter(inner) = selector {
        filter(inner, visit);
    }
}

fn filter(filter: &Filter, visit: &mut dyn FnMut(Vec<String>)) {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => parts.iter().for_each(|part| self::filter(part, visit)),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => self::filter(expr, visit),
        Filter::Atom(FilterAtom::Test { expr, .. }) => test(expr, visit),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            [left, right].into_iter().for_each(|side| compared(side, visit));
        }
    }
}

fn compared(side: &Comparable, visit: &mut dyn FnMut(Vec<String>)) {
    match side {
        Comparable::Function(called) => function(called, visit),
        Comparable::SingularQuery(SingularQuery::Root(steps)) => {
            let names = steps.iter().map_while(|step| match step {
                SingularQuerySegment::Name(name) => Some(name.clone()),
                SingularQuerySegment::Index(_) => None,
            });
            visit(names.collect());
        }
        Comparable::SingularQuery(SingularQuery::Current(_)) | Comparable::Literal(_) => {}
    }
}

fn test(test: &Test, visit: &mut dyn FnMut(Vec<String>)) {
    match test {
        Test::RelQuery(steps) => self::visit(steps, visit),
        Test::AbsQuery(JpQuery { segments }) => {
            let steps: Vec<Option<Step>> = segments.iter().map(step).collect();
            visit(names(steps.iter().map(Option::as_ref)));
            self::visit(segments, visit);
        }
        Test::Function(called) => function(called, visit),
    }
}

fn function(function: &TestFunction, visit: &mut dyn FnMut(Vec<String>)) {
    match function {
        TestFunction::Custom(_, given) => given.iter().for_each(|given| argument(given, visit)),
        TestFunction::Length(given) => argument(given, visit),
        TestFunction::Value(given) | TestFunction::Count(given) => argument(given, visit),
        TestFunction::Search(text, pattern) | TestFunction::Match(text, pattern) => {
            argument(text, visit);
            argument(pattern, visit);
        }
    }
}

fn argument(argument: &FnArg, visit: &mut dyn FnMut(Vec<String>)) {
    match argument {
        FnArg::Literal(_) => {}
        FnArg::Test(inner) => test(inner, visit),
        FnArg::Filter(inner) => filter(inner, visit),
    }
}

//! Rejects JSONPath queries that `jsonpath-rust` accepts but evaluates wrongly or arbitrarily: function calls that are not well
//! typed (RFC 9535, section 2.4.3), and syntax it misinterprets.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, JpQuery, Segment, Selector, Test, TestFunction,
};

type CheckResult = Result<(), String>;

/// Checks a query.
pub(super) fn check(query: &JpQuery) -> CheckResult {
    segments(&query.segments)
}

fn segments(segments: &[Segment]) -> CheckResult {
    segments.iter().flat_map(selectors).try_for_each(|selector| match selector {
        Selector::Filter(inner) => filter(inner),
        _ => Ok(()),
    })
}

fn selectors(segment: &Segment) -> &[Selector] {
    match segment {
        Segment::Descendant(inner) => selectors(inner),
        Segment::Selector(selector) => std::slice::from_ref(selector),
        Segment::Selectors(selectors) => selectors,
    }
}

fn filter(filter: &Filter) -> CheckResult {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => parts.iter().try_for_each(self::filter),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => self::filter(expr),
        Filter::Atom(FilterAtom::Test { expr, .. }) => test(expr),
        Filter::Atom(FilterAtom::Comparison(comparison)) => compared(comparison),
    }
}

/// Checks an existence test, or a function that returns true or false: only `match` and `search` do.
fn test(test: &Test) -> CheckResult {
    match test {
        Test::Function(function) => match **function {
            TestFunction::Match(..) | TestFunction::Search(..) => call(function),
            TestFunction::Length(_) | TestFunction::Count(_) | TestFunction::Value(_) => {
                let name = name(function);
                Err(format!(
                    "`{name}(…)` is a value, not true or false: compare it, as in `{name}(@.a) == 1`"
                ))
            }
            TestFunction::Custom(..) => call(function),
        },
        query => self::query(query),
    }
}

fn compared(comparison: &Comparison) -> CheckResult {
    let (left, right) = comparison.vals();
    [left, right].into_iter().try_for_each(|side| match side {
        Comparable::Function(function) => value(function),
        Comparable::Literal(_) | Comparable::SingularQuery(_) => Ok(()),
    })
}

/// Checks a call whose result is used as a value.
fn value(function: &TestFunction) -> CheckResult {
    match function {
        TestFunction::Match(..) | TestFunction::Search(..) => {
            Err(format!("`{}(…)` is true or false and stands by itself", name(function)))
        }
        _ => call(function),
    }
}

/// Checks the arguments of a call: `count` and `value` take a query, the others take values.
fn call(function: &TestFunction) -> CheckResult {
    let name = name(function);
    match function {
        TestFunction::Count(argument) | TestFunction::Value(argument) => match argument {
            FnArg::Test(test) if !matches!(**test, Test::Function(_)) => query(test),
            _ => Err(format!("`{name}(…)` takes a query, such as `{name}(@.items[*])`")),
        },
        TestFunction::Length(argument) => value_argument(name, argument),
        TestFunction::Match(text, pattern) | TestFunction::Search(text, pattern) => {
            value_argument(name, text).and_then(|()| value_argument(name, pattern))
        }
        // RFC 9535 has none of the extension functions of `jsonpath-rust`.
        TestFunction::Custom(..) => Err(format!(
            "there is no function `{name}`; there are `length`, `count`, `value`, `match` and `search`"
        )),
    }
}

fn value_argument(name: &str, argument: &FnArg) -> CheckResult {
    match argument {
        FnArg::Literal(_) => Ok(()),
        FnArg::Test(test) => match &**test {
            Test::Function(function) => value(function),
            query if is_singular(query) => Ok(()),
            _ => Err(format!(
                "`{name}(…)` takes a query that selects at most one node, such as `{name}(@.a)`; `count` takes any query"
            )),
        },
        FnArg::Filter(_) => Err(format!("`{name}(…)` takes a value, not a condition")),
    }
}

fn query(query: &Test) -> CheckResult {
    match query {
        Test::RelQuery(steps) => {
            let filters = |segment: &Segment| {
                selectors(segment).iter().any(|selector| matches!(selector, Selector::Filter(_)))
            };
            // `jsonpath-rust` applies the inner filter to the item itself.
            if steps.first().is_some_and(filters) {
                return Err("a filter right after `@` is not supported: `@.name[?…]` is".to_owned());
            }
            segments(steps)
        }
        Test::AbsQuery(query) => check(query),
        Test::Function(_) => Ok(()),
    }
}

fn is_singular(query: &Test) -> bool {
    let (Test::RelQuery(steps) | Test::AbsQuery(JpQuery { segments: steps })) = query else { return false };
    let one = |step: &Segment| matches!(step, Segment::Selector(Selector::Name(_) | Selector::Index(_)));
    steps.iter().all(one)
}

fn name(function: &TestFunction) -> &str {
    match function {
        TestFunction::Length(_) => "length",
        TestFunction::Count(_) => "count",
        TestFunction::Value(_) => "value",
        TestFunction::Match(..) => "match",
        TestFunction::Search(..) => "search",
        TestFunction::Custom(name, _) => name,
    }
}

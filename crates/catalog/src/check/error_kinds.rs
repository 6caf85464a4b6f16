//! The type of errors, and the kinds that authors choose: given by `fail` steps, and compared with the kinds of errors.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use expression::{Expression, Link, Reference};
use model::ResultType;
use model::action::{ErrorKind, ObjectType, ResultField};
use model::automation::{Automation, Verb};
use value::Value;

use super::references::ERROR as MEMBERS;

/// The type of an error: `model::ActionError`.
static ERROR: LazyLock<Arc<ObjectType>> = LazyLock::new(|| {
    let optional = |kind: ResultType| kind.or_null();
    let attempt = ResultType::Object(LOST_ATTEMPT.clone());
    let place = ResultType::object([
        ("file", ResultType::Text),
        ("line", ResultType::Integer),
        ("column", ResultType::Integer.or_null()),
        ("text", ResultType::Text.or_null()),
    ]);
    let field = |name: &'static str| {
        let kind = match name {
            "kind" | "message" | "step" => ResultType::Text,
            "code" | "requestId" => optional(ResultType::Text),
            "status" | "retryAfterMs" => optional(ResultType::Integer),
            "outcomeUnknown" => optional(ResultType::Boolean),
            "lostAttempt" => optional(attempt.clone()),
            "place" => optional(place.clone()),
            _ => ResultType::Any,
        };
        ResultField::new(name, kind)
    };
    Arc::new(ObjectType { fields: MEMBERS.into_iter().map(field).collect(), ..ObjectType::default() })
});

/// The type of `lostAttempt` of an error.
static LOST_ATTEMPT: LazyLock<Arc<ObjectType>> = LazyLock::new(|| {
    let fields = [
        ("attempt", ResultType::Integer),
        ("kind", ResultType::Text),
        ("message", ResultType::Text),
        ("status", ResultType::Integer.or_null()),
        ("requestId", ResultType::Text.or_null()),
    ];
    let fields = fields.map(|(name, kind)| ResultField::new(name, kind)).into();
    Arc::new(ObjectType { fields, ..ObjectType::default() })
});

/// Returns the type of an error.
pub(super) fn error_type() -> ResultType {
    ResultType::Object(ERROR.clone())
}

/// Returns true for the type of an error, or of an attempt that failed with one.
pub(super) fn is_error(kind: &ResultType) -> bool {
    matches!(kind, ResultType::Object(object) if *object == *ERROR || *object == *LOST_ATTEMPT)
}

/// Returns true if a path ends like the kind of an error: `error.kind`, `item.error.kind`.
fn is_kind(read: &Reference) -> bool {
    let mut links = read.links().collect::<Vec<_>>().into_iter().rev();
    ["kind", "error"].into_iter().all(|name| links.next() == Some(Link::Name(name.into())))
}

/// Returns the kinds that the `fail` steps of a file give to their errors.
pub(super) fn given(automation: &Automation) -> Vec<&str> {
    let mut kinds = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Fail(fail) = &step.verb
            && let Some(ErrorKind::Custom(kind)) = &fail.kind
        {
            kinds.push(&**kind);
        }
    });
    kinds
}

/// Returns the kinds, without the engine's own, that a file compares with the kind of an error.
pub(super) fn compared(automation: &Automation) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    // Parsing each expression again takes long.
    if !automation.source.text().contains("error.kind") {
        return kinds;
    }
    let mut note = |expression: &Expression| {
        for compared in expression.comparisons() {
            let [left, right] = &compared.operands;
            for (value, other) in [(left, right), (right, left)] {
                let paths = [value.path.as_ref(), value.items.as_ref()].into_iter().flatten();
                if paths.chain(value.defaulted.as_ref().map(|(path, _)| path)).any(is_kind) {
                    let texts = other.literals.iter().flatten().filter_map(Value::as_str);
                    kinds.extend(texts.filter(|text| !ErrorKind::NAMES.contains(text)).map(str::to_owned));
                }
            }
        }
    };
    automation.walk(&mut |step| step.expressions(&mut note));
    kinds
}

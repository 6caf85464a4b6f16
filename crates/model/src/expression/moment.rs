//! Where and when an expression is evaluated, for the functions that ask: `now()` and `uuid()`.

use std::sync::Arc;

use jiff::Timestamp;
use minijinja::value::{Object, ObjectRepr};
use minijinja::{State, Value as Seen};
use uuid::Uuid;

use crate::value::Value;

/// The name under which the functions find it. No expression can read it: names that begin with `__` are refused.
const NAME: &str = "__moment";

/// What an expression may ask of where it is evaluated. Whoever gives it sees to it that a step that is evaluated again
/// gets the same.
pub trait Moment: Send + Sync + 'static {
    /// The instant.
    fn now(&self) -> Timestamp;

    /// The next UUID.
    fn uuid(&self) -> Uuid;
}

/// The names in force, with the moment among them.
pub(super) fn around(scope: &Value, moment: &Arc<dyn Moment>) -> Seen {
    Seen::from_object(Around { scope: Seen::from(scope), moment: Seen::from_object(Held(moment.clone())) })
}

/// Asks the moment of an evaluation.
pub(super) fn of(
    state: &State<'_, '_>,
    ask: impl FnOnce(&dyn Moment) -> Result<Value, String>,
) -> Result<Value, String> {
    let found = state.lookup(NAME);
    let held = found.as_ref().and_then(|value| value.downcast_object_ref::<Held>());
    match held {
        Some(held) => ask(&*held.0),
        None => Err("it has no value here: nothing is kept of what is read outside of steps".to_owned()),
    }
}

struct Held(Arc<dyn Moment>);

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the moment")
    }
}

impl Object for Held {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

#[derive(Debug)]
struct Around {
    scope: Seen,
    moment: Seen,
}

impl Object for Around {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        if key.as_str() == Some(NAME) {
            return Some(self.moment.clone());
        }
        self.scope.get_item(key).ok().filter(|value| !value.is_undefined())
    }
}

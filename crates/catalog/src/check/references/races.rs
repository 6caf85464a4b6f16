//! Finds data races on variables that concurrent steps set: parallel lists, steps unordered by `needs`, parallel
//! iterations. Each concurrent strand starts with a copy of the variables and sees its own writes; the strands'
//! writes merge where they join. A value must not depend on which strand finishes last.

use expression::template::Template;
use model::automation::{Step, Verb};
use text::diagnostic::{Diagnostic, Span};

use super::Checker;
use super::step_order::{Availability, StepPath};

/// Maximum number of steps compared per variable.
const MAX_SETTERS: usize = 32;

/// Step that sets a variable, with its availability to the reader.
struct Setter<'c, 'a> {
    step: &'a Step,
    path: &'c StepPath<'a>,
    availability: Availability<'a>,
}

/// Read of a variable.
pub(super) struct Reading<'r, 'a> {
    pub(super) name: &'r str,
    pub(super) span: Span,
    /// Reading step; `None` at the end of the file's steps.
    pub(super) reader: Option<&'r StepPath<'a>>,
    pub(super) in_guard: bool,
}

impl<'a> Checker<'a> {
    /// Reports an uncertain value of a variable that at least one earlier step sets.
    pub(super) fn race(&self, reading: &Reading<'_, 'a>, setters: &[&'a Step]) -> Option<Diagnostic> {
        if !self.may_race(setters) {
            return None;
        }
        let setters: Vec<Setter<'_, 'a>> = setters
            .iter()
            .take(MAX_SETTERS)
            .filter_map(|step| {
                let path = self.order.path_of(&step.id)?;
                let availability = match reading.reader {
                    Some(reader) => self.order.availability_to(reader, reading.in_guard, path),
                    None => self.order.availability_at_end(path),
                };
                Some(Setter { step, path, availability })
            })
            .collect();
        if setters.iter().any(|setter| matches!(setter.availability, Availability::Unsure)) {
            return None;
        }
        self.lost_update(reading, &setters)
            .or_else(|| self.concurrent_setters(reading, &setters))
            .or_else(|| self.unordered_setter(reading, &setters))
            .or_else(|| self.last_turn(reading, &setters))
    }

    /// Returns true if any setter runs concurrently with other steps. Excludes most variables quickly.
    fn may_race(&self, setters: &[&Step]) -> bool {
        let paths = || setters.iter().filter_map(|step| self.order.path_of(&step.id));
        paths().any(|path| self.order.is_concurrent(path))
    }

    /// Reports a lost update between parallel iterations: `set: {total: ${{ vars.total + item.price }}}`.
    fn lost_update(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let reader = reading.reader?;
        let own = setters
            .iter()
            .find(|setter| std::ptr::eq(setter.path, reader) || is_same(setter.path, reader))?;
        let (depth, each) = self.order.parallel_loop(reader)?;
        let in_turn = |other: &&Setter<'_, 'a>| {
            matches!(other.availability, Availability::Always | Availability::Maybe(_))
                && self.order.same_list_at(other.path, reader, depth)
        };
        if setters.iter().any(|other| in_turn(&other)) {
            return None;
        }
        let message = format!(
            "`{}` is here what it was before the loop: parallel iterations do not see each other's variables",
            reading.name
        );
        Some(
            Diagnostic::error("racing-variable", message, reading.span)
                .related(each.span, "the iterations of this loop run in parallel")
                .related(own.step.span, "each iteration would set it again")
                .help(format!(
                    "remove `concurrency`, or compute it after the loop from the list `steps.{}.results`",
                    each.id
                )),
        )
    }

    /// Reports two concurrent setters that both finished before the read.
    fn concurrent_setters(
        &self,
        reading: &Reading<'_, 'a>,
        setters: &[Setter<'_, 'a>],
    ) -> Option<Diagnostic> {
        let lasting: Vec<&Setter<'_, 'a>> = setters
            .iter()
            .filter(|setter| is_visible(setter) && !self.is_overwritten(setter, setters))
            .collect();
        for (at, first) in lasting.iter().enumerate() {
            let beside = |other: &&&Setter<'_, 'a>| {
                self.order.concurrent_at(first.path, other.path).is_some()
                    && !sets_the_same(first.step, other.step, reading.name)
            };
            if let Some(second) = lasting[at + 1..].iter().find(beside) {
                let message = format!(
                    "`{}` is set in two places that run side by side: the final value is not certain",
                    reading.name
                );
                return Some(racing(message, reading, first.step, second.step));
            }
        }
        None
    }

    /// Reports a setter that is unordered with the reader because `needs` does not make the reader wait for it.
    fn unordered_setter(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let reader = reading.reader?;
        let before = setters.iter().find(|setter| is_visible(setter))?;
        let beside = setters.iter().filter(|setter| matches!(setter.availability, Availability::Never(_)));
        for other in beside {
            let Some(depth) = self.order.unordered_at(reader, other.path) else { continue };
            let own = |setter: &Setter<'_, 'a>| {
                is_visible(setter) && self.order.same_list_at(setter.path, reader, depth + 1)
            };
            if setters.iter().any(own) || sets_the_same(before.step, other.step, reading.name) {
                continue;
            }
            let message = format!(
                "step `{}` may or may not have set `{}` by now: `needs` does not make this step wait for it",
                other.step.id, reading.name
            );
            return Some(racing(message, reading, before.step, other.step));
        }
        None
    }

    /// Reports a variable set by parallel iterations and read after the loop.
    fn last_turn(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let of_turns =
            setters.iter().filter(|setter| is_visible(setter) && !self.is_overwritten(setter, setters));
        for setter in of_turns {
            let Some((depth, each)) = self.order.parallel_loop(setter.path) else { continue };
            let inside =
                reading.reader.is_some_and(|reader| self.order.same_list_at(setter.path, reader, depth));
            if inside || literal(setter.step, reading.name).is_some() {
                continue;
            }
            let message = format!(
                "each iteration of the loop sets `{}`: here it has the value of the last one",
                reading.name
            );
            return Some(
                Diagnostic::warning("racing-variable", message, reading.span)
                    .related(setter.step.span, "set here, in each iteration")
                    .help(format!("read `steps.{}.results`, the list of the iterations' results", each.id)),
            );
        }
        None
    }

    /// Returns true if another step certainly sets the variable after this one and before the read.
    fn is_overwritten(&self, setter: &Setter<'_, 'a>, setters: &[Setter<'_, 'a>]) -> bool {
        setters.iter().any(|later| {
            matches!(later.availability, Availability::Always)
                && !std::ptr::eq(later.step, setter.step)
                && !matches!(
                    self.order.availability_to(later.path, false, setter.path),
                    Availability::Never(_)
                )
        })
    }
}

fn racing(message: String, reading: &Reading<'_, '_>, first: &Step, second: &Step) -> Diagnostic {
    Diagnostic::error("racing-variable", message, reading.span)
        .related(first.span, format!("`{}` is set here", reading.name))
        .related(second.span, "and here")
        .help("use two different names, or order the steps")
}

fn is_visible(setter: &Setter<'_, '_>) -> bool {
    matches!(setter.availability, Availability::Always | Availability::Maybe(_))
}

fn is_same(first: &StepPath<'_>, second: &StepPath<'_>) -> bool {
    first.len() == second.len() && super::step_order::common_prefix(first, second) == first.len()
}

/// Returns true if both steps set the variable to the same literal, such as `found: true`.
fn sets_the_same(first: &Step, second: &Step, name: &str) -> bool {
    literal(first, name).is_some_and(|value| literal(second, name) == Some(value))
}

/// Returns the literal value that a step assigns to a variable; `None` if it is computed.
fn literal<'s>(step: &'s Step, name: &str) -> Option<&'s value::Value> {
    let Verb::Set(values) = &step.verb else { return None };
    let (_, template) = values.iter().find(|(other, _)| other.as_ref() == name)?;
    Template::literal(template)
}

//! Variables that are set in several places at once: in lists side by side, in steps that `needs` does not put in an
//! order, in turns that run beside each other. Each such strand goes on with the variables as they were where it began
//! and with what it sets itself; the others' come in where the strands meet. What is read there must not hang on which of
//! them was the last.

use model::automation::{Step, Verb};
use model::diagnostic::{Diagnostic, Span};
use model::template::Template;

use super::Checker;
use super::places::{Chain, Seen};

/// How many steps that set one variable are compared with each other.
const MOST_SETTERS: usize = 32;

/// A step that sets a variable, from where the variable is read.
struct Setter<'c, 'a> {
    step: &'a Step,
    chain: &'c Chain<'a>,
    seen: Seen<'a>,
}

/// Where a variable is read.
pub(super) struct Reading<'r, 'a> {
    pub(super) name: &'r str,
    pub(super) span: Span,
    /// From where: the reading step; absent at the end of the file's steps.
    pub(super) reader: Option<&'r Chain<'a>>,
    pub(super) in_guard: bool,
}

impl<'a> Checker<'a> {
    /// What is uncertain of the value of a variable that at least one step has set where it is read.
    pub(super) fn race(&self, reading: &Reading<'_, 'a>, setters: &[&'a Step]) -> Option<Diagnostic> {
        if !self.may_race(setters) {
            return None;
        }
        let setters: Vec<Setter<'_, 'a>> = setters
            .iter()
            .take(MOST_SETTERS)
            .filter_map(|step| {
                let chain = self.places.chain(&step.id)?;
                let seen = match reading.reader {
                    Some(reader) => self.places.seen_by(reader, reading.in_guard, chain),
                    None => self.places.at_the_end(chain),
                };
                Some(Setter { step, chain, seen })
            })
            .collect();
        if setters.iter().any(|setter| matches!(setter.seen, Seen::Unsure)) {
            return None;
        }
        self.lost(reading, &setters)
            .or_else(|| self.two(reading, &setters))
            .or_else(|| self.meanwhile(reading, &setters))
            .or_else(|| self.last_turn(reading, &setters))
    }

    /// Whether anything that sets the variable runs beside something else; of most variables nothing does.
    fn may_race(&self, setters: &[&Step]) -> bool {
        let chains = || setters.iter().filter_map(|step| self.places.chain(&step.id));
        chains().any(|chain| self.places.in_strand(chain))
    }

    /// A turn that adds to what the turns beside it add to as well: `set: {total: ${{ vars.total + item.price }}}`.
    fn lost(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let reader = reading.reader?;
        let own = setters
            .iter()
            .find(|setter| std::ptr::eq(setter.chain, reader) || is_same(setter.chain, reader))?;
        let (depth, each) = self.places.turn_beside(reader)?;
        let in_turn = |other: &&Setter<'_, 'a>| {
            matches!(other.seen, Seen::Always | Seen::Maybe(_))
                && self.places.shares(other.chain, reader, depth)
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
                    "take `concurrency` away, or work it out behind the loop from the list `steps.{}.results`",
                    each.id
                )),
        )
    }

    /// Two steps side by side, both of which have ended where the variable is read.
    fn two(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let lasting: Vec<&Setter<'_, 'a>> = setters
            .iter()
            .filter(|setter| is_visible(setter) && !self.is_overwritten(setter, setters))
            .collect();
        for (at, first) in lasting.iter().enumerate() {
            let beside = |other: &&&Setter<'_, 'a>| {
                self.places.beside(first.chain, other.chain).is_some()
                    && !sets_the_same(first.step, other.step, reading.name)
            };
            if let Some(second) = lasting[at + 1..].iter().find(beside) {
                let message = format!(
                    "`{}` is set in two places that run side by side: which value stays is not certain",
                    reading.name
                );
                return Some(racing(message, reading, first.step, second.step));
            }
        }
        None
    }

    /// A step that `needs` does not make the reading one wait for, so that it may have set the variable by then or not.
    fn meanwhile(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let reader = reading.reader?;
        let before = setters.iter().find(|setter| is_visible(setter))?;
        let beside = setters.iter().filter(|setter| matches!(setter.seen, Seen::Never(_)));
        for other in beside {
            let Some(depth) = self.places.unordered(reader, other.chain) else { continue };
            let own = |setter: &Setter<'_, 'a>| {
                is_visible(setter) && self.places.shares(setter.chain, reader, depth + 1)
            };
            if setters.iter().any(own) || sets_the_same(before.step, other.step, reading.name) {
                continue;
            }
            let message = format!(
                "step `{}` may have set `{}` by now or not: `needs` does not make this one wait for it",
                other.step.id, reading.name
            );
            return Some(racing(message, reading, before.step, other.step));
        }
        None
    }

    /// A variable that each of several turns side by side has set, read behind the loop.
    fn last_turn(&self, reading: &Reading<'_, 'a>, setters: &[Setter<'_, 'a>]) -> Option<Diagnostic> {
        let of_turns =
            setters.iter().filter(|setter| is_visible(setter) && !self.is_overwritten(setter, setters));
        for setter in of_turns {
            let Some((depth, each)) = self.places.turn_beside(setter.chain) else { continue };
            let inside = reading.reader.is_some_and(|reader| self.places.shares(setter.chain, reader, depth));
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

    /// Whether another step sets the variable for certain after this one and before it is read.
    fn is_overwritten(&self, setter: &Setter<'_, 'a>, setters: &[Setter<'_, 'a>]) -> bool {
        setters.iter().any(|later| {
            matches!(later.seen, Seen::Always)
                && !std::ptr::eq(later.step, setter.step)
                && !matches!(self.places.seen_by(later.chain, false, setter.chain), Seen::Never(_))
        })
    }
}

fn racing(message: String, reading: &Reading<'_, '_>, first: &Step, second: &Step) -> Diagnostic {
    Diagnostic::error("racing-variable", message, reading.span)
        .related(first.span, format!("`{}` is set here", reading.name))
        .related(second.span, "and here")
        .help("give the two names of their own, or put them in an order")
}

fn is_visible(setter: &Setter<'_, '_>) -> bool {
    matches!(setter.seen, Seen::Always | Seen::Maybe(_))
}

fn is_same(first: &Chain<'_>, second: &Chain<'_>) -> bool {
    first.len() == second.len() && super::places::shared(first, second) == first.len()
}

/// Whether two steps set a variable to the same value, whichever comes last: a mark such as `found: true`.
fn sets_the_same(first: &Step, second: &Step, name: &str) -> bool {
    literal(first, name).is_some_and(|value| literal(second, name) == Some(value))
}

/// The value that a step sets a variable to, where it is written out.
fn literal<'s>(step: &'s Step, name: &str) -> Option<&'s model::Value> {
    let Verb::Set(values) = &step.verb else { return None };
    let (_, template) = values.iter().find(|(other, _)| other.as_ref() == name)?;
    Template::literal(template)
}

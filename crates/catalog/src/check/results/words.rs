//! Finds texts that a value is compared with and never has, since it is one of some words: `error.kind == 'time-out'`,
//! `outcome.status in ['faild']`, the cases of a `switch`. Codes: `never-equal`, `unreachable-case`.

use expression::{ComparisonSite, DirectPath, Expression, Link, Operand, Reference, Template};
use model::ResultType;
use model::action::ErrorKind;
use model::automation::{Step, SwitchCases, SwitchStep, Verb};
use text::diagnostic::{Diagnostic, nearest};
use value::Value;

use super::compared::is_collection;
use super::{Checker, path_text};
use crate::check::NameKind;
use crate::check::error_kinds;
use crate::check::spelling::fold;
use crate::check::started_by::inside_quotes;

/// The maximum number of variables between a comparison and the value whose words are known.
const MAX_VARIABLES: usize = 4;

/// The texts that a value can be.
pub(in crate::check) struct Words {
    pub(in crate::check) texts: Vec<String>,
    /// False if it can also be another text: only a misspelt word is a mistake then.
    pub(in crate::check) is_closed: bool,
    pub(in crate::check) may_be_null: bool,
    /// True if another system chooses the text, so that later versions of it may have more.
    pub(in crate::check) is_foreign: bool,
    /// True if it is the kind of an error, which other files may give too.
    is_kind: bool,
}

impl Words {
    fn new(texts: Vec<String>, is_closed: bool) -> Self {
        Self { texts, is_closed, may_be_null: false, is_foreign: false, is_kind: false }
    }

    /// Adds what another source of the same value gives.
    fn merge(mut self, other: Self) -> Self {
        self.texts.extend(other.texts);
        Self {
            texts: self.texts,
            is_closed: self.is_closed && other.is_closed,
            may_be_null: self.may_be_null || other.may_be_null,
            is_foreign: self.is_foreign || other.is_foreign,
            is_kind: self.is_kind || other.is_kind,
        }
    }

    pub(in crate::check) fn has(&self, text: &str) -> bool {
        self.texts.iter().any(|known| known == text)
    }

    /// Returns the word that a text resembles.
    pub(in crate::check) fn nearest(&self, text: &str) -> Option<&str> {
        nearest(text, self.texts.iter().map(String::as_str))
    }
}

impl<'a> Checker<'a> {
    /// Reports the texts in a comparison that resemble a word which the value can be. Returns true if there are any.
    pub(super) fn misspelt_words(
        &mut self,
        expression: &'a Expression,
        compared: &ComparisonSite,
        at: Option<&'a Step>,
    ) -> bool {
        let Some((value, other, default)) = sides(expression, compared) else { return false };
        let Some(literals) = &other.literals else { return false };
        let Some(mut words) = self.words(value, at, 0) else { return false };
        words.texts.extend(default.and_then(Value::as_str).map(str::to_owned));
        let texts: Vec<&str> = literals.iter().filter_map(Value::as_str).collect();
        self.add_kinds(&mut words, &texts);
        let wrong = |text: &&str| !words.has(text) && words.nearest(text).is_some();
        let misspelt: Vec<&str> = texts.into_iter().filter(wrong).collect();
        for text in &misspelt {
            let name = path_text(&value.links().collect::<Vec<_>>());
            let holds = if compared.negated { "always" } else { "never" };
            let message = match literals.len() {
                1 => format!("this comparison {holds} holds: {name} is never the text `{text}`"),
                _ => format!("{name} is never the text `{text}`"),
            };
            let names = words.texts.iter().map(String::as_str);
            let place = inside_quotes(expression.text(), &other.at, text);
            let place = place.and_then(|place| expression.place_in(&self.automation.source, place));
            let warning = |span| Diagnostic::warning("never-equal", message, span);
            let diagnostic = match place {
                Some(span) => warning(span).expected_names(text, names),
                None => {
                    let help = words.nearest(text).map(|near| format!("did you mean `{near}`?"));
                    let diagnostic = warning(self.part(expression, other.at.clone())).allowed(names);
                    help.into_iter().fold(diagnostic, Diagnostic::help)
                }
            };
            self.report(diagnostic, at);
        }
        !misspelt.is_empty()
    }

    /// Checks the cases of a `switch` on a value that is one of some words.
    pub(super) fn cases(&mut self, switch: &'a SwitchStep, step: &'a Step) {
        let words = |value: &'a Expression| {
            let Some(DirectPath::One(read)) = value.direct_path() else { return None };
            let mut words = self.words(read, Some(step), 0).or_else(|| self.other_words(read, step))?;
            let names: Vec<&str> = match &switch.cases {
                SwitchCases::Values { cases, .. } => {
                    cases.iter().map(|(name, _)| name.name.as_str()).collect()
                }
                SwitchCases::Conditions(_) => Vec::new(),
            };
            self.add_kinds(&mut words, &names);
            Some(words)
        };
        let found = crate::check::cases::check(switch, words);
        found.into_iter().for_each(|diagnostic| self.report(diagnostic, Some(step)));
    }

    /// Returns the words that the value of a path can be; `None` if it can be any text, or is something else. `depth` is the
    /// number of variables behind which the path stands.
    fn words(&self, read: &Reference, at: Option<&'a Step>, depth: usize) -> Option<Words> {
        match self.member_of_error(read, at) {
            Some("kind") => {
                let own = error_kinds::given(self.automation).into_iter();
                let kinds = ErrorKind::NAMES.into_iter().chain(own).map(str::to_owned);
                return Some(Words { is_kind: true, ..Words::new(kinds.collect(), false) });
            }
            // A step of which the file could not be read may have any id.
            Some("step") => {
                let mut ids = Vec::new();
                self.automation.walk(&mut |step| ids.push(step.id.to_string()));
                return Some(Words::new(ids, false));
            }
            _ => {}
        }
        if let Some(names) = self.names_of_events(read, at) {
            return Some(Words::new(names, false));
        }
        let kind = self.types.reference(read, at);
        if kind != ResultType::Any
            && let Some(words) = self.words_of_variable(read, depth)
        {
            return Some(words);
        }
        let mut words = Words::new(Vec::new(), true);
        for kind in kind.alternatives() {
            match kind {
                ResultType::Choice { options } => words.texts.extend(options.iter().cloned()),
                ResultType::Null => words.may_be_null = true,
                _ => return None,
            }
        }
        words.is_foreign = match &*read.path {
            [root, id, ..] if root == "steps" => {
                self.types.step_of(id).is_some_and(|step| matches!(step.verb, Verb::Action(_)))
            }
            _ => false,
        };
        Some(words).filter(|words| !words.texts.is_empty())
    }

    /// Returns the words of everything that is assigned to a variable; `None` if one of the values can be any text.
    fn words_of_variable(&self, read: &Reference, depth: usize) -> Option<Words> {
        let [root, name] = &*read.path else { return None };
        if root != "vars" || !read.suffix.is_empty() || depth >= MAX_VARIABLES {
            return None;
        }
        let of = |(value, step): (&'a Template, &'a Step)| match value {
            Template::Literal(Value::Null) => {
                Some(Words { may_be_null: true, ..Words::new(Vec::new(), true) })
            }
            Template::Literal(Value::String(text)) => Some(Words::new(vec![text.to_string()], true)),
            Template::Expression(expression) => match expression.direct_path() {
                Some(DirectPath::One(read)) => self.words(read, Some(step), depth + 1),
                _ => None,
            },
            _ => None,
        };
        let mut values = self.types.setters_of(name).into_iter();
        let first = of(values.next()?)?;
        values.try_fold(first, |words, value| Some(words.merge(of(value)?)))
    }

    /// Returns the names of the own events that can have started the execution, if a path reads that name.
    fn names_of_events(&self, read: &Reference, at: Option<&'a Step>) -> Option<Vec<String>> {
        let path: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
        // A `waitFor` has events of its own.
        let is_name =
            path == ["trigger", "results", "event", "name"] || path == ["event", "name"] && at.is_none();
        let triggers = self.types.triggers(at);
        let names: Option<Vec<String>> =
            triggers.iter().map(|trigger| Some(trigger.on.own_event()?.name.name.clone())).collect();
        names.filter(|names| is_name && !names.is_empty())
    }

    /// Returns the values that only a `switch` compares as texts: the ids of triggers, `true` and `false`.
    fn other_words(&self, read: &Reference, step: &'a Step) -> Option<Words> {
        if !read.suffix.is_empty() {
            return None;
        }
        let path: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
        if path == ["trigger", "id"] {
            let ids = self.automation.triggers.iter().map(|trigger| trigger.id.to_string());
            return Some(Words::new(ids.collect(), true));
        }
        let kind = self.types.reference(read, Some(step));
        let is_boolean = |kind: &ResultType| matches!(kind, ResultType::Boolean | ResultType::Null);
        let may_be_null = kind.alternatives().contains(&ResultType::Null);
        if kind == ResultType::Null || !kind.alternatives().iter().all(is_boolean) {
            return None;
        }
        let texts = ["true", "false"].map(str::to_owned).to_vec();
        Some(Words { may_be_null, ..Words::new(texts, true) })
    }

    /// Adds the kinds of errors that other files give and that are these texts, or other spellings of them.
    fn add_kinds(&self, words: &mut Words, texts: &[&str]) {
        if !words.is_kind {
            return;
        }
        for text in texts.iter().filter(|text| !words.has(text)).copied().collect::<Vec<_>>() {
            let given = (self.spellings)(NameKind::GivenKind, &fold(text));
            words.texts.extend(given.into_iter().map(|spelling| spelling.name.to_string()));
        }
    }

    /// Returns the member of an error that a path reads: `kind` or `step`.
    fn member_of_error(&self, read: &Reference, at: Option<&'a Step>) -> Option<&'static str> {
        let (parent, Link::Name(last)) = read.split_last()? else { return None };
        let member = ["kind", "step"].into_iter().find(|member| last == **member)?;
        let kind = self.types.reference(&parent, at);
        let mut values = kind.alternatives().iter().filter(|kind| **kind != ResultType::Null).peekable();
        values.peek()?;
        // The step of an event's error is that of another file.
        let of_event = || {
            let is_it = parent.path.first().is_some_and(|root| root == "trigger");
            member == "kind" && is_it && parent.path.last().is_some_and(|name| name == "error")
        };
        values.all(|kind| error_kinds::is_error(kind) || of_event()).then_some(member)
    }
}

/// Returns the path and the literals of a comparison, and the literal in place of a missing value.
fn sides<'c>(
    expression: &Expression,
    compared: &'c ComparisonSite,
) -> Option<(&'c Reference, &'c Operand, Option<&'c Value>)> {
    let [left, right] = &compared.operands;
    let value = |side: &'c Operand| {
        let defaulted = side.defaulted.as_ref().map(|(path, default)| (path, Some(default)));
        side.path.as_ref().map(|path| (path, None)).or(defaulted)
    };
    // Searching a text for a text is not a list test.
    let (value, other) = match (value(left), value(right), compared.is_containment) {
        (Some(value), None, false) => (value, right),
        (Some(value), None, true) if is_collection(expression, right) => (value, right),
        (None, Some(value), false) => (value, left),
        (None, _, true) => ((right.items.as_ref()?, None), left),
        _ => return None,
    };
    Some((value.0, other, value.1))
}

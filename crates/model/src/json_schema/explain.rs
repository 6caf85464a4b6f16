//! The first failure of a value that a schema does not fit: its place, and the keyword to name in the message.
//!
//! Of several failures side by side, that of the shape that came furthest counts: one that fails in a single place, deep
//! inside, was probably meant, rather than one that fails in several. All of it is charged to what the decision has left.

use std::collections::HashMap;

use super::evaluate::{Evaluation, Key, member_schemas};
use super::keywords::escaped;
use super::message::{self, cut};
use super::program::{Id, Keyword, Members};
use super::scopes::{OUTSIDE, Scope};
use super::{LimitExceeded, ValidationError, assertions};
use crate::value::{Map, Value};

/// The most failures side by side that are compared.
const MAX_FAILURES: usize = 50;
/// The most subschemas on the way to a failure; a cycle has no end.
const MAX_STEPS: usize = 10_000;

/// A step into a value.
#[derive(Clone, Copy)]
pub(super) enum Token<'v> {
    Name(&'v str),
    Index(usize),
}

/// The members of a map, or the items of a list.
pub(super) fn parts(value: &Value) -> Box<dyn Iterator<Item = (Token<'_>, &Value)> + '_> {
    match value {
        Value::List(list) => {
            Box::new(list.0.iter().enumerate().map(|(index, item)| (Token::Index(index), item)))
        }
        Value::Map(map) => Box::new(map.iter().map(|(name, value)| (Token::Name(name), value))),
        _ => Box::new(std::iter::empty()),
    }
}

/// A failure of a subschema.
enum Failure<'v> {
    /// At the value itself, with its message.
    Here(String),
    /// Of a part of the value.
    Part(Id, Token<'v>, &'v Value),
    /// Of subschemas for the same value.
    Shapes(Vec<Id>),
}

/// Finds the first failure of `value`, which does not fit.
///
/// # Errors
/// The budget is spent, or the way to the failure is too long.
pub(super) fn explain(
    evaluation: &mut Evaluation<'_>,
    value: &Value,
) -> Result<ValidationError, LimitExceeded> {
    let mut search = Search { evaluation, lengths: HashMap::new() };
    let (mut id, mut value, mut pointer) = (search.evaluation.program.root, value, String::new());
    let mut scope = OUTSIDE;
    for _ in 0..MAX_STEPS {
        scope = search.enter(id, scope)?;
        match search.furthest(id, value, scope)? {
            Some(Failure::Here(message)) => return Ok(ValidationError { pointer, message }),
            Some(Failure::Part(schema, token, part)) => {
                (id, value) = (schema, part);
                let token = match token {
                    Token::Name(name) => escaped(&cut(name)),
                    Token::Index(index) => index.to_string(),
                };
                pointer = format!("{pointer}/{token}");
            }
            Some(Failure::Shapes(ids)) => {
                let Some(shape) = search.furthest_of(&ids, value, scope)? else { break };
                id = shape;
            }
            None => break,
        }
    }
    Err(LimitExceeded::Depth)
}

struct Search<'e, 'p> {
    evaluation: &'e mut Evaluation<'p>,
    /// The lengths of the ways to failures, by what they are failures of.
    lengths: HashMap<Key, usize>,
}

impl Search<'_, '_> {
    fn enter(&mut self, id: Id, scope: Scope) -> Result<Scope, LimitExceeded> {
        let (program, budget) = (self.evaluation.program, self.evaluation.budget);
        Ok(self.evaluation.scopes.enter(program, scope, program.nodes[id].resource, budget)?)
    }

    /// The failure of a subschema whose way into the value is the longest; of several, the first.
    fn furthest<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        scope: Scope,
    ) -> Result<Option<Failure<'v>>, LimitExceeded> {
        let failures = self.failures(id, value, scope)?;
        let mut best = None;
        for failure in failures {
            let length = self.failure_length(&failure, value, scope)?;
            if best.as_ref().is_none_or(|(most, _)| length > *most) {
                best = Some((length, failure));
            }
        }
        Ok(best.map(|(_, failure)| failure))
    }

    fn furthest_of(&mut self, ids: &[Id], value: &Value, scope: Scope) -> Result<Option<Id>, LimitExceeded> {
        let mut best = None;
        for id in ids {
            let length = self.length(*id, value, scope)?;
            if best.is_none_or(|(most, _)| length > most) {
                best = Some((length, *id));
            }
        }
        Ok(best.map(|(_, id)| id))
    }

    /// The steps into the value up to where its failures part.
    fn length(&mut self, id: Id, value: &Value, scope: Scope) -> Result<usize, LimitExceeded> {
        let scope = self.enter(id, scope)?;
        let key = Evaluation::key(id, value, scope);
        if let Some(length) = self.lengths.get(&key) {
            return Ok(*length);
        }
        self.evaluation.charge_result()?;
        // A subschema that comes back to itself is no way.
        self.lengths.insert(key, 0);
        let failures = self.failures(id, value, scope)?;
        let length = match failures.as_slice() {
            [failure] => self.failure_length(failure, value, scope)?,
            _ => 0,
        };
        self.lengths.insert(key, length);
        Ok(length)
    }

    fn failure_length(
        &mut self,
        failure: &Failure<'_>,
        value: &Value,
        scope: Scope,
    ) -> Result<usize, LimitExceeded> {
        match failure {
            Failure::Here(_) => Ok(0),
            Failure::Part(id, _, part) => Ok(1 + self.length_below(*id, part, scope)?),
            Failure::Shapes(ids) => match ids.as_slice() {
                [id] => self.length_below(*id, value, scope),
                _ => Ok(0),
            },
        }
    }

    fn length_below(&mut self, id: Id, value: &Value, scope: Scope) -> Result<usize, LimitExceeded> {
        self.evaluation.enter_level()?;
        let length = self.length(id, value, scope)?;
        self.evaluation.leave_level();
        Ok(length)
    }

    /// The failures of a subschema side by side, at most some [`MAX_FAILURES`]. One of the wrong type has no others.
    fn failures<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        scope: Scope,
    ) -> Result<Vec<Failure<'v>>, LimitExceeded> {
        let program = self.evaluation.program;
        let node = &program.nodes[id];
        self.evaluation.budget.work(1 + node.keywords.len())?;
        let mut failures = Vec::new();
        for keyword in &node.keywords {
            self.of_keyword(keyword, value, scope, &mut failures)?;
            let decides = matches!(keyword, Keyword::Type(_) | Keyword::Const(_) | Keyword::Enum(_));
            if failures.len() >= MAX_FAILURES || (decides && !failures.is_empty()) {
                return Ok(failures);
            }
        }
        if failures.is_empty()
            && let Some((schema, evaluated)) = self.evaluation.unevaluated_of(id, node, value, scope)?
        {
            for (token, part) in evaluated.rest(value) {
                self.of_part(schema, token, part, scope, &mut failures)?;
            }
        }
        Ok(failures)
    }

    fn of_part<'v>(
        &mut self,
        id: Id,
        token: Token<'v>,
        part: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        if failures.len() < MAX_FAILURES && !self.evaluation.is_valid(id, part, scope)? {
            failures.push(Failure::Part(id, token, part));
        }
        Ok(())
    }

    fn of_keyword<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        match (keyword, value) {
            (Keyword::Ref(id), _) => self.of_shapes(&[*id], value, scope, failures),
            (Keyword::DynamicRef(id, anchor), _) => {
                let target = self.evaluation.scopes.resolve(scope, *anchor).unwrap_or(*id);
                self.of_shapes(&[target], value, scope, failures)
            }
            (Keyword::AllOf(ids), _) => self.of_shapes(ids, value, scope, failures),
            (Keyword::AnyOf(ids) | Keyword::OneOf(ids), _) => {
                self.of_alternatives(keyword, ids, value, scope, failures)
            }
            (Keyword::If { condition, then, otherwise }, _) => {
                let holds = self.evaluation.is_valid(*condition, value, scope)?;
                let branch = if holds { then } else { otherwise };
                self.of_shapes(branch.as_slice(), value, scope, failures)
            }
            (Keyword::DependentSchemas(named), Value::Map(map)) => {
                let present = named.iter().filter(|(name, _)| map.contains_key(name));
                let ids: Vec<Id> = present.map(|(_, id)| *id).collect();
                self.of_shapes(&ids, value, scope, failures)
            }
            (Keyword::Members(members), Value::Map(map)) => self.of_members(members, map, scope, failures),
            (Keyword::Items { prefix, rest }, Value::List(list)) => {
                for (index, item) in list.0.iter().enumerate() {
                    let Some(id) = prefix.get(index).copied().or(*rest) else { break };
                    self.of_part(id, Token::Index(index), item, scope, failures)?;
                }
                Ok(())
            }
            (Keyword::PropertyNames(id), Value::Map(map)) => self.of_names(*id, map, scope, failures),
            (Keyword::Not(id), _) => {
                if self.evaluation.is_valid(*id, value, scope)? {
                    failures.push(Failure::Here("is what it must not be".to_owned()));
                }
                Ok(())
            }
            (Keyword::Contains { .. }, _) => {
                if !self.evaluation.keyword(keyword, value, scope)? {
                    failures.push(Failure::Here(message::of_contains(keyword)));
                }
                Ok(())
            }
            (assertion, _) => {
                let budget = self.evaluation.budget;
                if !assertions::is_valid(assertion, value, budget)? {
                    failures.push(Failure::Here(message::of(assertion, value, budget)?));
                }
                Ok(())
            }
        }
    }

    /// Adds those of the subschemas that the value does not fit, as one failure.
    fn of_shapes<'v>(
        &mut self,
        ids: &[Id],
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        let mut wrong = Vec::new();
        for id in ids {
            if !self.evaluation.is_valid(*id, value, scope)? {
                wrong.push(*id);
            }
        }
        if !wrong.is_empty() {
            failures.push(Failure::Shapes(wrong));
        }
        Ok(())
    }

    fn of_alternatives<'v>(
        &mut self,
        keyword: &Keyword,
        ids: &[Id],
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        let mut fitting = 0;
        for id in ids {
            fitting += usize::from(self.evaluation.is_valid(*id, value, scope)?);
        }
        match fitting {
            0 => failures.push(Failure::Shapes(ids.to_vec())),
            1 => {}
            _ if matches!(keyword, Keyword::OneOf(_)) => {
                failures.push(Failure::Here("is several of what it may be one of".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn of_members<'v>(
        &mut self,
        members: &Members,
        map: &'v Map,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        let mut denied = Vec::new();
        let mut schemas = Vec::new();
        for (name, value) in map.iter() {
            if !member_schemas(members, name, self.evaluation.budget, &mut schemas)? {
                denied.push(name.as_str());
            }
            for id in &schemas {
                self.of_part(*id, Token::Name(name), value, scope, failures)?;
            }
            if failures.len() >= MAX_FAILURES || denied.len() >= MAX_FAILURES {
                break;
            }
        }
        if !denied.is_empty() {
            failures.push(Failure::Here(format!("must not have {}", message::names(denied))));
        }
        Ok(())
    }

    fn of_names<'v>(
        &mut self,
        id: Id,
        map: &'v Map,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        for name in map.keys() {
            if !self.evaluation.is_valid_name(id, name, scope)? {
                failures.push(Failure::Here(format!("must not have the name `{}`", cut(name))));
                break;
            }
        }
        Ok(())
    }
}

//! Finds the first failure of a value that does not match: its pointer, and the keyword to name in the message.
//!
//! Of several failures, the deepest counts: an alternative that fails at one place deep inside was more probably intended than
//! an alternative that fails at several. The remaining budget of the check pays for the search.

use std::collections::HashMap;

use value::{Map, Value};

use super::evaluate::{Evaluation, Key, member_schemas};
use super::keywords::escape_token;
use super::message::{self, truncate};
use super::program::{Id, Keyword, Members};
use super::scopes::{ROOT, Scope};
use super::{LimitExceeded, ValidationError, assertions};

/// The maximum number of failures of one subschema that are compared.
const MAX_FAILURES: usize = 50;
/// The maximum number of subschemas on the path to a failure, since a cycle has no end.
const MAX_STEPS: usize = 10_000;

/// A reference token of a JSON Pointer.
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
    AtValue(String),
    /// In a part of the value.
    InPart(Id, Token<'v>, &'v Value),
    /// In subschemas for the same value.
    InSubschemas(Vec<Id>),
}

/// Finds the first failure of `value`, which does not match.
///
/// # Errors
/// Returns an error if the budget is spent, or the path to the failure is too long.
pub(super) fn find_failure(
    evaluation: &mut Evaluation<'_>,
    value: &Value,
) -> Result<ValidationError, LimitExceeded> {
    let mut search = Search { evaluation, depths: HashMap::new() };
    let (mut id, mut value, mut pointer) = (search.evaluation.program.root, value, String::new());
    let mut scope = ROOT;
    for _ in 0..MAX_STEPS {
        scope = search.enter(id, scope)?;
        match search.deepest_failure(id, value, scope)? {
            Some(Failure::AtValue(message)) => return Ok(ValidationError { pointer, message }),
            Some(Failure::InPart(schema, token, part)) => {
                (id, value) = (schema, part);
                let token = match token {
                    Token::Name(name) => escape_token(&truncate(name)),
                    Token::Index(index) => index.to_string(),
                };
                pointer = format!("{pointer}/{token}");
            }
            Some(Failure::InSubschemas(ids)) => {
                let Some(subschema) = search.deepest_subschema(&ids, value, scope)? else { break };
                id = subschema;
            }
            None => break,
        }
    }
    Err(LimitExceeded::Depth)
}

struct Search<'e, 'p> {
    evaluation: &'e mut Evaluation<'p>,
    /// The memoized depths of failures, by subschema, scope and value.
    depths: HashMap<Key, usize>,
}

impl Search<'_, '_> {
    fn enter(&mut self, id: Id, scope: Scope) -> Result<Scope, LimitExceeded> {
        let (program, budget) = (self.evaluation.program, self.evaluation.budget);
        Ok(self.evaluation.scopes.enter(program, scope, program.nodes[id].resource, budget)?)
    }

    /// The deepest failure of a subschema; of several, the first.
    fn deepest_failure<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        scope: Scope,
    ) -> Result<Option<Failure<'v>>, LimitExceeded> {
        let failures = self.failures(id, value, scope)?;
        let mut best = None;
        for failure in failures {
            let depth = self.failure_depth(&failure, value, scope)?;
            if best.as_ref().is_none_or(|(most, _)| depth > *most) {
                best = Some((depth, failure));
            }
        }
        Ok(best.map(|(_, failure)| failure))
    }

    fn deepest_subschema(
        &mut self,
        ids: &[Id],
        value: &Value,
        scope: Scope,
    ) -> Result<Option<Id>, LimitExceeded> {
        let mut best = None;
        for id in ids {
            let depth = self.subschema_depth(*id, value, scope)?;
            if best.is_none_or(|(most, _)| depth > most) {
                best = Some((depth, *id));
            }
        }
        Ok(best.map(|(_, id)| id))
    }

    /// The number of pointer tokens down to the first point with several failures.
    fn subschema_depth(&mut self, id: Id, value: &Value, scope: Scope) -> Result<usize, LimitExceeded> {
        let scope = self.enter(id, scope)?;
        let key = Evaluation::key(id, value, scope);
        if let Some(depth) = self.depths.get(&key) {
            return Ok(*depth);
        }
        self.evaluation.charge_result()?;
        // A subschema that reaches itself adds no depth.
        self.depths.insert(key, 0);
        let failures = self.failures(id, value, scope)?;
        let depth = match failures.as_slice() {
            [failure] => self.failure_depth(failure, value, scope)?,
            _ => 0,
        };
        self.depths.insert(key, depth);
        Ok(depth)
    }

    fn failure_depth(
        &mut self,
        failure: &Failure<'_>,
        value: &Value,
        scope: Scope,
    ) -> Result<usize, LimitExceeded> {
        match failure {
            Failure::AtValue(_) => Ok(0),
            Failure::InPart(id, _, part) => Ok(1 + self.depth_below(*id, part, scope)?),
            Failure::InSubschemas(ids) => match ids.as_slice() {
                [id] => self.depth_below(*id, value, scope),
                _ => Ok(0),
            },
        }
    }

    fn depth_below(&mut self, id: Id, value: &Value, scope: Scope) -> Result<usize, LimitExceeded> {
        self.evaluation.enter_level()?;
        let depth = self.subschema_depth(id, value, scope)?;
        self.evaluation.leave_level();
        Ok(depth)
    }

    /// The failures of a subschema, at most about [`MAX_FAILURES`]. A failed type assertion hides all others.
    fn failures<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        scope: Scope,
    ) -> Result<Vec<Failure<'v>>, LimitExceeded> {
        let program = self.evaluation.program;
        let node = &program.nodes[id];
        self.evaluation.budget.charge(1 + node.keywords.len())?;
        let mut failures = Vec::new();
        for keyword in &node.keywords {
            self.add_keyword(keyword, value, scope, &mut failures)?;
            let decides = matches!(keyword, Keyword::Type(_) | Keyword::Const(_) | Keyword::Enum(_));
            if failures.len() >= MAX_FAILURES || (decides && !failures.is_empty()) {
                return Ok(failures);
            }
        }
        if failures.is_empty()
            && let Some((schema, evaluated)) = self.evaluation.collect_evaluated(id, node, value, scope)?
        {
            for (token, part) in evaluated.unevaluated_parts(value) {
                self.add_part(schema, token, part, scope, &mut failures)?;
            }
        }
        Ok(failures)
    }

    fn add_part<'v>(
        &mut self,
        id: Id,
        token: Token<'v>,
        part: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        if failures.len() < MAX_FAILURES && !self.evaluation.is_valid(id, part, scope)? {
            failures.push(Failure::InPart(id, token, part));
        }
        Ok(())
    }

    fn add_keyword<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        match (keyword, value) {
            (Keyword::Ref(id), _) => self.add_subschemas(&[*id], value, scope, failures),
            (Keyword::DynamicRef(id, anchor), _) => {
                let target = self.evaluation.scopes.resolve(scope, *anchor).unwrap_or(*id);
                self.add_subschemas(&[target], value, scope, failures)
            }
            (Keyword::AllOf(ids), _) => self.add_subschemas(ids, value, scope, failures),
            (Keyword::AnyOf(ids) | Keyword::OneOf(ids), _) => {
                self.add_alternatives(keyword, ids, value, scope, failures)
            }
            (Keyword::If { condition, then, otherwise }, _) => {
                let holds = self.evaluation.is_valid(*condition, value, scope)?;
                let branch = if holds { then } else { otherwise };
                self.add_subschemas(branch.as_slice(), value, scope, failures)
            }
            (Keyword::DependentSchemas(named), Value::Map(map)) => {
                let present = named.iter().filter(|(name, _)| map.contains_key(name));
                let ids: Vec<Id> = present.map(|(_, id)| *id).collect();
                self.add_subschemas(&ids, value, scope, failures)
            }
            (Keyword::Members(members), Value::Map(map)) => self.add_members(members, map, scope, failures),
            (Keyword::Items { prefix, rest }, Value::List(list)) => {
                for (index, item) in list.0.iter().enumerate() {
                    let Some(id) = prefix.get(index).copied().or(*rest) else { break };
                    self.add_part(id, Token::Index(index), item, scope, failures)?;
                }
                Ok(())
            }
            (Keyword::PropertyNames(id), Value::Map(map)) => self.add_names(*id, map, scope, failures),
            (Keyword::Not(id), _) => {
                if self.evaluation.is_valid(*id, value, scope)? {
                    failures.push(Failure::AtValue("matches a schema that it must not match".to_owned()));
                }
                Ok(())
            }
            (Keyword::Contains { .. }, _) => {
                if !self.evaluation.evaluate_keyword(keyword, value, scope)? {
                    failures.push(Failure::AtValue(message::contains_message(keyword)));
                }
                Ok(())
            }
            (assertion, _) => {
                let budget = self.evaluation.budget;
                if !assertions::is_valid(assertion, value, budget)? {
                    failures.push(Failure::AtValue(message::assertion_message(assertion, value, budget)?));
                }
                Ok(())
            }
        }
    }

    /// Adds the subschemas that the value does not match, as one failure.
    fn add_subschemas<'v>(
        &mut self,
        ids: &[Id],
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        let mut invalid = Vec::new();
        for id in ids {
            if !self.evaluation.is_valid(*id, value, scope)? {
                invalid.push(*id);
            }
        }
        if !invalid.is_empty() {
            failures.push(Failure::InSubschemas(invalid));
        }
        Ok(())
    }

    fn add_alternatives<'v>(
        &mut self,
        keyword: &Keyword,
        ids: &[Id],
        value: &'v Value,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        let mut valid_count = 0;
        for id in ids {
            valid_count += usize::from(self.evaluation.is_valid(*id, value, scope)?);
        }
        match valid_count {
            0 => failures.push(Failure::InSubschemas(ids.to_vec())),
            1 => {}
            _ if matches!(keyword, Keyword::OneOf(_)) => {
                failures.push(Failure::AtValue("matches more than one of the allowed schemas".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn add_members<'v>(
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
                self.add_part(*id, Token::Name(name), value, scope, failures)?;
            }
            if failures.len() >= MAX_FAILURES || denied.len() >= MAX_FAILURES {
                break;
            }
        }
        if !denied.is_empty() {
            failures.push(Failure::AtValue(format!("must not have {}", message::quote_names(denied))));
        }
        Ok(())
    }

    fn add_names<'v>(
        &mut self,
        id: Id,
        map: &'v Map,
        scope: Scope,
        failures: &mut Vec<Failure<'v>>,
    ) -> Result<(), LimitExceeded> {
        for name in map.keys() {
            if !self.evaluation.is_valid_name(id, name, scope)? {
                failures.push(Failure::AtValue(format!("must not have the name `{}`", truncate(name))));
                break;
            }
        }
        Ok(())
    }
}

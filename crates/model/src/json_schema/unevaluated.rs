//! `unevaluatedProperties` and `unevaluatedItems`: the members and items that no other keyword has evaluated.
//!
//! They are found once the value is known to fit all other keywords, by going through the subschemas that it fits. Each
//! subschema that references lead to is gone through once, since the same again evaluates the same.

use std::collections::HashSet;

use super::LimitExceeded;
use super::evaluate::{Evaluation, member_schemas};
use super::explain::{Token, parts};
use super::program::{Additional, Id, Keyword, Node};
use super::scopes::Scope;
use crate::value::Value;

/// The members of a map, or the items of a list, by position.
pub(super) struct Evaluated {
    seen: Vec<bool>,
    left: usize,
    visited: HashSet<(Id, Scope)>,
}

impl Evaluated {
    fn new(count: usize) -> Self {
        Self { seen: vec![false; count], left: count, visited: HashSet::new() }
    }

    fn insert(&mut self, position: usize) {
        if let Some(seen @ false) = self.seen.get_mut(position) {
            *seen = true;
            self.left -= 1;
        }
    }

    fn insert_all(&mut self) {
        self.seen.fill(true);
        self.left = 0;
    }

    /// The parts of `value` that nothing has evaluated.
    pub(super) fn rest<'v>(&self, value: &'v Value) -> impl Iterator<Item = (Token<'v>, &'v Value)> {
        parts(value).zip(&self.seen).filter(|(_, seen)| !**seen).map(|(part, _)| part)
    }
}

impl Evaluation<'_> {
    /// Decides `unevaluatedProperties` and `unevaluatedItems` of a node whose keywords `value` fits.
    pub(super) fn unevaluated(
        &mut self,
        id: Id,
        node: &Node,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Some((schema, evaluated)) = self.unevaluated_of(id, node, value, scope)? else {
            return Ok(true);
        };
        for (_, part) in evaluated.rest(value) {
            if !self.is_valid(schema, part, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The subschema for the unevaluated parts of `value`, and the parts that are evaluated.
    pub(super) fn unevaluated_of(
        &mut self,
        id: Id,
        node: &Node,
        value: &Value,
        scope: Scope,
    ) -> Result<Option<(Id, Evaluated)>, LimitExceeded> {
        let (schema, count) = match value {
            Value::Map(map) => (node.unevaluated_properties, map.len()),
            Value::List(list) => (node.unevaluated_items, list.0.len()),
            _ => (None, 0),
        };
        let Some(schema) = schema else { return Ok(None) };
        self.budget.allocate(count)?;
        let mut evaluated = Evaluated::new(count);
        self.enter_level()?;
        self.collect_keywords(id, value, scope, &mut evaluated)?;
        self.leave_level();
        Ok(Some((schema, evaluated)))
    }

    /// Adds the parts that the subschema `id` evaluates, which `value` fits.
    fn collect(
        &mut self,
        id: Id,
        value: &Value,
        scope: Scope,
        evaluated: &mut Evaluated,
    ) -> Result<(), LimitExceeded> {
        let program = self.program;
        let node = &program.nodes[id];
        self.budget.work(1 + node.keywords.len())?;
        let scope = self.scopes.enter(program, scope, node.resource, self.budget)?;
        if evaluated.left == 0 || (node.memoized && !evaluated.visited.insert((id, scope))) {
            return Ok(());
        }
        let is_complete = match value {
            Value::Map(_) => node.unevaluated_properties.is_some(),
            _ => node.unevaluated_items.is_some(),
        };
        if is_complete {
            evaluated.insert_all();
            return Ok(());
        }
        self.enter_level()?;
        self.collect_keywords(id, value, scope, evaluated)?;
        self.leave_level();
        Ok(())
    }

    /// Adds the parts of a subschema that `value` is not known to fit, if it does.
    fn collect_if_valid(
        &mut self,
        id: Id,
        value: &Value,
        scope: Scope,
        evaluated: &mut Evaluated,
    ) -> Result<bool, LimitExceeded> {
        let valid = self.is_valid(id, value, scope)?;
        if valid {
            self.collect(id, value, scope, evaluated)?;
        }
        Ok(valid)
    }

    fn collect_keywords(
        &mut self,
        id: Id,
        value: &Value,
        scope: Scope,
        evaluated: &mut Evaluated,
    ) -> Result<(), LimitExceeded> {
        let program = self.program;
        for keyword in &program.nodes[id].keywords {
            match keyword {
                Keyword::Ref(id) => self.collect(*id, value, scope, evaluated)?,
                Keyword::DynamicRef(id, anchor) => {
                    let target = self.scopes.resolve(scope, *anchor).unwrap_or(*id);
                    self.collect(target, value, scope, evaluated)?;
                }
                Keyword::AllOf(ids) => {
                    for id in ids {
                        self.collect(*id, value, scope, evaluated)?;
                    }
                }
                Keyword::AnyOf(ids) | Keyword::OneOf(ids) => {
                    for id in ids {
                        self.collect_if_valid(*id, value, scope, evaluated)?;
                    }
                }
                Keyword::If { condition, then, otherwise } => {
                    let holds = self.collect_if_valid(*condition, value, scope, evaluated)?;
                    if let Some(branch) = if holds { then } else { otherwise } {
                        self.collect(*branch, value, scope, evaluated)?;
                    }
                }
                Keyword::DependentSchemas(named) => {
                    let Value::Map(map) = value else { continue };
                    for (name, id) in named {
                        self.budget.work(1)?;
                        if map.contains_key(name) {
                            self.collect(*id, value, scope, evaluated)?;
                        }
                    }
                }
                parts => self.collect_parts(parts, value, scope, evaluated)?,
            }
        }
        Ok(())
    }

    fn collect_parts(
        &mut self,
        keyword: &Keyword,
        value: &Value,
        scope: Scope,
        evaluated: &mut Evaluated,
    ) -> Result<(), LimitExceeded> {
        match (keyword, value) {
            (Keyword::Members(members), Value::Map(map)) => {
                if members.additional != Additional::Unspecified {
                    evaluated.insert_all();
                    return Ok(());
                }
                let mut schemas = Vec::new();
                for (position, (name, _)) in map.iter().enumerate() {
                    member_schemas(members, name, self.budget, &mut schemas)?;
                    if !schemas.is_empty() {
                        evaluated.insert(position);
                    }
                }
            }
            (Keyword::Items { rest: Some(_), .. }, Value::List(_)) => evaluated.insert_all(),
            (Keyword::Items { prefix, .. }, Value::List(list)) => {
                for position in 0..prefix.len().min(list.0.len()) {
                    evaluated.insert(position);
                }
            }
            (Keyword::Contains { schema, .. }, Value::List(list)) => {
                for (position, item) in list.0.iter().enumerate() {
                    if self.is_valid(*schema, item, scope)? {
                        evaluated.insert(position);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

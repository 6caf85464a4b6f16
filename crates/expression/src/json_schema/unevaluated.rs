//! `unevaluatedProperties` and `unevaluatedItems`: the members and items that no other keyword evaluates.
//!
//! Once a value matches all other keywords, this module collects the evaluated parts from the subschemas that it matches. Each
//! target of references is visited once, because a second visit would evaluate the same parts.

use std::collections::HashSet;

use value::Value;

use super::LimitExceeded;
use super::evaluate::{Evaluation, member_schemas};
use super::failure::{Token, parts};
use super::program::{Additional, Id, Keyword, Node};
use super::scopes::Scope;

/// The members of a map, or the items of a list, by position.
pub(super) struct Evaluated {
    evaluated: Vec<bool>,
    remaining: usize,
    visited: HashSet<(Id, Scope)>,
}

impl Evaluated {
    fn new(count: usize) -> Self {
        Self { evaluated: vec![false; count], remaining: count, visited: HashSet::new() }
    }

    fn insert(&mut self, position: usize) {
        if let Some(evaluated @ false) = self.evaluated.get_mut(position) {
            *evaluated = true;
            self.remaining -= 1;
        }
    }

    fn insert_all(&mut self) {
        self.evaluated.fill(true);
        self.remaining = 0;
    }

    /// The parts of `value` that no keyword evaluates.
    pub(super) fn unevaluated_parts<'v>(
        &self,
        value: &'v Value,
    ) -> impl Iterator<Item = (Token<'v>, &'v Value)> {
        parts(value).zip(&self.evaluated).filter(|(_, evaluated)| !**evaluated).map(|(part, _)| part)
    }
}

impl Evaluation<'_> {
    /// Evaluates `unevaluatedProperties` and `unevaluatedItems` of a node whose other keywords `value` matches.
    pub(super) fn is_rest_valid(
        &mut self,
        id: Id,
        node: &Node,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Some((schema, evaluated)) = self.collect_evaluated(id, node, value, scope)? else {
            return Ok(true);
        };
        for (_, part) in evaluated.unevaluated_parts(value) {
            if !self.is_valid(schema, part, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The subschema for the unevaluated parts of `value`, and the set of evaluated parts.
    pub(super) fn collect_evaluated(
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

    /// Adds the parts that the subschema `id`, which `value` matches, evaluates.
    fn collect(
        &mut self,
        id: Id,
        value: &Value,
        scope: Scope,
        evaluated: &mut Evaluated,
    ) -> Result<(), LimitExceeded> {
        let program = self.program;
        let node = &program.nodes[id];
        self.budget.charge(1 + node.keywords.len())?;
        let scope = self.scopes.enter(program, scope, node.resource, self.budget)?;
        if evaluated.remaining == 0 || (node.memoized && !evaluated.visited.insert((id, scope))) {
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

    /// Adds the parts that a subschema evaluates if `value` matches it.
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
                        self.budget.charge(1)?;
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

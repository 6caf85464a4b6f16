//! Evaluates a schema in one pass, which decides validity, collects no errors, and ends at the first failure.
//!
//! **Cost.** Each subschema is charged by its keywords, each comparison and pattern by the text it reads. Results of subschemas
//! that are targets of references are memoized by (subschema, dynamic scope, address of the value), so a check costs at max
//! the size of the value times that of the schema, however often `oneOf`, `allOf` and references branch.
//!
//! **Addresses.** The memory address of a value identifies it, since values are borrowed during a check and do not move. The
//! temporary value of a property name, made for `propertyNames`, has a memo table of its own.
//!
//! **Cycles.** A subschema that reaches itself for the same value does not match. A result that depends on such a cut is valid
//! for the current path only, and is not memoized.

use std::collections::HashMap;

use value::budget::{Budget, Exceeded};
use value::{Map, Value};

use super::program::{Additional, Id, Keyword, Members, Node, Program};
use super::scopes::{Scope, Scopes};
use super::{LimitExceeded, assertions};

/// The maximum nesting of subschemas in evaluation. A check of this depth fits a stack of 2 MiB.
pub(super) const MAX_DEPTH: u32 = 500;
/// The memory of a memoized result, in bytes: its entry in a growing hash table.
const RESULT_MEMORY: usize = 64;

/// A subschema, its dynamic scope, and the address of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    schema: u32,
    scope: Scope,
    address: usize,
}

#[derive(Clone, Copy)]
enum State {
    /// In evaluation, at this depth.
    Running(u32),
    Done(bool),
}

/// One evaluation of a schema.
pub(super) struct Evaluation<'p> {
    pub(super) program: &'p Program,
    pub(super) budget: &'p Budget,
    pub(super) scopes: Scopes,
    results: HashMap<Key, State>,
    depth: u32,
    /// The smallest depth at which a cycle was cut since the current subschema was entered.
    cycle_depth: u32,
}

impl<'p> Evaluation<'p> {
    pub(super) fn new(program: &'p Program, budget: &'p Budget) -> Self {
        let scopes = Scopes::new(program.anchor_names);
        Self { program, budget, scopes, results: HashMap::new(), depth: 0, cycle_depth: u32::MAX }
    }

    /// The memo key of a result.
    pub(super) fn key(id: Id, value: &Value, scope: Scope) -> Key {
        Key {
            schema: u32::try_from(id).unwrap_or(u32::MAX),
            scope,
            address: std::ptr::from_ref(value).addr(),
        }
    }

    /// Charges the memory of a memoized result.
    pub(super) fn charge_result(&self) -> Result<(), Exceeded> {
        self.budget.allocate(RESULT_MEMORY)
    }

    /// Enters a subschema. Each call has a matching [`leave_level`](Self::leave_level), unless the check ends.
    pub(super) fn enter_level(&mut self) -> Result<(), LimitExceeded> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(LimitExceeded::Depth) } else { Ok(()) }
    }

    /// Leaves a subschema.
    pub(super) fn leave_level(&mut self) {
        self.depth -= 1;
    }

    /// Returns true if `value` matches the subschema `id`.
    ///
    /// # Errors
    /// Returns an error if the budget is spent, or subschemas nest too deep.
    pub(super) fn is_valid(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        let program = self.program;
        let node = &program.nodes[id];
        self.budget.charge(1 + node.keywords.len())?;
        if node.is_trivial() {
            return Ok(true);
        }
        let scope = self.scopes.enter(program, scope, node.resource, self.budget)?;
        if node.memoized {
            self.evaluate_memoized(id, value, scope)
        } else {
            self.evaluate_node(id, value, scope)
        }
    }

    fn evaluate_memoized(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        let key = Self::key(id, value, scope);
        match self.results.get(&key) {
            Some(State::Done(result)) => return Ok(*result),
            Some(State::Running(depth)) => {
                self.cycle_depth = self.cycle_depth.min(*depth);
                return Ok(false);
            }
            None => {}
        }
        self.charge_result()?;
        let depth = self.depth;
        self.results.insert(key, State::Running(depth));
        let outer_cycle_depth = std::mem::replace(&mut self.cycle_depth, u32::MAX);
        let result = self.evaluate_node(id, value, scope)?;
        if self.cycle_depth < depth {
            self.results.remove(&key);
            self.cycle_depth = self.cycle_depth.min(outer_cycle_depth);
        } else {
            self.results.insert(key, State::Done(result));
            self.cycle_depth = outer_cycle_depth;
        }
        Ok(result)
    }

    fn evaluate_node(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        self.enter_level()?;
        let node: &'p Node = &self.program.nodes[id];
        let mut valid = true;
        for keyword in &node.keywords {
            valid = self.evaluate_keyword(keyword, value, scope)?;
            if !valid {
                break;
            }
        }
        let valid = valid && self.is_rest_valid(id, node, value, scope)?;
        self.leave_level();
        Ok(valid)
    }

    /// Evaluates one keyword.
    pub(super) fn evaluate_keyword(
        &mut self,
        keyword: &Keyword,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        match keyword {
            Keyword::Ref(id) => self.is_valid(*id, value, scope),
            Keyword::DynamicRef(id, anchor) => {
                let target = self.scopes.resolve(scope, *anchor).unwrap_or(*id);
                self.is_valid(target, value, scope)
            }
            Keyword::Not(id) => Ok(!self.is_valid(*id, value, scope)?),
            Keyword::AllOf(ids) => self.is_valid_for_all(ids, value, scope),
            Keyword::AnyOf(ids) => Ok(self.count_valid(ids, value, scope, 1)? == 1),
            Keyword::OneOf(ids) => Ok(self.count_valid(ids, value, scope, 2)? == 1),
            Keyword::If { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, value, scope)? { then } else { otherwise };
                branch.map_or(Ok(true), |branch| self.is_valid(branch, value, scope))
            }
            Keyword::Members(members) => self.evaluate_members(members, value, scope),
            Keyword::PropertyNames(id) => {
                let Value::Map(map) = value else { return Ok(true) };
                self.evaluate_property_names(*id, map, scope)
            }
            Keyword::DependentSchemas(named) => self.evaluate_dependent(named, value, scope),
            Keyword::Items { prefix, rest } => self.evaluate_items(prefix, *rest, value, scope),
            Keyword::Contains { schema, min, max } => {
                self.evaluate_contains(*schema, *min, *max, value, scope)
            }
            assertion => Ok(assertions::is_valid(assertion, value, self.budget)?),
        }
    }

    fn is_valid_for_all(&mut self, ids: &[Id], value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        for id in ids {
            if !self.is_valid(*id, value, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of subschemas that `value` matches, counted up to `max`.
    fn count_valid(
        &mut self,
        ids: &[Id],
        value: &Value,
        scope: Scope,
        max: usize,
    ) -> Result<usize, LimitExceeded> {
        let mut valid_count = 0;
        for id in ids {
            valid_count += usize::from(self.is_valid(*id, value, scope)?);
            if valid_count == max {
                break;
            }
        }
        Ok(valid_count)
    }

    fn evaluate_members(
        &mut self,
        members: &Members,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Value::Map(map) = value else { return Ok(true) };
        if members.patterns.is_empty() && members.additional == Additional::Unspecified {
            for (name, id) in &members.properties {
                self.budget.charge(1)?;
                if let Some(value) = map.get(name)
                    && !self.is_valid(*id, value, scope)?
                {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut schemas = Vec::new();
        for (name, value) in map.iter() {
            if !member_schemas(members, name, self.budget, &mut schemas)?
                || !self.is_valid_for_all(&schemas, value, scope)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate_property_names(&mut self, id: Id, map: &Map, scope: Scope) -> Result<bool, LimitExceeded> {
        for name in map.keys() {
            if !self.is_valid_name(id, name, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a property name matches the subschema `id`.
    pub(super) fn is_valid_name(&mut self, id: Id, name: &str, scope: Scope) -> Result<bool, LimitExceeded> {
        self.budget.charge_text(name.len())?;
        let name = Value::from(name);
        // The next name may have the same address.
        let results = std::mem::take(&mut self.results);
        let valid = self.is_valid(id, &name, scope)?;
        self.results = results;
        Ok(valid)
    }

    fn evaluate_dependent(
        &mut self,
        named: &[(String, Id)],
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Value::Map(map) = value else { return Ok(true) };
        for (name, id) in named {
            self.budget.charge(1)?;
            if map.contains_key(name) && !self.is_valid(*id, value, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate_items(
        &mut self,
        prefix: &[Id],
        rest: Option<Id>,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Value::List(list) = value else { return Ok(true) };
        for (index, item) in list.0.iter().enumerate() {
            let Some(id) = prefix.get(index).copied().or(rest) else { break };
            if !self.is_valid(id, item, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate_contains(
        &mut self,
        id: Id,
        min: Option<usize>,
        max: Option<usize>,
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Value::List(list) = value else { return Ok(true) };
        let (min, mut found) = (min.unwrap_or(1), 0);
        for item in &list.0 {
            if found >= min && max.is_none() {
                break;
            }
            found += usize::from(self.is_valid(id, item, scope)?);
            if max.is_some_and(|max| found > max) {
                return Ok(false);
            }
        }
        Ok(found >= min)
    }
}

/// Fills `schemas` with the subschemas for a member of this name. Returns false if such a member is not allowed.
pub(super) fn member_schemas(
    members: &Members,
    name: &str,
    budget: &Budget,
    schemas: &mut Vec<Id>,
) -> Result<bool, Exceeded> {
    schemas.clear();
    budget.charge_text(name.len())?;
    schemas.extend(members.properties.get(name));
    for (pattern, id) in &members.patterns {
        if pattern.is_match(name, budget)? {
            schemas.push(*id);
        }
    }
    if schemas.is_empty() {
        match members.additional {
            Additional::Denied => return Ok(false),
            Additional::Schema(id) => schemas.push(id),
            Additional::Unspecified => {}
        }
    }
    Ok(true)
}

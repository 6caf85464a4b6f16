//! The evaluation of a schema: one pass that decides validity, keeps no errors, and ends at the first failure.
//!
//! **Cost.** Every subschema evaluated is charged by its keywords, every comparison and pattern by the text it reads. The
//! result of a subschema that references lead to is kept by (subschema, dynamic scope, place of the value), so a check
//! costs the size of the value times that of the schema, however often `oneOf`, `allOf` and references fan out.
//!
//! **Places.** A value is known by its address: values are borrowed for the length of a check, so none moves. The name of
//! a property, made for `propertyNames`, is checked with results of its own.
//!
//! **Cycles.** A subschema that comes back to itself without going into the value does not fit there. A result that hangs
//! on such a cut holds for this path only, and is not kept.

use std::collections::HashMap;

use super::program::{Additional, Id, Keyword, Members, Node, Program};
use super::scopes::{Scope, Scopes};
use super::{LimitExceeded, assertions};
use crate::budget::{Budget, Exceeded};
use crate::value::{Map, Value};

/// The subschemas that may be in evaluation inside one another. A check overflows no stack of 2 MiB.
pub(super) const MAX_DEPTH: u32 = 500;
/// The memory of a kept result, in bytes: its entry in a table that may be growing.
const RESULT_MEMORY: usize = 64;

/// A subschema, its dynamic scope, and the place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    schema: u32,
    scope: Scope,
    place: usize,
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
    /// The depth of the outermost subschema at which a cycle was cut since the one in evaluation began.
    cut: u32,
}

impl<'p> Evaluation<'p> {
    pub(super) fn new(program: &'p Program, budget: &'p Budget) -> Self {
        let scopes = Scopes::new(program.anchor_names);
        Self { program, budget, scopes, results: HashMap::new(), depth: 0, cut: u32::MAX }
    }

    /// The key of a result.
    pub(super) fn key(id: Id, value: &Value, scope: Scope) -> Key {
        Key { schema: u32::try_from(id).unwrap_or(u32::MAX), scope, place: std::ptr::from_ref(value).addr() }
    }

    /// Charges a result that is kept.
    pub(super) fn charge_result(&self) -> Result<(), Exceeded> {
        self.budget.allocate(RESULT_MEMORY)
    }

    /// Enters a subschema; each is left again, unless the check ends.
    pub(super) fn enter_level(&mut self) -> Result<(), LimitExceeded> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(LimitExceeded::Depth) } else { Ok(()) }
    }

    /// Leaves a subschema.
    pub(super) fn leave_level(&mut self) {
        self.depth -= 1;
    }

    /// Decides if `value` is as the subschema `id` says.
    ///
    /// # Errors
    /// The budget is spent, or the subschemas are too deep inside one another.
    pub(super) fn is_valid(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        let program = self.program;
        let node = &program.nodes[id];
        self.budget.work(1 + node.keywords.len())?;
        if node.is_trivial() {
            return Ok(true);
        }
        let scope = self.scopes.enter(program, scope, node.resource, self.budget)?;
        if node.memoized { self.memoized(id, value, scope) } else { self.node(id, value, scope) }
    }

    fn memoized(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        let key = Self::key(id, value, scope);
        match self.results.get(&key) {
            Some(State::Done(result)) => return Ok(*result),
            Some(State::Running(depth)) => {
                self.cut = self.cut.min(*depth);
                return Ok(false);
            }
            None => {}
        }
        self.charge_result()?;
        let depth = self.depth;
        self.results.insert(key, State::Running(depth));
        let cut_before = std::mem::replace(&mut self.cut, u32::MAX);
        let result = self.node(id, value, scope)?;
        if self.cut < depth {
            self.results.remove(&key);
            self.cut = self.cut.min(cut_before);
        } else {
            self.results.insert(key, State::Done(result));
            self.cut = cut_before;
        }
        Ok(result)
    }

    fn node(&mut self, id: Id, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        self.enter_level()?;
        let node: &'p Node = &self.program.nodes[id];
        let mut valid = true;
        for keyword in &node.keywords {
            valid = self.keyword(keyword, value, scope)?;
            if !valid {
                break;
            }
        }
        let valid = valid && self.unevaluated(id, node, value, scope)?;
        self.leave_level();
        Ok(valid)
    }

    /// Decides one keyword.
    pub(super) fn keyword(
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
            Keyword::AllOf(ids) => self.all(ids, value, scope),
            Keyword::AnyOf(ids) => Ok(self.count(ids, value, scope, 1)? == 1),
            Keyword::OneOf(ids) => Ok(self.count(ids, value, scope, 2)? == 1),
            Keyword::If { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, value, scope)? { then } else { otherwise };
                branch.map_or(Ok(true), |branch| self.is_valid(branch, value, scope))
            }
            Keyword::Members(members) => self.members(members, value, scope),
            Keyword::PropertyNames(id) => {
                let Value::Map(map) = value else { return Ok(true) };
                self.property_names(*id, map, scope)
            }
            Keyword::DependentSchemas(named) => self.dependent(named, value, scope),
            Keyword::Items { prefix, rest } => self.items(prefix, *rest, value, scope),
            Keyword::Contains { schema, min, max } => self.contains(*schema, *min, *max, value, scope),
            assertion => Ok(assertions::is_valid(assertion, value, self.budget)?),
        }
    }

    fn all(&mut self, ids: &[Id], value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        for id in ids {
            if !self.is_valid(*id, value, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of subschemas that `value` fits, counted up to `most`.
    fn count(
        &mut self,
        ids: &[Id],
        value: &Value,
        scope: Scope,
        most: usize,
    ) -> Result<usize, LimitExceeded> {
        let mut fitting = 0;
        for id in ids {
            fitting += usize::from(self.is_valid(*id, value, scope)?);
            if fitting == most {
                break;
            }
        }
        Ok(fitting)
    }

    fn members(&mut self, members: &Members, value: &Value, scope: Scope) -> Result<bool, LimitExceeded> {
        let Value::Map(map) = value else { return Ok(true) };
        if members.patterns.is_empty() && members.additional == Additional::Unspecified {
            for (name, id) in &members.properties {
                self.budget.work(1)?;
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
                || !self.all(&schemas, value, scope)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn property_names(&mut self, id: Id, map: &Map, scope: Scope) -> Result<bool, LimitExceeded> {
        for name in map.keys() {
            if !self.is_valid_name(id, name, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Decides if the name of a property is as the subschema `id` says.
    pub(super) fn is_valid_name(&mut self, id: Id, name: &str, scope: Scope) -> Result<bool, LimitExceeded> {
        self.budget.read(name.len())?;
        let name = Value::from(name);
        // The next name may stand at the same address.
        let results = std::mem::take(&mut self.results);
        let valid = self.is_valid(id, &name, scope)?;
        self.results = results;
        Ok(valid)
    }

    fn dependent(
        &mut self,
        named: &[(String, Id)],
        value: &Value,
        scope: Scope,
    ) -> Result<bool, LimitExceeded> {
        let Value::Map(map) = value else { return Ok(true) };
        for (name, id) in named {
            self.budget.work(1)?;
            if map.contains_key(name) && !self.is_valid(*id, value, scope)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn items(
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

    fn contains(
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

/// Fills `schemas` with those that a member of this name has to fit; false if there must not be such a member.
pub(super) fn member_schemas(
    members: &Members,
    name: &str,
    budget: &Budget,
    schemas: &mut Vec<Id>,
) -> Result<bool, Exceeded> {
    schemas.clear();
    budget.read(name.len())?;
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

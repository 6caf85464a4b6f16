//! Dynamic scopes (`$dynamicRef`): for each dynamic anchor, the outermost resource on the evaluation path that has it.
//!
//! Scopes are interned: equal scopes have the same number, which can be part of a memo key. A schema without dynamic anchors
//! has a single scope.

use std::collections::HashMap;

use value::budget::{Budget, Exceeded};

use super::program::{Id, Program};

/// A dynamic scope, by its number.
pub(super) type Scope = u32;

/// The scope outside the root schema.
pub(super) const ROOT: Scope = 0;

/// The interned scopes.
pub(super) struct Scopes {
    /// The target of each dynamic anchor, by scope.
    targets: Vec<Vec<Option<Id>>>,
    entered: HashMap<(Scope, usize), Scope>,
}

impl Scopes {
    pub(super) fn new(anchor_names: usize) -> Self {
        Self { targets: vec![vec![None; anchor_names]], entered: HashMap::new() }
    }

    /// The scope after entering `resource` from `scope`.
    pub(super) fn enter(
        &mut self,
        program: &Program,
        scope: Scope,
        resource: usize,
        budget: &Budget,
    ) -> Result<Scope, Exceeded> {
        let anchors = &program.dynamic_anchors[resource];
        if anchors.is_empty() {
            return Ok(scope);
        }
        budget.charge(2)?;
        if let Some(inside) = self.entered.get(&(scope, resource)) {
            return Ok(*inside);
        }
        budget.charge(self.targets.len())?;
        budget.allocate_list(program.anchor_names + 2)?;
        let mut targets = self.targets[scope as usize].clone();
        for (name, id) in anchors {
            targets[*name].get_or_insert(*id);
        }
        let inside = self.targets.iter().position(|known| *known == targets).unwrap_or_else(|| {
            self.targets.push(targets);
            self.targets.len() - 1
        });
        let inside = Scope::try_from(inside).unwrap_or(Scope::MAX);
        self.entered.insert((scope, resource), inside);
        Ok(inside)
    }

    /// The target of a dynamic anchor.
    pub(super) fn resolve(&self, scope: Scope, anchor: Option<usize>) -> Option<Id> {
        *self.targets.get(scope as usize)?.get(anchor?)?
    }
}

//! The way down to each step, in words.

use std::collections::HashMap;

use super::{Automation, Block, OnError, Step};

impl Automation {
    /// The way to each step by its id: the steps around it, and the list inside each that leads on, where it has a name:
    /// `["both", "left", "fetch"]`. It begins with the list of the file where that is not `steps`.
    #[must_use]
    pub fn step_paths(&self) -> HashMap<&str, Vec<&str>> {
        let mut paths = HashMap::new();
        list(&self.steps, &[], &mut paths);
        self.on_error.iter().for_each(|block| list(block, &["onError"], &mut paths));
        self.finally.iter().for_each(|block| list(block, &["finally"], &mut paths));
        paths
    }
}

fn list<'a>(block: &'a Block, above: &[&'a str], paths: &mut HashMap<&'a str, Vec<&'a str>>) {
    for step in &block.steps {
        let way = [above, &[step.id.as_ref()]].concat();
        for (name, inner) in inside(step) {
            let below = [way.as_slice(), name.as_slice()].concat();
            list(inner, &below, paths);
        }
        paths.insert(&step.id, way);
    }
}

/// The lists inside a step with the name of each, where it has one.
fn inside(step: &Step) -> impl Iterator<Item = (Vec<&str>, &Block)> {
    let on_error = match &step.on_error {
        OnError::Steps(block) => Some((vec!["onError"], block)),
        OnError::Fail | OnError::Continue => None,
    };
    let undo = step.undo.as_ref().map(|block| (vec!["undo"], block));
    let lists =
        step.verb.nested_blocks().into_iter().map(|inner| (inner.name.into_iter().collect(), inner.block));
    lists.chain(on_error).chain(undo)
}

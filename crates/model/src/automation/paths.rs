//! Display paths of nested steps.

use std::collections::HashMap;

use super::{Automation, Block, Step};

impl Automation {
    /// Returns the path of each step by its id: the ids of the enclosing steps, the names of their blocks (if named), and its
    /// own id: `["both", "left", "fetch"]`. A step in `onError` or `finally` of the file has that key as its first element.
    #[must_use]
    pub fn step_paths(&self) -> HashMap<&str, Vec<&str>> {
        let mut paths = HashMap::new();
        collect_paths(&self.steps, &[], &mut paths);
        self.on_error.iter().for_each(|block| collect_paths(block, &["onError"], &mut paths));
        self.finally.iter().for_each(|block| collect_paths(block, &["finally"], &mut paths));
        paths
    }
}

fn collect_paths<'a>(block: &'a Block, parents: &[&'a str], paths: &mut HashMap<&'a str, Vec<&'a str>>) {
    for step in &block.steps {
        let path = [parents, &[step.id.as_ref()]].concat();
        for (name, inner) in named_blocks(step) {
            let inner_path = [path.as_slice(), name.as_slice()].concat();
            collect_paths(inner, &inner_path, paths);
        }
        paths.insert(&step.id, path);
    }
}

/// Returns the blocks nested in a step, each with its name (empty if it has none).
fn named_blocks(step: &Step) -> impl Iterator<Item = (Vec<&str>, &Block)> {
    let handlers = step.handlers().map(|(handler, block)| (vec![handler.key()], block));
    let lists =
        step.verb.nested_blocks().into_iter().map(|inner| (inner.name.into_iter().collect(), inner.block));
    lists.chain(handlers)
}

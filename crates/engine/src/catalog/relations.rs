//! Index of the references between project files, so that a change finds the affected files without scanning all of
//! them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::file::{File, Uses};
use super::folder::Folder;
use crate::check::{NameKind, fold};

/// Maximum number of automations visited when searching a call path.
const MAX_SEARCH: usize = 1000;

/// Index of references between files. A clone is cheap.
#[derive(Clone)]
pub(crate) struct Relations {
    said: RedBlackTreeSetSync<Relation>,
    /// For each automation in a call cycle, the members of its cycle, sorted by id.
    circles: RedBlackTreeMapSync<Arc<str>, Arc<[Arc<str>]>>,
}

/// Statement of the file at `path` about `name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Relation {
    says: Says,
    name: Arc<str>,
    path: Arc<str>,
}

/// Kind of a relation between a file and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Says {
    /// The file defines the automation with this id.
    IsIt,
    /// The file calls the automation with this id.
    Calls,
    /// The file uses the connection of this name.
    Connects,
    /// The file runs the code file at this path.
    Runs,
    /// The file names an event with this folded name.
    Event,
    /// The file names a shared state key with this folded name.
    Shared,
    /// The file names some automation that does not exist; the name is empty.
    MissesAutomation,
    /// The file names some connection that does not exist; the name is empty.
    MissesConnection,
}

impl Relations {
    pub(crate) fn none() -> Self {
        Self { said: RedBlackTreeSetSync::new_sync(), circles: RedBlackTreeMapSync::new_sync() }
    }

    /// Adds all relations of a file.
    pub(crate) fn enter(&mut self, path: &Arc<str>, file: &File) {
        for relation in relations(path, file) {
            self.said.insert_mut(relation);
        }
    }

    /// Removes all relations of a file.
    pub(crate) fn leave(&mut self, path: &Arc<str>, file: &File) {
        let missing = [Says::MissesAutomation, Says::MissesConnection];
        let missing = missing.map(|says| Relation { says, name: "".into(), path: path.clone() });
        for relation in relations(path, file).into_iter().chain(missing) {
            self.said.remove_mut(&relation);
        }
    }

    /// Records whether a file names an automation or connection that does not exist.
    pub(crate) fn misses(&mut self, says: Says, path: &Arc<str>, misses: bool) {
        let relation = Relation { says, name: "".into(), path: path.clone() };
        if misses {
            self.said.insert_mut(relation);
        } else {
            self.said.remove_mut(&relation);
        }
    }

    /// Iterates over the paths of the files with this relation to `name`, sorted.
    pub(crate) fn who<'a>(&'a self, says: Says, name: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let name: Arc<str> = name.into();
        let start = Relation { says, name: name.clone(), path: "".into() };
        let of_it = move |relation: &&Relation| relation.says == says && relation.name == name;
        self.said.range(start..).take_while(of_it).map(|relation| &relation.path)
    }

    /// Iterates over the paths of the files that name something nonexistent of this kind.
    pub(crate) fn who_misses(&self, says: Says) -> impl Iterator<Item = &Arc<str>> {
        self.who(says, "")
    }

    /// Iterates over all defined ids, sorted; an id defined by several files is repeated.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let start = Relation { says: Says::IsIt, name: "".into(), path: "".into() };
        let said = self.said.range(start..).take_while(|relation| relation.says == Says::IsIt);
        said.map(|relation| &relation.name)
    }

    /// Returns the call cycle that contains this automation, itself included; empty if there is none.
    pub(crate) fn circle(&self, id: &str) -> &[Arc<str>] {
        self.circles.get(id).map_or(&[], |circle| circle)
    }

    /// Recomputes the call cycles of these automations after their files changed. Returns all members of the old and
    /// new cycles.
    ///
    /// Visits only automations reachable from `ids`: a cycle that appears or disappears contains one of them.
    pub(crate) fn find_circles(&mut self, ids: BTreeSet<Arc<str>>, folder: &Folder) -> BTreeSet<Arc<str>> {
        let mut concerned: BTreeSet<Arc<str>> = BTreeSet::new();
        for id in &ids {
            concerned.extend(self.circle(id).iter().cloned());
        }
        for id in &concerned {
            self.circles.remove_mut(id);
        }
        let mut roots = ids;
        roots.extend(concerned.iter().cloned());
        for circle in self.circles_from(roots, folder) {
            concerned.extend(circle.iter().cloned());
            for id in circle.iter() {
                self.circles.insert_mut(id.clone(), circle.clone());
            }
        }
        concerned
    }

    fn circles_from(&self, roots: BTreeSet<Arc<str>>, folder: &Folder) -> Vec<Arc<[Arc<str>]>> {
        let mut numbers: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut graph: DiGraphMap<u32, ()> = DiGraphMap::new();
        let mut number = |name: &Arc<str>, names: &mut Vec<Arc<str>>| {
            *numbers.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            })
        };
        for root in &roots {
            number(root, &mut names);
        }
        let mut at = 0;
        while let Some(name) = names.get(at).cloned() {
            let from = number(&name, &mut names);
            for callee in self.callees(&name, folder) {
                let to = number(&callee, &mut names);
                graph.add_edge(from, to, ());
            }
            at += 1;
        }
        let components = kosaraju_scc(&graph).into_iter();
        let circular = components.filter(|component| {
            component.len() > 1 || component.first().is_some_and(|&node| graph.contains_edge(node, node))
        });
        let named = circular.map(|component| {
            let mut circle: Vec<_> =
                component.into_iter().filter_map(|node| names.get(node as usize).cloned()).collect();
            circle.sort();
            circle.into()
        });
        named.collect()
    }

    /// Returns the ids that an automation calls, over all files that define it.
    fn callees(&self, id: &str, folder: &Folder) -> BTreeSet<Arc<str>> {
        let files = self.who(Says::IsIt, id).filter_map(|path| folder.get(path)?.uses());
        files.flat_map(|uses| uses.automations.iter().cloned()).collect()
    }

    /// Finds a shortest call path between two automations, both included, through automations accepted by `within`.
    /// Returns `None` if there is none or the search limit is reached.
    pub(crate) fn way(
        &self,
        from: &str,
        to: &str,
        folder: &Folder,
        within: impl Fn(&str) -> bool,
    ) -> Option<Vec<Arc<str>>> {
        let from: Arc<str> = from.into();
        let mut before: BTreeMap<Arc<str>, Option<Arc<str>>> = BTreeMap::from([(from.clone(), None)]);
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            if &*id == to {
                let mut way = vec![id];
                while let Some(Some(previous)) = way.last().and_then(|id| before.get(id)) {
                    way.push(previous.clone());
                }
                way.reverse();
                return Some(way);
            }
            for callee in self.callees(&id, folder) {
                if before.len() < MAX_SEARCH && within(&callee) && !before.contains_key(&callee) {
                    before.insert(callee.clone(), Some(id.clone()));
                    queue.push_back(callee);
                }
            }
        }
        None
    }
}

/// Returns the relation kind for a name of this kind.
pub(crate) fn spelled(kind: NameKind) -> Says {
    match kind {
        NameKind::Event => Says::Event,
        NameKind::Own | NameKind::Shared => Says::Shared,
    }
}

fn relations(path: &Arc<str>, file: &File) -> Vec<Relation> {
    let relation = |says, name: &Arc<str>| Relation { says, name: name.clone(), path: path.clone() };
    let Some(id) = file.claims() else { return Vec::new() };
    let mut said = vec![relation(Says::IsIt, &id.as_str().into())];
    if let Some(Uses { automations, connections, code, names }) = file.uses() {
        said.extend(names.iter().map(|(kind, name)| relation(spelled(*kind), &fold(name).into())));
        said.extend(code.iter().map(|path| relation(Says::Runs, path)));
        said.extend(automations.iter().map(|name| relation(Says::Calls, name)));
        said.extend(connections.iter().map(|name| relation(Says::Connects, name)));
    }
    said
}

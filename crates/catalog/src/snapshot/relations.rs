//! Index of the references between project files, so that a change finds the affected files without scanning all of
//! them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::file::{Dependencies, File};
use super::folder::Folder;
use crate::check::{NameKind, fold};

/// Maximum number of automations visited when searching a call path.
const MAX_SEARCH: usize = 1000;

/// Index of references between files. A clone is cheap.
#[derive(Clone)]
pub(crate) struct Relations {
    relations: RedBlackTreeSetSync<Relation>,
    /// For each automation in a call cycle, the members of its cycle, sorted by id.
    cycles: RedBlackTreeMapSync<Arc<str>, Arc<[Arc<str>]>>,
}

/// Statement of the file at `path` about `name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Relation {
    kind: RelationKind,
    name: Arc<str>,
    path: Arc<str>,
}

/// Kind of a relation between a file and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RelationKind {
    /// The file defines the automation with this id.
    Defines,
    /// The file calls the automation with this id.
    Calls,
    /// The file uses the connection of this name.
    UsesConnection,
    /// A step of the file may take a default; the name is empty.
    TakesDefaults,
    /// The file runs the code file at this path.
    RunsCode,
    /// The automation of the file has this label.
    HasLabel,
    /// A trigger of the file hears of the automation with this id.
    WatchesAutomation,
    /// A trigger of the file hears of automations with this label.
    WatchesLabel,
    /// The file names an event with this folded name.
    NamesEvent,
    /// A step of the file sends the event of this name.
    Sends,
    /// A step of the file sends events with computed names that begin with this text.
    SendsPrefix,
    /// The event of this name starts the file's automation.
    StartsOn,
    /// A trigger of the file takes messages from this place at a broker.
    TakesMessages,
    /// The file names a shared state key with this folded name.
    NamesStateKey,
    /// The file gives a kind of error with this folded name, or asks for it.
    NamesErrorKind,
    /// The file names some automation that does not exist; the name is empty.
    MissingAutomation,
    /// The file names some connection that does not exist; the name is empty.
    MissingConnection,
}

impl Relations {
    pub(crate) fn new() -> Self {
        Self { relations: RedBlackTreeSetSync::new_sync(), cycles: RedBlackTreeMapSync::new_sync() }
    }

    /// Adds all relations of a file.
    pub(crate) fn insert_file(&mut self, path: &Arc<str>, file: &File) {
        for relation in relations(path, file) {
            self.relations.insert_mut(relation);
        }
    }

    /// Removes all relations of a file.
    pub(crate) fn remove_file(&mut self, path: &Arc<str>, file: &File) {
        let missing = [RelationKind::MissingAutomation, RelationKind::MissingConnection];
        let missing = missing.map(|kind| Relation { kind, name: "".into(), path: path.clone() });
        for relation in relations(path, file).into_iter().chain(missing) {
            self.relations.remove_mut(&relation);
        }
    }

    /// Records whether a file names an automation or connection that does not exist.
    pub(crate) fn set_missing(&mut self, kind: RelationKind, path: &Arc<str>, missing: bool) {
        let relation = Relation { kind, name: "".into(), path: path.clone() };
        if missing {
            self.relations.insert_mut(relation);
        } else {
            self.relations.remove_mut(&relation);
        }
    }

    /// Iterates over the paths of the files with this relation to `name`, sorted.
    pub(crate) fn paths_with<'a>(
        &'a self,
        kind: RelationKind,
        name: &str,
    ) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let name: Arc<str> = name.into();
        let start = Relation { kind, name: name.clone(), path: "".into() };
        let matches = move |relation: &&Relation| relation.kind == kind && relation.name == name;
        self.relations.range(start..).take_while(matches).map(|relation| &relation.path)
    }

    /// Iterates over the paths of the files that name something nonexistent of this kind.
    pub(crate) fn paths_missing(&self, kind: RelationKind) -> impl Iterator<Item = &Arc<str>> {
        self.paths_with(kind, "")
    }

    /// Iterates over the paths of the files with this relation to a name that begins with `prefix`.
    pub(crate) fn paths_with_prefix(
        &self,
        kind: RelationKind,
        prefix: &str,
    ) -> impl Iterator<Item = &Arc<str>> {
        let prefix: Arc<str> = prefix.into();
        let start = Relation { kind, name: prefix.clone(), path: "".into() };
        let matches =
            move |relation: &&Relation| relation.kind == kind && relation.name.starts_with(&*prefix);
        self.relations.range(start..).take_while(matches).map(|relation| &relation.path)
    }

    /// Iterates over all defined ids, sorted; an id defined by several files is repeated.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names(RelationKind::Defines)
    }

    /// Iterates over all names with this relation to a file, sorted; a name with it to several files is repeated.
    pub(crate) fn names(&self, kind: RelationKind) -> impl Iterator<Item = &Arc<str>> {
        let start = Relation { kind, name: "".into(), path: "".into() };
        let named = self.relations.range(start..).take_while(move |relation| relation.kind == kind);
        named.map(|relation| &relation.name)
    }

    /// Returns the call cycle that contains this automation, itself included; empty if there is none.
    pub(crate) fn cycle(&self, id: &str) -> &[Arc<str>] {
        self.cycles.get(id).map_or(&[], |cycle| cycle)
    }

    /// Recomputes the call cycles of these automations after their files changed. Returns all members of the old and
    /// new cycles.
    ///
    /// Visits only automations reachable from `ids`: a cycle that appears or disappears contains one of them.
    pub(crate) fn update_cycles(&mut self, ids: BTreeSet<Arc<str>>, folder: &Folder) -> BTreeSet<Arc<str>> {
        let mut concerned: BTreeSet<Arc<str>> = BTreeSet::new();
        for id in &ids {
            concerned.extend(self.cycle(id).iter().cloned());
        }
        for id in &concerned {
            self.cycles.remove_mut(id);
        }
        let mut roots = ids;
        roots.extend(concerned.iter().cloned());
        for cycle in self.find_cycles(roots, folder) {
            concerned.extend(cycle.iter().cloned());
            for id in cycle.iter() {
                self.cycles.insert_mut(id.clone(), cycle.clone());
            }
        }
        concerned
    }

    fn find_cycles(&self, roots: BTreeSet<Arc<str>>, folder: &Folder) -> Vec<Arc<[Arc<str>]>> {
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
            let mut cycle: Vec<_> =
                component.into_iter().filter_map(|node| names.get(node as usize).cloned()).collect();
            cycle.sort();
            cycle.into()
        });
        named.collect()
    }

    /// Returns the ids that an automation calls, over all files that define it.
    fn callees(&self, id: &str, folder: &Folder) -> BTreeSet<Arc<str>> {
        let files =
            self.paths_with(RelationKind::Defines, id).filter_map(|path| folder.get(path)?.dependencies());
        files.flat_map(|uses| uses.automations.iter().cloned()).collect()
    }

    /// Finds a shortest call path between two automations, both included, through automations accepted by `within`.
    /// Returns `None` if no such path exists or the search limit is reached.
    pub(crate) fn call_path(
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
                let mut path = vec![id];
                while let Some(Some(previous)) = path.last().and_then(|id| before.get(id)) {
                    path.push(previous.clone());
                }
                path.reverse();
                return Some(path);
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
pub(crate) fn name_relation(kind: NameKind) -> RelationKind {
    match kind {
        NameKind::Event => RelationKind::NamesEvent,
        NameKind::Own | NameKind::Shared => RelationKind::NamesStateKey,
        NameKind::GivenKind | NameKind::ComparedKind => RelationKind::NamesErrorKind,
    }
}

fn relations(path: &Arc<str>, file: &File) -> Vec<Relation> {
    let relation = |kind, name: &Arc<str>| Relation { kind, name: name.clone(), path: path.clone() };
    let Some(id) = file.claimed_id() else { return Vec::new() };
    let mut found = vec![relation(RelationKind::Defines, &id.as_str().into())];
    if let Some(Dependencies {
        automations,
        connections,
        code,
        takes_defaults,
        names,
        labels,
        watched,
        events,
    }) = file.dependencies()
    {
        found.extend(events.iter().map(|(kind, name)| relation(*kind, name)));
        found.extend(labels.iter().map(|label| relation(RelationKind::HasLabel, label)));
        found.extend(watched.iter().map(|(kind, name)| relation(*kind, name)));
        found.extend(
            names.iter().map(|(name_kind, name)| relation(name_relation(*name_kind), &fold(name).into())),
        );
        found.extend(takes_defaults.then(|| relation(RelationKind::TakesDefaults, &"".into())));
        found.extend(code.iter().map(|path| relation(RelationKind::RunsCode, path)));
        found.extend(automations.iter().map(|name| relation(RelationKind::Calls, name)));
        found.extend(connections.iter().map(|name| relation(RelationKind::UsesConnection, name)));
    }
    found
}

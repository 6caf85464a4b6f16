//! What the files say of one another, kept with each snapshot: so a change finds the files that it concerns without
//! looking at the rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::file::{File, Uses};
use super::folder::Folder;
use crate::check::{NameKind, fold};

/// The most Automations that are visited in search of the way round a circle.
const MAX_SEARCH: usize = 1000;

/// Who says what of whom. A copy is cheap.
#[derive(Clone)]
pub(crate) struct Relations {
    said: RedBlackTreeSetSync<Relation>,
    /// The Automations that call each other in a circle: for each the whole circle, in the order of the ids.
    circles: RedBlackTreeMapSync<Arc<str>, Arc<[Arc<str>]>>,
}

/// The file at `path` says something of `name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Relation {
    says: Says,
    name: Arc<str>,
    path: Arc<str>,
}

/// What a file says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Says {
    /// That it is the file of the Automation with this id.
    IsIt,
    /// That it calls the Automation with this id.
    Calls,
    /// That it uses the connection of this name.
    Connects,
    /// That it runs the code in the file at this path.
    Runs,
    /// That it names an event, whose name folded is this.
    Event,
    /// That it names a key of the shared state, whose name folded is this.
    Shared,
    /// That it names an Automation that there is none of, whatever its id.
    MissesAutomation,
    /// That it names a connection that there is none of, whatever its name.
    MissesConnection,
}

impl Relations {
    pub(crate) fn none() -> Self {
        Self { said: RedBlackTreeSetSync::new_sync(), circles: RedBlackTreeMapSync::new_sync() }
    }

    /// Takes in what a file says.
    pub(crate) fn enter(&mut self, path: &Arc<str>, file: &File) {
        for relation in relations(path, file) {
            self.said.insert_mut(relation);
        }
    }

    /// Takes out all that a file says.
    pub(crate) fn leave(&mut self, path: &Arc<str>, file: &File) {
        let missing = [Says::MissesAutomation, Says::MissesConnection];
        let missing = missing.map(|says| Relation { says, name: "".into(), path: path.clone() });
        for relation in relations(path, file).into_iter().chain(missing) {
            self.said.remove_mut(&relation);
        }
    }

    /// Notes whether a file names something that there is none of.
    pub(crate) fn misses(&mut self, says: Says, path: &Arc<str>, misses: bool) {
        let relation = Relation { says, name: "".into(), path: path.clone() };
        if misses {
            self.said.insert_mut(relation);
        } else {
            self.said.remove_mut(&relation);
        }
    }

    /// The paths of the files that say this of `name`, in order.
    pub(crate) fn who<'a>(&'a self, says: Says, name: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let name: Arc<str> = name.into();
        let start = Relation { says, name: name.clone(), path: "".into() };
        let of_it = move |relation: &&Relation| relation.says == says && relation.name == name;
        self.said.range(start..).take_while(of_it).map(|relation| &relation.path)
    }

    /// The paths of the files that name something that there is none of.
    pub(crate) fn who_misses(&self, says: Says) -> impl Iterator<Item = &Arc<str>> {
        self.who(says, "")
    }

    /// Every id that some file has, in order; one that several have comes several times.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        let start = Relation { says: Says::IsIt, name: "".into(), path: "".into() };
        let said = self.said.range(start..).take_while(|relation| relation.says == Says::IsIt);
        said.map(|relation| &relation.name)
    }

    /// The Automations in a circle with this one, itself included; empty where it is in none.
    pub(crate) fn circle(&self, id: &str) -> &[Arc<str>] {
        self.circles.get(id).map_or(&[], |circle| circle)
    }

    /// Finds the circles anew in which the Automations with these ids are or were, after their files have come, gone
    /// or changed. Gives all members of these circles, of those before and of those now.
    ///
    /// Only what the given ones reach is looked at: a circle that has come or gone passes through one of them.
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

    /// The ids that the Automation with an id calls, by all files that say they are it.
    fn callees(&self, id: &str, folder: &Folder) -> BTreeSet<Arc<str>> {
        let files = self.who(Says::IsIt, id).filter_map(|path| folder.get(path)?.uses());
        files.flat_map(|uses| uses.automations.iter().cloned()).collect()
    }

    /// A shortest way by calls from the Automation `from` to `to`, both included, among those that `within` lets pass.
    /// `None` where there is none, or where it is not found among as many as are looked at.
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

/// What a file says that has a name of this kind.
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

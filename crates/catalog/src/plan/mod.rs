//! Step graph of an automation: the dependencies within each list of steps.
//!
//! Without `needs` a list is a chain: each step waits for the one before it. `needs` replaces that by the named
//! steps, `needs: []` by no step. Steps whose dependencies have finished run concurrently.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use expression::{Expression, Template};
use language::load::Unreadable;
use model::automation::{Automation, Block, Step, Verb};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;
use text::diagnostic::Diagnostic;

mod code;

pub(crate) use code::CodePlans;
pub use code::{CodePlan, Loop};

/// Step graphs of all lists of one automation.
#[derive(Debug, Default)]
pub struct Plan {
    /// Graphs by the id of the list's first step, which is unique in the file. An empty list has no graph.
    blocks: HashMap<Arc<str>, BlockGraph>,
    /// Reads other than step results; only steps that have any.
    reads: HashMap<Arc<str>, ReadSet>,
    /// True if any expression reads `execution` or `automation`. These values are built only then.
    reads_execution: bool,
    /// True if any expression reads `execution.resumeUrl`. It is built only then.
    reads_resume_url: bool,
    /// Steps whose results no expression or code reads, so that the run need not keep them.
    unread_results: HashSet<Arc<str>>,
    /// Steps whose `steps.<id>.ok` an expression reads.
    read_successes: HashSet<Arc<str>>,
    code: CodePlans,
}

/// Reads of one step's expressions, other than step results.
#[derive(Debug, Default)]
pub struct ReadSet {
    /// True if an expression calls `now()` or `uuid()`.
    pub is_nondeterministic: bool,
    /// True if an expression calls `now()`, so that the step's start time must be recorded.
    pub reads_clock: bool,
    /// Keys read from `state`.
    pub state: Vec<String>,
    /// True if an expression reads `execution` or `automation`.
    pub reads_execution: bool,
    /// True if an expression reads `execution.resumeUrl`.
    pub reads_resume_url: bool,
}

impl ReadSet {
    fn add_expression(&mut self, expression: &Expression) {
        self.is_nondeterministic |= expression.is_nondeterministic();
        self.reads_clock |= expression.reads_clock();
        for reference in expression.references() {
            let mut path = reference.path.iter().map(|name| name.as_str());
            let (root, next) = (path.next(), path.next());
            self.reads_execution |= matches!(root, None | Some("execution" | "automation"));
            match (root, next) {
                (Some("state"), Some(key)) if !self.state.iter().any(|known| known == key) => {
                    self.state.push(key.to_owned());
                }
                (None, _) | (Some("execution"), None | Some("resumeUrl")) => self.reads_resume_url = true,
                _ => {}
            }
        }
    }

    /// Collects the reads of a template.
    #[must_use]
    pub fn from_template(template: &Template) -> Self {
        let mut reads = Self::default();
        template.expressions(&mut |expression| reads.add_expression(expression));
        reads
    }
}

/// Graph of one list of steps. Steps are identified by index.
#[derive(Debug)]
pub struct BlockGraph(Dependencies);

#[derive(Debug)]
enum Dependencies {
    /// Each step waits for the one before it. Holds the number of steps. The common case runs without bookkeeping and
    /// stores no graph.
    Chain(usize),
    Graph(Box<Graph>),
}

#[derive(Debug)]
struct Graph {
    /// Edges lead from a step to its dependents.
    edges: DiGraph<usize, ()>,
    /// Steps with unknown dependencies: `needs` is unreadable, names a missing step, or is circular. Empty in a
    /// runnable plan.
    unordered: HashSet<usize>,
}

impl Plan {
    /// Builds the graphs of `automation` and reports errors in `needs`: unknown names, steps of another list, cycles.
    #[must_use]
    pub fn build(automation: &Automation) -> (Self, Vec<Diagnostic>) {
        Self::build_partial(automation, Unreadable::NONE)
    }

    /// Builds the graphs of a partially parsed automation.
    pub(crate) fn build_partial(automation: &Automation, unreadable: &Unreadable) -> (Self, Vec<Diagnostic>) {
        let mut builder =
            Builder { plan: Self::default(), unreadable, diagnostics: Vec::new(), known: HashSet::new() };
        automation.walk(&mut |step| {
            builder.known.insert(step.id.clone());
        });
        builder.reads(automation);
        builder.plan.code = CodePlans::from_automation(automation);
        builder.block(&automation.steps);
        for block in [&automation.on_error, &automation.finally].into_iter().flatten() {
            builder.block(block);
        }
        (builder.plan, builder.diagnostics)
    }

    fn add_reads(&mut self, reads: &ReadSet) {
        self.reads_execution |= reads.reads_execution;
        self.reads_resume_url |= reads.reads_resume_url;
    }

    /// Marks the results that an expression reads; all results if the step id is computed at run time.
    fn mark_results_read(&mut self, expression: &Expression, known: &HashSet<Arc<str>>) {
        for reference in expression.references() {
            let mut path = reference.path.iter().map(|name| name.as_str());
            match (path.next(), path.next()) {
                (Some("steps"), Some(id)) => {
                    self.unread_results.remove(id);
                    if path.next() == Some("ok")
                        && let Some(id) = known.get(id)
                    {
                        self.read_successes.insert(id.clone());
                    }
                }
                (None | Some("steps"), _) => self.unread_results.clear(),
                _ => {}
            }
        }
    }

    /// Returns the graph of `block`; `None` if it is empty.
    #[must_use]
    pub fn block(&self, block: &Block) -> Option<&BlockGraph> {
        self.blocks.get(&block.steps.first()?.id)
    }

    /// Returns a step's reads other than step results; `None` if it has none.
    #[must_use]
    pub fn reads(&self, step: &str) -> Option<&ReadSet> {
        if self.reads.is_empty() { None } else { self.reads.get(step) }
    }

    /// Returns true if anything may read the step's result.
    #[must_use]
    pub fn is_result_read(&self, step: &str) -> bool {
        self.unread_results.is_empty() || !self.unread_results.contains(step)
    }

    /// Returns true if an expression reads `ok` of the step.
    #[must_use]
    pub fn is_success_read(&self, step: &str) -> bool {
        !self.read_successes.is_empty() && self.read_successes.contains(step)
    }

    /// Returns the steps of which an expression reads `ok`.
    pub fn steps_with_read_success(&self) -> impl Iterator<Item = &Arc<str>> {
        self.read_successes.iter()
    }

    /// Returns the code of the automation.
    #[must_use]
    pub fn code(&self) -> &CodePlans {
        &self.code
    }

    /// Returns true if any expression reads `execution` or `automation`.
    #[must_use]
    pub fn reads_execution(&self) -> bool {
        self.reads_execution
    }

    /// Returns true if any expression reads `execution.resumeUrl`.
    #[must_use]
    pub fn reads_resume_url(&self) -> bool {
        self.reads_resume_url
    }
}

impl BlockGraph {
    /// Returns true if the list is a plain sequence.
    #[must_use]
    pub fn is_chain(&self) -> bool {
        matches!(self.0, Dependencies::Chain(_))
    }

    /// Iterates over the direct dependencies of the step at `index`.
    pub fn dependencies(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let (before, graph) = match &self.0 {
            Dependencies::Chain(_) => (index.checked_sub(1), None),
            Dependencies::Graph(graph) => (None, Some(graph.neighbours(index, Direction::Incoming))),
        };
        before.into_iter().chain(graph.into_iter().flatten())
    }

    /// Iterates over the direct dependents of the step at `index`.
    pub fn dependents(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let (after, graph) = match &self.0 {
            Dependencies::Chain(length) => (Some(index + 1).filter(|after| after < length), None),
            Dependencies::Graph(graph) => (None, Some(graph.neighbours(index, Direction::Outgoing))),
        };
        after.into_iter().chain(graph.into_iter().flatten())
    }

    /// Returns the number of direct dependencies of each step, by index.
    #[must_use]
    pub fn dependency_counts(&self) -> Vec<usize> {
        match &self.0 {
            Dependencies::Chain(length) => (0..*length).map(|index| usize::from(index > 0)).collect(),
            Dependencies::Graph(graph) => {
                let nodes = graph.edges.node_indices();
                nodes.map(|node| graph.edges.edges_directed(node, Direction::Incoming).count()).collect()
            }
        }
    }

    /// Returns all steps that finish before the step at `index` starts.
    #[must_use]
    pub fn ancestors(&self, index: usize) -> HashSet<usize> {
        match &self.0 {
            Dependencies::Chain(_) => (0..index).collect(),
            Dependencies::Graph(graph) => graph.ancestors(index),
        }
    }

    /// Returns true if the dependencies of the step at `index` are unknown, directly or transitively.
    #[must_use]
    pub(crate) fn has_unknown_order(&self, index: usize) -> bool {
        match &self.0 {
            Dependencies::Chain(_) => false,
            Dependencies::Graph(graph) => {
                let has_unknown_order = |index: &usize| graph.unordered.contains(index);
                !graph.unordered.is_empty()
                    && (has_unknown_order(&index) || graph.ancestors(index).iter().any(has_unknown_order))
            }
        }
    }
}

impl Graph {
    fn neighbours(&self, index: usize, direction: Direction) -> impl Iterator<Item = usize> + '_ {
        self.edges.neighbors_directed(NodeIndex::new(index), direction).map(|node| self.edges[node])
    }

    fn ancestors(&self, index: usize) -> HashSet<usize> {
        let reversed = petgraph::visit::Reversed(&self.edges);
        let mut search = Dfs::new(reversed, NodeIndex::new(index));
        let mut found = HashSet::new();
        while let Some(node) = search.next(reversed) {
            found.insert(self.edges[node]);
        }
        found.remove(&index);
        found
    }
}

struct Builder<'g> {
    plan: Plan,
    unreadable: &'g Unreadable,
    diagnostics: Vec<Diagnostic>,
    known: HashSet<Arc<str>>,
}

impl Builder<'_> {
    fn reads(&mut self, automation: &Automation) {
        // The reads of code are unknown without analysing it.
        let mut has_code = false;
        automation.walk(&mut |step| has_code |= matches!(step.verb, Verb::Code(_)));
        if !has_code {
            self.plan.unread_results.clone_from(&self.known);
        }
        automation.walk(&mut |step| {
            let mut reads = ReadSet::default();
            step.expressions(&mut |expression| {
                reads.add_expression(expression);
                self.plan.mark_results_read(expression, &self.known);
            });
            self.plan.add_reads(&reads);
            if reads.is_nondeterministic || !reads.state.is_empty() {
                self.plan.reads.insert(step.id.clone(), reads);
            }
        });
        let mut reads = ReadSet::default();
        let mut read = |expression| {
            reads.add_expression(expression);
            self.plan.mark_results_read(expression, &self.known);
        };
        automation.outputs.iter().for_each(|outputs| outputs.expressions(&mut read));
        automation.concurrency.iter().for_each(|concurrency| concurrency.expressions(&mut read));
        self.plan.add_reads(&reads);
    }

    fn block(&mut self, block: &Block) {
        for step in &block.steps {
            for inner in step.verb.nested_blocks() {
                self.block(inner.block);
            }
            step.handlers().for_each(|(_, inner)| self.block(inner));
        }
        let Some(first) = block.steps.first() else { return };
        let is_plain = |step: &Step| step.needs.is_none() && !self.unreadable.has_in_step(&step.id, "needs");
        let waits = if block.steps.iter().all(is_plain) {
            Dependencies::Chain(block.steps.len())
        } else {
            let mut unordered = HashSet::new();
            let edges = self.graph(block, &mut unordered);
            self.report_cycles(block, &edges, &mut unordered);
            Dependencies::Graph(Box::new(Graph { edges, unordered }))
        };
        self.plan.blocks.insert(first.id.clone(), BlockGraph(waits));
    }

    fn graph(&mut self, block: &Block, unordered: &mut HashSet<usize>) -> DiGraph<usize, ()> {
        let places: HashMap<&str, usize> =
            block.steps.iter().enumerate().map(|(index, step)| (step.id.as_ref(), index)).collect();
        let mut graph = DiGraph::with_capacity(block.steps.len(), block.steps.len());
        for index in 0..block.steps.len() {
            graph.add_node(index);
        }
        for (index, step) in block.steps.iter().enumerate() {
            let unread = self.unreadable.has_in_step(&step.id, "needs");
            if unread {
                unordered.insert(index);
            }
            let Some(needs) = &step.needs else {
                if index > 0 && !unread {
                    graph.add_edge(NodeIndex::new(index - 1), NodeIndex::new(index), ());
                }
                continue;
            };
            for need in needs {
                match places.get(need.name.as_str()) {
                    Some(&before) => {
                        graph.update_edge(NodeIndex::new(before), NodeIndex::new(index), ());
                    }
                    None => {
                        unordered.insert(index);
                        if !self.unreadable.has("steps") && !self.unreadable.may_name(&need.name) {
                            self.diagnostics.push(self.unknown_need(step, need, block));
                        }
                    }
                }
            }
        }
        graph
    }

    fn unknown_need(&self, step: &Step, need: &model::automation::SpannedName, block: &Block) -> Diagnostic {
        let names = block.steps.iter().map(|step| step.id.as_ref()).filter(|id| *id != step.id.as_ref());
        let message = if self.known.contains(need.name.as_str()) {
            format!("`needs` names `{}`, which is a step of another list", need.name)
        } else {
            format!("`needs` names `{}`, which is not a step of this list", need.name)
        };
        Diagnostic::error("unknown-need", message, need.span)
            .expected_names(&need.name, names)
            .help(
                "a step can wait for steps of its own list; put a wait for a whole block on the block's step",
            )
            .step(step.id.as_ref())
    }

    fn report_cycles(&mut self, block: &Block, graph: &DiGraph<usize, ()>, unordered: &mut HashSet<usize>) {
        for component in petgraph::algo::tarjan_scc(graph) {
            let circular = component.len() > 1
                || component.first().is_some_and(|&node| graph.find_edge(node, node).is_some());
            if !circular {
                continue;
            }
            unordered.extend(component.iter().map(|&node| graph[node]));
            let path = cycle_path(graph, &component);
            let names: Vec<&str> = path.iter().map(|&index| block.steps[index].id.as_ref()).collect();
            let step = &block.steps[path[0]];
            let place = step.needs.iter().flatten().next().map_or(step.span, |need| need.span);
            self.diagnostics.push(
                Diagnostic::error(
                    "needs-cycle",
                    format!("these steps wait for each other: {}", names.join(" → ")),
                    place,
                )
                .help("take one of these names out of `needs`")
                .step(step.id.as_ref()),
            );
        }
    }
}

/// Returns a shortest path around a cycle, starting and ending at its first step in the file; each step waits for the
/// next.
fn cycle_path(graph: &DiGraph<usize, ()>, component: &[NodeIndex]) -> Vec<usize> {
    let members: HashSet<NodeIndex> = component.iter().copied().collect();
    let Some(start) = component.iter().copied().min() else { return Vec::new() };
    // Breadth first finds a shortest path.
    let mut from: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in graph.neighbors_directed(node, Direction::Incoming).filter(|next| members.contains(next))
        {
            if next == start {
                let mut path = vec![graph[start]];
                let mut at = node;
                let mut middle = Vec::new();
                while at != start {
                    middle.push(graph[at]);
                    at = from[&at];
                }
                path.extend(middle.into_iter().rev());
                path.push(graph[start]);
                return path;
            }
            if next != node && !from.contains_key(&next) {
                from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    vec![graph[start], graph[start]]
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use text::diagnostic::Source;

    use super::*;

    /// Returns the steps whose results are read.
    fn read(rest: &str) -> String {
        let text = format!("trigger: {{manual: {{}}}}\n{rest}");
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", &text)), "test");
        let automation = loaded.value.expect("it loads");
        let plan = Plan::build(&automation).0;
        let mut read = Vec::new();
        automation
            .walk(&mut |step| read.extend(Some(step.id.to_string()).filter(|id| plan.is_result_read(id))));
        read.join(" ")
    }

    #[test]
    fn unread_results_are_known_statically() {
        let two = "steps:\n  - {id: a, set: {x: 1}}\n  - {id: b, set: {x: \"${{ vars.x }}\"}}\n";
        let with = |step: &str| read(&format!("{two}  - {{id: c, {step}}}\n"));
        assert_eq!(read(two), "");
        assert_eq!(with("set: {y: \"${{ steps.a.results.x }}\"}"), "a");
        assert_eq!(with("if: steps.b.error, set: {y: 1}"), "b");
        assert_eq!(with("set: {y: \"${{ $.steps.a.results }}\"}"), "a");
        assert_eq!(with("repeat: {until: steps.d.results.x, max: 2}, steps: [{id: d, set: {x: 1}}]"), "d");
        assert_eq!(
            with(
                "action: log.info, with: {message: x}, undo: [{id: u, set: {y: \"${{ steps.b.results.x }}\"}}]"
            ),
            "b"
        );
        assert_eq!(with("fail: oh, onError: [{id: e, set: {y: \"${{ steps.a.results.x }}\"}}]"), "a");
        assert_eq!(read(&format!("outputs: \"${{{{ steps.a.results.x }}}}\"\n{two}")), "a");
        assert_eq!(read(&format!("{two}finally:\n  - set: {{y: \"${{{{ steps.b.results.x }}}}\"}}\n")), "b");
    }

    #[test]
    fn computed_reads_mark_all_results_as_read() {
        let read =
            |step: &str| read(&format!("steps:\n  - {{id: a, set: {{x: a}}}}\n  - {{id: b, {step}}}\n"));
        assert_eq!(read("set: {y: \"${{ steps[vars.x].results.x }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ steps }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ $.steps[*].results }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ $..x }}\"}"), "a b");
        assert_eq!(read("code: 'export default (context, results) => results'"), "a b");
    }
}

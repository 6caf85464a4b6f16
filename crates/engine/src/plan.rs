//! The step graph of an Automation: for each list of steps, which step waits for which.
//!
//! Without `needs` a list is a chain: each step waits for the one before it. `needs` replaces that by the steps it
//! names, `needs: []` by none. What is ready runs side by side.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::automation::{Automation, Block, OnError, Step, Verb};
use model::diagnostic::Diagnostic;
use model::load::Gaps;
use model::{Expression, Template};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;
use serde_json::json;

mod code;

pub(crate) use code::{CodePlan, CodePlans, Loop};

/// The graphs of all lists of steps of one Automation.
#[derive(Debug, Default)]
pub struct Plan {
    /// By the address of the list within the Automation that the plan was built from: its first step's id, which
    /// is unique in the file. An empty list has no graph.
    blocks: HashMap<Arc<str>, BlockGraph>,
    /// What steps read beside the results of others; most automations have none of it.
    reads: HashMap<Arc<str>, Reads>,
    /// Whether any expression reads `execution` or `automation`, and whether `execution.resumeUrl`: they are not made
    /// otherwise.
    about_itself: bool,
    resumes: bool,
    /// The steps whose results no expression and no code reads, so that they need not be kept for any.
    unread: HashSet<Arc<str>>,
    code: CodePlans,
}

/// What the expressions of one step read beside the results of others.
#[derive(Debug, Default)]
pub struct Reads {
    /// Whether they ask for `now()` or `uuid()`.
    pub moment: bool,
    /// Whether they ask for `now()`, so that when the step began has to be kept.
    pub clock: bool,
    /// The keys of `state` that they read.
    pub state: Vec<String>,
    /// Whether they read `execution` or `automation`.
    pub about_itself: bool,
    /// Whether they read `execution.resumeUrl`.
    pub resumes: bool,
}

impl Reads {
    fn note(&mut self, expression: &Expression) {
        self.moment |= expression.is_nondeterministic();
        self.clock |= expression.reads_clock();
        for reference in expression.references() {
            let mut path = reference.path.iter().map(|name| name.as_str());
            let (root, next) = (path.next(), path.next());
            self.about_itself |= matches!(root, None | Some("execution" | "automation"));
            match (root, next) {
                (Some("state"), Some(key)) if !self.state.iter().any(|known| known == key) => {
                    self.state.push(key.to_owned());
                }
                (None, _) | (Some("execution"), None | Some("resumeUrl")) => self.resumes = true,
                _ => {}
            }
        }
    }

    /// What a template reads.
    #[must_use]
    pub fn of(template: &Template) -> Self {
        let mut reads = Self::default();
        template.expressions(&mut |expression| reads.note(expression));
        reads
    }
}

/// The graph of one list of steps, which are named by their indices.
#[derive(Debug)]
pub struct BlockGraph(Waits);

#[derive(Debug)]
enum Waits {
    /// Every step waits for exactly the one before it: the common case, run without any bookkeeping and kept without
    /// any graph. So many steps there are.
    Chain(usize),
    Graph(Box<Graph>),
}

#[derive(Debug)]
struct Graph {
    /// An edge leads from a step to one that waits.
    edges: DiGraph<usize, ()>,
    /// Steps of which it is not certain what they wait for: their `needs` could not be read or names a step that does
    /// not exist, or they are on a circle. Empty in what can run.
    unsettled: HashSet<usize>,
}

impl Plan {
    /// Builds the graphs of `automation`. What `needs` gets wrong (unknown names, a step of another list, itself,
    /// a cycle) is reported with its place.
    #[must_use]
    pub fn build(automation: &Automation) -> (Self, Vec<Diagnostic>) {
        Self::of_draft(automation, Gaps::NONE)
    }

    /// As [`Plan::build`], of a file of which not everything could be read.
    pub(crate) fn of_draft(automation: &Automation, gaps: &Gaps) -> (Self, Vec<Diagnostic>) {
        let mut builder =
            Builder { plan: Self::default(), gaps, diagnostics: Vec::new(), known: HashSet::new() };
        automation.walk(&mut |step| {
            builder.known.insert(step.id.clone());
        });
        builder.reads(automation);
        builder.plan.code = CodePlans::of(automation);
        builder.block(&automation.steps);
        for block in [&automation.on_error, &automation.finally].into_iter().flatten() {
            builder.block(block);
        }
        (builder.plan, builder.diagnostics)
    }

    fn note(&mut self, reads: &Reads) {
        self.about_itself |= reads.about_itself;
        self.resumes |= reads.resumes;
    }

    /// Notes which results an expression reads: those of any step, where that shows only when it is evaluated.
    fn note_read_steps(&mut self, expression: &Expression) {
        for reference in expression.references() {
            let mut path = reference.path.iter().map(|name| name.as_str());
            match (path.next(), path.next()) {
                (Some("steps"), Some(id)) => {
                    self.unread.remove(id);
                }
                (None | Some("steps"), _) => self.unread.clear(),
                _ => {}
            }
        }
    }

    /// The graph of `block`; `None` for an empty one.
    #[must_use]
    pub fn block(&self, block: &Block) -> Option<&BlockGraph> {
        self.blocks.get(&block.steps.first()?.id)
    }

    /// What a step reads beside the results of others; `None` for the many that read nothing of it.
    #[must_use]
    pub fn reads(&self, step: &str) -> Option<&Reads> {
        if self.reads.is_empty() { None } else { self.reads.get(step) }
    }

    /// Whether anything may read the results of a step.
    #[must_use]
    pub fn is_read(&self, step: &str) -> bool {
        self.unread.is_empty() || !self.unread.contains(step)
    }

    /// The code of the Automation.
    #[must_use]
    pub(crate) fn code(&self) -> &CodePlans {
        &self.code
    }

    /// Whether any expression reads `execution` or `automation`.
    #[must_use]
    pub fn is_about_itself(&self) -> bool {
        self.about_itself
    }

    /// Whether any expression reads `execution.resumeUrl`.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    /// The plan for the API and for drawing: each step with what it does, what it waits for, and its lists.
    #[must_use]
    pub fn graph(&self, automation: &Automation) -> serde_json::Value {
        let lists = [("steps", Some(&automation.steps)), ("onError", automation.on_error.as_ref())];
        let lists = lists.into_iter().chain([("finally", automation.finally.as_ref())]);
        let drawn = lists.filter_map(|(name, block)| Some((name.to_owned(), self.draw(block?))));
        serde_json::Value::Object(drawn.collect())
    }

    fn draw(&self, block: &Block) -> serde_json::Value {
        let graph = self.block(block);
        let steps = block.steps.iter().enumerate().map(|(index, step)| {
            let waits: Vec<&str> = graph.map_or_else(Vec::new, |graph| {
                graph.waits_for(index).map(|before| block.steps[before].id.as_ref()).collect()
            });
            let lists: Vec<_> = step
                .verb
                .lists()
                .into_iter()
                .map(|inner| json!({"name": inner.name, "steps": self.draw(inner.block)}))
                .collect();
            let on_error =
                if let OnError::Steps(inner) = &step.on_error { self.draw(inner) } else { json!(null) };
            let undo = step.undo.as_ref().map(|inner| self.draw(inner));
            json!({
                "id": step.id, "name": step.name, "verb": step.verb.word(),
                "needs": waits, "blocks": lists, "onError": on_error, "undo": undo,
            })
        });
        steps.collect()
    }
}

impl BlockGraph {
    /// Whether the list is a plain sequence.
    #[must_use]
    pub fn is_chain(&self) -> bool {
        matches!(self.0, Waits::Chain(_))
    }

    /// The steps that the step at `index` waits for.
    pub fn waits_for(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let (before, graph) = match &self.0 {
            Waits::Chain(_) => (index.checked_sub(1), None),
            Waits::Graph(graph) => (None, Some(graph.neighbours(index, Direction::Incoming))),
        };
        before.into_iter().chain(graph.into_iter().flatten())
    }

    /// The steps that wait for the step at `index`.
    pub fn waited_by(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let (after, graph) = match &self.0 {
            Waits::Chain(length) => (Some(index + 1).filter(|after| after < length), None),
            Waits::Graph(graph) => (None, Some(graph.neighbours(index, Direction::Outgoing))),
        };
        after.into_iter().chain(graph.into_iter().flatten())
    }

    /// How many steps each step waits for, by index.
    #[must_use]
    pub fn waiting_counts(&self) -> Vec<usize> {
        match &self.0 {
            Waits::Chain(length) => (0..*length).map(|index| usize::from(index > 0)).collect(),
            Waits::Graph(graph) => {
                let nodes = graph.edges.node_indices();
                nodes.map(|node| graph.edges.edges_directed(node, Direction::Incoming).count()).collect()
            }
        }
    }

    /// Every step that has ended before the step at `index` begins.
    #[must_use]
    pub fn ancestors(&self, index: usize) -> HashSet<usize> {
        match &self.0 {
            Waits::Chain(_) => (0..index).collect(),
            Waits::Graph(graph) => graph.ancestors(index),
        }
    }

    /// Whether it is not certain what the step at `index` waits for, itself or by way of another.
    #[must_use]
    pub(crate) fn is_unsettled(&self, index: usize) -> bool {
        match &self.0 {
            Waits::Chain(_) => false,
            Waits::Graph(graph) => {
                let is_unsettled = |index: &usize| graph.unsettled.contains(index);
                !graph.unsettled.is_empty()
                    && (is_unsettled(&index) || graph.ancestors(index).iter().any(is_unsettled))
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
    gaps: &'g Gaps,
    diagnostics: Vec<Diagnostic>,
    known: HashSet<Arc<str>>,
}

impl Builder<'_> {
    fn reads(&mut self, automation: &Automation) {
        // What code reads is known only to whoever looks into it.
        let mut has_code = false;
        automation.walk(&mut |step| has_code |= matches!(step.verb, Verb::Code(_)));
        if !has_code {
            self.plan.unread.clone_from(&self.known);
        }
        automation.walk(&mut |step| {
            let mut reads = Reads::default();
            step.expressions(&mut |expression| {
                reads.note(expression);
                self.plan.note_read_steps(expression);
            });
            self.plan.note(&reads);
            if reads.moment || !reads.state.is_empty() {
                self.plan.reads.insert(step.id.clone(), reads);
            }
        });
        let key = automation.concurrency.as_ref().and_then(|concurrency| concurrency.key.as_ref());
        for template in [automation.outputs.as_ref(), key].into_iter().flatten() {
            self.plan.note(&Reads::of(template));
            template.expressions(&mut |expression| self.plan.note_read_steps(expression));
        }
    }

    fn block(&mut self, block: &Block) {
        for step in &block.steps {
            for inner in step.verb.lists() {
                self.block(inner.block);
            }
            if let OnError::Steps(inner) = &step.on_error {
                self.block(inner);
            }
            if let Some(inner) = &step.undo {
                self.block(inner);
            }
        }
        let Some(first) = block.steps.first() else { return };
        let is_plain = |step: &Step| step.needs.is_none() && !self.gaps.has_in_step(&step.id, "needs");
        let waits = if block.steps.iter().all(is_plain) {
            Waits::Chain(block.steps.len())
        } else {
            let mut unsettled = HashSet::new();
            let edges = self.graph(block, &mut unsettled);
            self.report_cycles(block, &edges, &mut unsettled);
            Waits::Graph(Box::new(Graph { edges, unsettled }))
        };
        self.plan.blocks.insert(first.id.clone(), BlockGraph(waits));
    }

    fn graph(&mut self, block: &Block, unsettled: &mut HashSet<usize>) -> DiGraph<usize, ()> {
        let places: HashMap<&str, usize> =
            block.steps.iter().enumerate().map(|(index, step)| (step.id.as_ref(), index)).collect();
        let mut graph = DiGraph::with_capacity(block.steps.len(), block.steps.len());
        for index in 0..block.steps.len() {
            graph.add_node(index);
        }
        for (index, step) in block.steps.iter().enumerate() {
            let unread = self.gaps.has_in_step(&step.id, "needs");
            if unread {
                unsettled.insert(index);
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
                        unsettled.insert(index);
                        if !self.gaps.has("steps") && !self.gaps.may_name(&need.name) {
                            self.diagnostics.push(self.unknown_need(step, need, block));
                        }
                    }
                }
            }
        }
        graph
    }

    fn unknown_need(&self, step: &Step, need: &model::automation::Named, block: &Block) -> Diagnostic {
        let names = block.steps.iter().map(|step| step.id.as_ref()).filter(|id| *id != step.id.as_ref());
        let message = if self.known.contains(need.name.as_str()) {
            format!("`needs` names `{}`, which is a step of another list", need.name)
        } else {
            format!("`needs` names `{}`, which is no step of this list", need.name)
        };
        Diagnostic::error("unknown-need", message, need.span)
            .expected_names(&need.name, names)
            .help(
                "a step can wait for steps of its own list; put a wait for a whole block on the block's step",
            )
            .step(step.id.as_ref())
    }

    fn report_cycles(&mut self, block: &Block, graph: &DiGraph<usize, ()>, unsettled: &mut HashSet<usize>) {
        for component in petgraph::algo::tarjan_scc(graph) {
            let circular = component.len() > 1
                || component.first().is_some_and(|&node| graph.find_edge(node, node).is_some());
            if !circular {
                continue;
            }
            unsettled.extend(component.iter().map(|&node| graph[node]));
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

/// One way round a cycle: from its first step in the file, each followed by one it waits for, back to the first.
fn cycle_path(graph: &DiGraph<usize, ()>, component: &[NodeIndex]) -> Vec<usize> {
    let members: HashSet<NodeIndex> = component.iter().copied().collect();
    let Some(start) = component.iter().copied().min() else { return Vec::new() };
    // Breadth first, so that the shortest way round is named.
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
    use model::diagnostic::Source;
    use pretty_assertions::assert_eq;

    use super::*;

    /// The steps of which somebody reads the results.
    fn read(rest: &str) -> String {
        let text = format!("trigger: {{manual: {{}}}}\n{rest}");
        let loaded = model::load::automation(Arc::new(Source::new("test.yaml", &text)), "test");
        let automation = loaded.value.expect("it loads");
        let plan = Plan::build(&automation).0;
        let mut read = Vec::new();
        automation.walk(&mut |step| read.extend(Some(step.id.to_string()).filter(|id| plan.is_read(id))));
        read.join(" ")
    }

    #[test]
    fn results_that_nothing_reads_are_known_before_anything_runs() {
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
    fn where_it_shows_only_later_which_results_are_read_all_are() {
        let read =
            |step: &str| read(&format!("steps:\n  - {{id: a, set: {{x: a}}}}\n  - {{id: b, {step}}}\n"));
        assert_eq!(read("set: {y: \"${{ steps[vars.x].results.x }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ steps }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ $.steps[*].results }}\"}"), "a b");
        assert_eq!(read("set: {y: \"${{ $..x }}\"}"), "a b");
        assert_eq!(read("code: 'export default (context, results) => results'"), "a b");
    }
}

//! The steps of an execution as a tree: blocks inside their step, loops iteration by iteration.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use model::automation::{Automation, Block, BlockKind};

use crate::history::Step;
use crate::output::{BAD, GOOD, QUIET, WARN, cut, paint, plain};
use crate::{time, waiting};

/// The maximum number of printed iterations of a loop.
const TURNS: usize = 25;
/// The maximum length of a result, in characters.
const RESULT: usize = 80;
/// The maximum number of printed signals of a step.
const SIGNALS: usize = 5;

/// A line with its indented lines below.
struct Branch {
    text: String,
    /// A separate line below the first.
    note: Option<String>,
    inside: Vec<Branch>,
}

/// The tree as lines. Without its definition, the steps are a plain list.
pub(in crate::commands) fn lines(automation: Option<&Automation>, steps: &[Step]) -> Vec<String> {
    let mut drawing = Drawing {
        steps: steps.iter().map(|step| (step.step.as_str(), step)).collect(),
        turns: turns(steps),
        drawn: HashSet::new(),
    };
    let mut branches = Vec::new();
    if let Some(automation) = automation {
        branches = drawing.block(&automation.steps, "");
        let closing = [("onError", &automation.on_error), ("finally", &automation.finally)];
        for (name, block) in closing {
            let inside = block.as_ref().map(|block| drawing.block(block, "")).unwrap_or_default();
            if !inside.is_empty() {
                branches.push(Branch { text: paint(QUIET, name), note: None, inside });
            }
        }
    }
    let rest = steps.iter().filter(|step| !drawing.drawn.contains(step.step.as_str()));
    branches.extend(rest.map(|step| leaf(step, "", Vec::new())));
    let mut lines = Vec::new();
    draw(&branches, "", &mut lines);
    lines
}

/// For each step, the enclosing iterations: `copy[2][0]` is `copy` in `[2][0]`.
fn turns(steps: &[Step]) -> HashMap<&str, Vec<&str>> {
    let mut turns: HashMap<&str, Vec<&str>> = HashMap::new();
    for step in steps {
        let (id, turn) = step.step.split_at(step.step.find('[').unwrap_or(step.step.len()));
        turns.entry(id).or_default().push(turn);
    }
    turns
}

struct Drawing<'a> {
    steps: BTreeMap<&'a str, &'a Step>,
    turns: HashMap<&'a str, Vec<&'a str>>,
    drawn: HashSet<&'a str>,
}

impl Drawing<'_> {
    /// The steps of a block that have started, in the iterations of the enclosing loops.
    fn block(&mut self, block: &Block, around: &str) -> Vec<Branch> {
        let mut branches = Vec::new();
        for step in &block.steps {
            let key = format!("{}{around}", step.id);
            let mut inside = Vec::new();
            for list in step.verb.nested_blocks() {
                if matches!(list.kind, BlockKind::Loop { .. }) {
                    inside.extend(self.loop_turns(list.block, around));
                    continue;
                }
                let steps = self.block(list.block, around);
                // The chosen branch is printed with its name.
                match list.name {
                    Some(name) if !steps.is_empty() => {
                        inside.push(Branch { text: paint(QUIET, name), note: None, inside: steps });
                    }
                    _ => inside.extend(steps),
                }
            }
            for (handler, block) in step.handlers() {
                let steps = self.block(block, around);
                if !steps.is_empty() {
                    inside.push(Branch { text: paint(QUIET, handler.key()), note: None, inside: steps });
                }
            }
            match self.steps.get_key_value(key.as_str()).map(|(key, step)| (*key, *step)) {
                Some((key, found)) => {
                    self.drawn.insert(key);
                    branches.push(leaf(found, step.verb.keyword(), inside));
                }
                // A block that has started and not ended has no event of its own.
                None if !inside.is_empty() => {
                    let text = format!("{} {key}  {}", paint(WARN, "…"), paint(QUIET, step.verb.keyword()));
                    branches.push(Branch { text, note: None, inside });
                }
                None => {}
            }
        }
        branches
    }

    fn loop_turns(&mut self, block: &Block, around: &str) -> Vec<Branch> {
        let mut indices = BTreeSet::new();
        block.walk(&mut |step| {
            let turns = self.turns.get(step.id.as_ref()).into_iter().flatten();
            indices.extend(turns.filter_map(|turn| {
                let (index, _) = turn.strip_prefix(around)?.strip_prefix('[')?.split_once(']')?;
                index.parse::<usize>().ok()
            }));
        });
        let mut branches = Vec::new();
        for (count, index) in indices.iter().enumerate() {
            let inside = self.block(block, &format!("{around}[{index}]"));
            if count < TURNS {
                branches.push(Branch { text: paint(QUIET, format_args!("[{index}]")), note: None, inside });
            }
        }
        if indices.len() > TURNS {
            let text = format!("{} more iterations; --json shows them", indices.len() - TURNS);
            branches.push(Branch { text: paint(QUIET, text), note: None, inside: Vec::new() });
        }
        branches
    }
}

fn leaf(step: &Step, verb: &str, inside: Vec<Branch>) -> Branch {
    let (mark, style) = match step.status.as_str() {
        "succeeded" => ("✓", GOOD),
        "failed" => ("✗", BAD),
        "skipped" => ("–", QUIET),
        "waiting" if step.on.is_some() => ("◷", WARN),
        "waiting" => ("↻", WARN),
        "left" => ("–", WARN),
        _ => ("…", WARN),
    };
    let mut text = format!("{} {}", paint(style, mark), plain(&step.step));
    if !verb.is_empty() {
        text.push_str(&format!("  {}", paint(QUIET, verb)));
    }
    if let Some(what) = step.action.as_ref().or(step.automation.as_ref()) {
        text.push_str(&format!(" {}", plain(what)));
        if let Some(connection) = &step.connection {
            text.push_str(&paint(QUIET, format_args!(" with {}", plain(connection))));
        }
    }
    if let Some(took) = step.took_ms {
        let took = Duration::try_from_secs_f64(took / 1000.0).unwrap_or_default();
        text.push_str(&format!("  {}", time::took(took)));
    }
    if let Some(request) = &step.request {
        text.push_str(&format!("  {} {}", plain(&request.method), plain(&request.url)));
    }
    if !step.executions.is_empty() {
        text.push_str(&format!("  → {}", plain(&step.executions.join(", "))));
    }
    if step.attempts > 1 {
        text.push_str(&format!("  {}", paint(WARN, format_args!("{} tries", step.attempts))));
    }
    match (&step.on, step.next_at) {
        (Some(on), until) => text.push_str(&format!("  {}", waiting::waits(on, until))),
        (None, Some(at)) => text.push_str(&format!("  next try {}", time::local(at))),
        (None, None) => {}
    }
    if let Some(left) = step.left.as_ref().filter(|left| *left != verb) {
        text.push_str(&format!("  {}", paint(QUIET, left)));
    }
    match step.status.as_str() {
        "left" => {
            let before = if step.request.is_some() { "its answer" } else { "it" };
            text.push_str(&format!("  {}", paint(WARN, format_args!("the execution ended before {before}"))));
        }
        "skipped" | "running" | "handling" => text.push_str(&format!("  {}", paint(QUIET, &step.status))),
        _ => {}
    }
    if let Some(result) = step.result.as_ref().filter(|result| !result.is_null()) {
        let result = result.to_string();
        text.push_str(&format!("  {}", paint(QUIET, plain(&cut(&result, RESULT)))));
    }
    let note = step.error.as_ref().map(|error| paint(BAD, plain(&error.message_with_location())));
    Branch { text, note, inside: signals(step).chain(inside).collect() }
}

/// The signals that a waiting step has received.
fn signals(step: &Step) -> impl Iterator<Item = Branch> {
    let more = step.signals.len().saturating_sub(SIGNALS);
    let shown = step.signals.iter().take(SIGNALS).map(|signal| {
        let what = match &signal.name {
            Some(name) => format!("event `{}`", plain(&cut(name, RESULT))),
            None => "answer".to_owned(),
        };
        let by = signal.by.as_ref().map_or_else(String::new, |by| format!(" by {}", plain(&cut(by, RESULT))));
        format!("← {what}{by}, {}", time::local(signal.at))
    });
    let more = (more > 0).then(|| format!("← {more} more"));
    shown.chain(more).map(|text| Branch { text: paint(QUIET, text), note: None, inside: Vec::new() })
}

fn draw(branches: &[Branch], indent: &str, lines: &mut Vec<String>) {
    for (index, branch) in branches.iter().enumerate() {
        let is_last = index + 1 == branches.len();
        let (corner, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{corner}{}", branch.text));
        let below = format!("{indent}{below}");
        if let Some(note) = &branch.note {
            let bar = if branch.inside.is_empty() { "  " } else { "│ " };
            lines.push(format!("{below}{bar}{note}"));
        }
        draw(&branch.inside, &below, lines);
    }
}

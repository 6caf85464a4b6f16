//! Hundreds of hostile scripts, each on a real worker: each ends in time with a clear error, leaves nothing in the calling
//! process, and does not affect the next run. The scripts are data: see `tests/hostile/README.md`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use script::{Error, Pool};

use crate::support::{result, settings, step};

/// The limits of scripts that are expected to exceed them.
const SHORT: Duration = Duration::from_millis(80);
/// The limits of scripts that end by themselves: ample even on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// The heap limit here: smaller than the default, so that it fills sooner.
const MEMORY: usize = 8 * 1024 * 1024;
/// The maximum memory growth of the caller over a whole file of scripts.
const MAX_GROWTH: u64 = 48 * 1024 * 1024;

/// The checks of a later run: globals that an earlier run may have broken.
const AFTERWARDS: &str = "export default (context, results) => [
  1 + 1, [3, 1, 2].sort().map((n) => n * 2), ({}).polluted ?? null, JSON.stringify({ a: [1] }), typeof globalThis.left,
  new URL('https://a.b/c?d=1').searchParams.get('d'), Buffer.from('a').toString('hex'), Object.keys(results).length,
]";
const AS_EVER: &str = r#"[2,[2,4,6],null,"{\"a\":[1]}","undefined","1","61",0]"#;

struct Script {
    name: String,
    code: String,
    outcomes: Vec<String>,
}

/// The scripts of a file.
fn scripts(text: &str) -> Vec<Script> {
    let mut found = Vec::new();
    for section in text.split("//# ").skip(1) {
        let (head, body) = section.split_once('\n').expect("a head has a line of its own");
        let (outcomes, name) = head.split_once(' ').expect("a head has outcomes and a name");
        let outcomes: Vec<String> = outcomes.split('|').map(str::to_owned).collect();
        let (name, is_module) = name.strip_prefix("module ").map_or((name, false), |name| (name, true));
        let variants: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("//: ")).collect();
        let body: Vec<&str> = body.lines().filter(|line| !line.starts_with("//: ")).collect();
        let body = body.join("\n");
        let wrap = |body: &str| match is_module {
            true => body.to_owned(),
            false => format!("export default async function (context, stepResults) {{\n{body}\n}}"),
        };
        let script = |name: &str, body: &str| Script {
            name: name.to_owned(),
            code: wrap(body),
            outcomes: outcomes.clone(),
        };
        assert!(variants.is_empty() || body.contains("$X"), "`{name}` has no place for its variants");
        if variants.is_empty() {
            found.push(script(name, &body));
        }
        found.extend(variants.iter().map(|variant| script(variant, &body.replace("$X", variant))));
    }
    found
}

/// The observed effects of the scripts, other than their end.
#[derive(Default)]
struct Seen {
    /// The number of scripts that ran until they were stopped.
    overruns: u32,
    /// The number of overruns during which a call on another worker was answered.
    answered_meanwhile: u32,
}

/// The lateness of a timer of this process that is due with the end of a script: caused by the machine.
async fn lateness(due: Duration) -> Duration {
    let started = Instant::now();
    let _ = tokio::time::timeout(due, std::future::pending::<()>()).await;
    started.elapsed().saturating_sub(due)
}

/// The end of a script in the corpus's terms. An error without a message is not a clear end.
async fn end(pool: &Pool, other: &Pool, script: &Script, seen: &mut Seen) -> &'static str {
    let mut run = step(&script.code);
    let may_overrun = script.outcomes.iter().any(|outcome| outcome == "overrun");
    run.deadline = if may_overrun { SHORT } else { LONG };
    let deadline = run.deadline;
    let is_over = Cell::new(false);
    let hostile = async {
        let ended = run.on(pool).await;
        is_over.set(true);
        ended
    };
    let meanwhile = async {
        assert_eq!(result(other, "export default () => 1").await, "1");
        !is_over.get()
    };
    // The pool kills 50 ms after the deadline.
    let due = deadline + Duration::from_millis(50);
    let late = async { if may_overrun { lateness(due).await } else { Duration::ZERO } };
    let (ended, was_answered, late) = tokio::join!(hostile, meanwhile, late);
    if let Err(Error::Overrun { took, .. }) = &ended {
        seen.overruns += 1;
        seen.answered_meanwhile += u32::from(was_answered);
        let most = deadline + Duration::from_millis(100) + late;
        assert!(*took <= most, "{} ended after {took:?}, and a timer was {late:?} late", script.name);
    }
    match ended {
        Ok(_) => "fine",
        Err(Error::Overrun { .. }) => "overrun",
        Err(Error::OutOfMemory { .. }) => "memory",
        Err(Error::TooLarge { .. }) => "large",
        Err(Error::Thrown(failure)) if !failure.message.trim().is_empty() => "error",
        Err(Error::Worker { .. }) => "died",
        Err(other) => panic!("{} ended with {other:?}", script.name),
    }
}

/// The resident memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}

async fn check(text: &str, at_least: usize) {
    let mut settings = settings(1);
    settings.memory = MEMORY;
    let (pool, other) = (Pool::new(settings.clone()), Pool::new(settings));
    assert_eq!(result(&other, "export default () => 1").await, "1");
    assert_eq!(result(&pool, AFTERWARDS).await, AS_EVER, "before any script");
    let before = resident();
    let scripts = scripts(text);
    assert!(scripts.len() >= at_least, "{} scripts", scripts.len());
    let (mut wrong, mut seen) = (Vec::new(), Seen::default());
    for script in &scripts {
        let ended = end(&pool, &other, script, &mut seen).await;
        if !script.outcomes.iter().any(|outcome| outcome == ended) {
            wrong.push(format!("{ended}: {}", script.name));
        }
        assert_eq!(result(&pool, AFTERWARDS).await, AS_EVER, "after `{}`", script.name);
    }
    assert_eq!(wrong, Vec::<String>::new());
    // A busy machine may occasionally have had no time for either.
    let Seen { overruns, answered_meanwhile } = seen;
    assert!(answered_meanwhile * 10 >= overruns * 9, "{answered_meanwhile} answers in {overruns} overruns");
    let grown = resident().saturating_sub(before);
    assert!(grown < MAX_GROWTH, "the caller grew by {grown} bytes");
}

#[tokio::test]
async fn loops_end_at_their_deadline() {
    check(include_str!("../hostile/loops.js"), 130).await;
}

#[tokio::test]
async fn uninterruptible_native_calls_end_at_their_deadline() {
    check(include_str!("../hostile/natives.js"), 110).await;
}

#[tokio::test]
async fn memory_is_bounded() {
    check(include_str!("../hostile/memory.js"), 70).await;
}

#[tokio::test]
async fn stacks_are_bounded() {
    check(include_str!("../hostile/stack.js"), 59).await;
}

#[tokio::test]
async fn the_sandbox_cannot_be_escaped() {
    check(include_str!("../hostile/escapes.js"), 90).await;
}

#[tokio::test]
async fn hostile_results_errors_and_output_are_handled() {
    check(include_str!("../hostile/results.js"), 110).await;
}

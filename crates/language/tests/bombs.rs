//! Hostile files: each is rejected at a location, within bounds of memory and work.
//!
//! The tests measure allocated bytes and the thread's processor time, never wall-clock time. The tests of
//! this file share one allocator, so a single test measures the peak, and it runs alone in its process.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

use std::alloc::System;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use cap::Cap;
use rustix::time::{ClockId, clock_gettime};
use text::diagnostic::Report;
use text::{Severity, Source};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The stack of the threads that check files.
const STACK: usize = 2 * MIB;
/// The peak memory of loading any file, in addition to its text.
const PEAK: usize = 24 * MIB;
/// The total of its allocations: reallocated memory counts as work.
const WORK: usize = 128 * MIB;
const HEAD: &str = "trigger: {manual: {}}\nsteps:\n";

/// Loads a text on a thread with a stack of the daemon's size.
fn load(text: &str) -> Report {
    let source = Arc::new(Source::new("automations/bomb.yaml", text));
    let thread = std::thread::Builder::new().stack_size(STACK);
    let loading = thread.spawn(move || language::load::automation(source, "bomb").report);
    loading.expect("a thread").join().expect("it neither panics nor overflows")
}

/// `line:column code` of the first error.
fn first_error(report: &Report) -> String {
    let entries = report.entries().into_iter();
    let first = entries
        .filter(|entry| entry.severity == Severity::Error)
        .map(|entry| format!("{}:{} {}", entry.line, entry.column, entry.code));
    first.take(1).collect()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// A step with an expression.
fn expression(text: &str) -> String {
    format!("{HEAD}  - set: {{v: \"${{{{ {text} }}}}\"}}\n")
}

/// A description, the text, and the expected location and code.
type Bomb = (&'static str, String, &'static str);

/// Files that are bombs as YAML.
fn of_yaml() -> Vec<Bomb> {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{inner}]").expect("written");
    }
    let nested_anchors = lines(31, |level| format!("&a{level} ["));
    let closed = format!("{}{}", "1,".repeat(15_000), "]".repeat(31));
    vec![
        ("aliases of aliases", laughs, "5:15 yaml-too-large"),
        (
            "copies of a text",
            format!("- &a \"{}\"\n- [*a, *a, *a]\n", "x".repeat(100 * KIB)),
            "2:12 yaml-too-large",
        ),
        ("anchors", lines(20_000, |number| format!("- &a{number} x\n")), "20000:11 yaml-too-large"),
        ("anchors inside anchors", nested_anchors + &closed, "1:170 yaml-too-large"),
        ("brackets", "[".repeat(250 * KIB), "1:34 yaml-too-large"),
        ("blocks", lines(600, |level| format!("{}a:\n", " ".repeat(level))), "33:33 yaml-too-large"),
        ("keys", lines(25_000, |number| format!("k{number}: 1\n")), "10000:8 yaml-too-large"),
        ("the same key", "a: 1\n".repeat(50_000), "2:1 yaml-duplicate-key"),
        ("a list", format!("steps: [{}]", "1,".repeat(125 * KIB)), "1:40003 yaml-too-large"),
        ("tags", "- !x 1\n".repeat(19_000), "1:3 yaml-tag"),
        ("numbers", "- 1e999\n".repeat(19_000), "1:3 yaml-number"),
    ]
}

/// Files that are bombs as automations.
fn of_automations() -> Vec<Bomb> {
    let texts = |inner: &str, count: usize| format!("{HEAD}  - set: {{v: \"{}\"}}\n", inner.repeat(count));
    vec![
        (
            "unknown keys",
            format!("{HEAD}  []\n{}", lines(4_000, |number| format!("zz{number}: 1\n"))),
            "4:1 unknown-key",
        ),
        (
            "unknown keys of a step",
            format!("{HEAD}  - set: {{v: 1}}\n{}", lines(4_000, |number| format!("    zz{number}: 1\n"))),
            "4:5 unknown-key",
        ),
        (
            "a step of nothing known",
            format!("{HEAD}  - zz: 1\n{}", lines(4_000, |number| format!("    zz{number}: 1\n"))),
            "3:5 unknown-key",
        ),
        (
            "steps of one name",
            format!("{HEAD}{}", "  - {id: x, set: {v: 1}}\n".repeat(2_800)),
            "4:10 duplicate-id",
        ),
        ("expressions of nothing", texts("${{}}", 50_000), "3:18 expression-syntax"),
        ("expressions without end", texts("${{", 80_000), "3:15 unclosed-expression"),
        (
            "expressions that cannot be read",
            format!(
                "{HEAD}  - set:\n{}",
                lines(9_000, |number| format!("      k{number}: ${{{{ a b }}}}\n"))
            ),
            "4:17 expression-syntax",
        ),
        (
            "a deep expression of brackets",
            expression(&format!("{}1{}", "(".repeat(2000), ")".repeat(2000))),
            "3:69 expression-syntax",
        ),
        (
            "a deep expression of signs",
            expression(&format!("{}1", "-".repeat(4000))),
            "3:219 expression-syntax",
        ),
        (
            "a deep expression of sums",
            expression(&format!("1{}", "+1".repeat(2000))),
            "3:420 expression-syntax",
        ),
        (
            "a deep query",
            expression(&format!("$[?{}@.a{}]", "@[?".repeat(60), "]".repeat(60))),
            "3:19 expression-syntax",
        ),
        ("a long expression", expression(&format!("'{}'", "x".repeat(250 * KIB))), "3:19 expression-syntax"),
        ("a mebibyte of expressions", texts("${{", MIB / 3), "3:262116 yaml-too-large"),
        // The largest is last, since the peak covers all before it.
        ("a text of ten megabytes", format!("name: {}\n", "x".repeat(10 * MIB)), "1:262145 yaml-too-large"),
    ]
}

#[test]
fn a_bomb_is_rejected_at_its_position_within_bounded_memory() {
    // Lazily initialized data stays allocated.
    load(&expression("a + 1"));
    for (name, text, expected) in of_yaml().into_iter().chain(of_automations()) {
        let (held, asked) = (MEMORY.allocated(), MEMORY.total_allocated());
        let report = load(&text);
        let (peak, work) = (MEMORY.max_allocated().saturating_sub(held), MEMORY.total_allocated() - asked);
        assert_eq!(first_error(&report), expected, "{name}");
        assert!(report.diagnostics().len() <= 200, "{name}");
        assert!(peak <= PEAK + text.len(), "{name}: {} KiB at one time", peak / KIB);
        assert!(work <= WORK, "{name}: {} KiB altogether", work / KIB);
    }
}

#[test]
fn expressions_of_the_maximum_depth_do_not_overflow_the_stack() {
    for (before, after) in [
        ("-", ""),
        ("not ", ""),
        ("", " + 1"),
        ("", " ** 1"),
        ("", " ~ a"),
        ("", " and a"),
        ("", " < 1"),
        ("", ".a"),
        ("", "[0]"),
        ("", "()"),
        ("", "|first"),
        ("", " if a else b"),
        ("(", ")"),
        ("f(", ")"),
        ("[", "]"),
        ("{'a': ", "}"),
        ("a[", "]"),
        ("not -f(", ").b"),
        ("-f(", ")|d(a)"),
        ("a if f(", ") else b"),
    ] {
        for levels in [40, 49, 50, 66, 99, 198] {
            // Any result is fine, as long as the process survives.
            load(&expression(&format!("{}1 + a{}", before.repeat(levels), after.repeat(levels))));
        }
    }
}

/// The processor time that a thread takes to load a text; the lesser of two.
fn processor_time(text: &str) -> Duration {
    let now = || {
        let at = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            u64::try_from(at.tv_sec).unwrap_or_default(),
            u32::try_from(at.tv_nsec).unwrap_or_default(),
        )
    };
    let once = || {
        let source = Arc::new(Source::new("automations/bomb.yaml", text));
        let before = now();
        drop(language::load::automation(source, "bomb"));
        now() - before
    };
    (0..2).map(|_| once()).min().unwrap_or_default()
}

#[test]
fn loading_time_grows_less_than_quadratically() {
    type Text = fn(usize) -> String;
    let texts: [(&str, Text); 9] = [
        ("unknown keys", |size| format!("{HEAD}  []\n{}", lines(size, |number| format!("zz{number}: 1\n")))),
        ("unknown keys of a step", |size| {
            format!("{HEAD}  - set: {{v: 1}}\n{}", lines(size, |number| format!("    zz{number}: 1\n")))
        }),
        ("a step of nothing known", |size| {
            format!("{HEAD}  - zz: 1\n{}", lines(size, |number| format!("    zz{number}: 1\n")))
        }),
        ("inputs of an action", |size| {
            format!(
                "{HEAD}  - action: log.info\n    with:\n{}",
                lines(size, |number| format!("      k{number}: 1\n"))
            )
        }),
        ("variables", |size| {
            format!(
                "{HEAD}  - set:\n{}",
                lines(size, |number| format!("      k{number}: ${{{{ vars.k{number} }}}}\n"))
            )
        }),
        ("the same key", |size| "a: 1\n".repeat(size)),
        ("braces", |size| format!("{HEAD}  - set: {{v: \"{}\"}}\n", "{{".repeat(8 * size))),
        ("expressions", |size| format!("{HEAD}  - set: {{v: \"{}\"}}\n", "${{a}} {{ ".repeat(2 * size))),
        ("a folded text", |size| format!("description: >\n{}{HEAD}  []\n", "  x y\n".repeat(2 * size))),
    ];
    for (name, text) in texts {
        let (small, large) = (processor_time(&text(400)), processor_time(&text(3200)));
        let times = large.as_secs_f64() / small.as_secs_f64().max(1e-4);
        assert!(times < 32.0, "{name}: {times:.1} times the work ({small:?}, {large:?})");
    }
}

//! Tests with own events: their starts, and the automations that receive them.

use std::sync::Arc;

use authoring::{check_project, find_test_files};

use super::{GoalKind, TestResult, TestRunner};

/// A project with files, and the results of the tests of `automations/pay.test.yaml` or of another file.
struct Played {
    results: Vec<TestResult>,
}

impl Played {
    #[track_caller]
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("automations")).expect("a folder");
        for (name, text) in files {
            std::fs::write(dir.path().join("automations").join(name), text).expect("the file is written");
        }
        let checked = check_project(dir.path(), &[]).expect("the connectors load");
        let shown: String = checked.reports.iter().map(|report| report.render(false)).collect();
        assert_eq!(checked.errors(), 0, "{shown}");
        let runner = TestRunner::new(Arc::new(checked.catalog), dir.path());
        let mut results = Vec::new();
        for file in find_test_files(dir.path(), runner.catalog(), &[]) {
            let suite = file.suite.expect("the tests load");
            results.extend(suite.cases.iter().map(|case| runner.run(&suite, case, None)));
        }
        Self { results }
    }

    /// Checks that the tests pass, or that one of them fails and says this.
    #[track_caller]
    fn check(&self, words: &str) {
        let shown: String = self.results.iter().map(|result| result.report.render(false)).collect();
        match words.is_empty() {
            true => assert!(self.results.iter().all(TestResult::passes), "{shown}"),
            false => assert!(shown.contains(words), "`{words}` is not said:\n{shown}"),
        }
    }

    /// The ids of the automations that ran in the first test, with the number of steps that were reached.
    fn ran(&self) -> Vec<(String, usize)> {
        let coverage = self.results[0].coverage.iter();
        let reached = |goals: &[super::Goal]| {
            goals.iter().filter(|goal| goal.kind == GoalKind::Step && goal.hits > 0).count()
        };
        coverage.map(|of| (of.automation.id.to_string(), reached(&of.goals))).collect()
    }
}

const PAY: &str = "trigger: {manual: {}}
inputs: {amount: {type: number, default: 5}}
steps:
  - id: tell
    action: events.emit
    with: {name: order.paid, data: {order: a-1, amount: \"${{ inputs.amount }}\"}}
outputs: ${{ steps.tell.results.starts }}
";
const BOOK: &str = "trigger:
  event: order.paid
  data: {order: {type: text, required: true}, amount: {type: number, required: true}, note: text}
  if: event.data.amount > 0
steps:
  - action: http.post
    with: {url: https://books.test/, body: \"${{ trigger.results.body.data }}\"}
";
const SHIP: &str = "trigger: {event: order.paid}\nsteps: [{action: log.info, with: {message: ship}}]\n";

fn paid(tests: &str) -> Played {
    Played::new(&[("pay.yaml", PAY), ("book.yaml", BOOK), ("ship.yaml", SHIP), ("pay.test.yaml", tests)])
}

const ANSWERED: &str = "doubles: {http.post: {result: {statusCode: 200}}}\n";

#[test]
fn events_of_a_test_are_recorded_and_start_nothing() {
    let played = paid(
        "tests:\n  - name: it tells\n    expect: {result: [], calls: [], events: [{name: order.paid, data: {order: a-1, amount: 5}}]}\n",
    );
    played.check("");
    assert_eq!(played.ran(), [("pay".to_owned(), 1)]);
}

#[test]
fn receivers_run_in_the_same_test_and_count_in_its_calls_and_coverage() {
    let played = paid(&format!(
        "{ANSWERED}tests:\n  - name: it tells\n    receivers: [book]\n    expect: {{result: [book], calls: [{{action: http.post, with: {{body: {{order: a-1, amount: 5}}}}}}]}}\n"
    ));
    played.check("");
    assert_eq!(played.ran(), [("book".to_owned(), 1), ("pay".to_owned(), 1)]);
    let both = paid(&format!("{ANSWERED}tests: [{{name: it tells, receivers: [book, ship]}}]\n"));
    both.check("");
    assert_eq!(both.ran().len(), 3);
}

#[test]
fn a_receiver_that_fails_or_never_starts_fails_the_test() {
    paid("doubles: {http.post: {error: {status: 500}}}\ntests: [{name: it tells, receivers: [book]}]\n")
        .check("`book`, which the event `order.paid` started, has not succeeded");
    paid("tests: [{name: it tells, receivers: [book]}]\n").check("nothing answers the call of `http.post`");
    paid("tests: [{name: it tells, inputs: {amount: 0}, receivers: [book]}]\n")
        .check("no event of this test started `book`");
}

#[test]
fn receivers_of_receivers_start_too_and_a_circle_ends() {
    let first = "trigger: {event: a.b}\nsteps: [{action: events.emit, with: {name: b.a}}]\n";
    let second = "trigger: {event: b.a}\nsteps: [{action: events.emit, with: {name: a.b}}]\n";
    let files = [
        ("first.yaml", first),
        ("second.yaml", second),
        (
            "first.test.yaml",
            "tests: [{name: it ends, found: {}, receivers: [first, second], expect: {events: {$length: 10}}}]\n",
        ),
    ];
    let played = Played::new(&files);
    played.check("");
    assert_eq!(played.ran().len(), 2);
}

#[test]
fn the_data_of_an_event_are_converted_and_have_their_declared_fields() {
    let tests = |lines: &str| {
        Played::new(&[
            ("book.yaml", BOOK),
            ("book.test.yaml", &format!("{ANSWERED}tests:\n  - name: it books\n{lines}")),
        ])
    };
    tests("    found: {order: 17, amount: \"2.5\", more: true}\n    expect: {calls: [{action: http.post, with: {body: {$exactly: {order: \"17\", amount: 2.5, note: null, more: true}}}}]}\n").check("");
    tests("    found: {order: a, amount: 0}\n    expect: {started: false}\n").check("");
}

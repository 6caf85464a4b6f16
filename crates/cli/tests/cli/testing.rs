//! `test`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::support::{HELLO, Project, Ran};

const SHIP: &str = "\
trigger: {manual: {}}
inputs: {id: {type: text, default: a1}}
steps:
  - id: stock
    action: http.request
    retry: 1
    with: {url: \"https://stock.example.com/${{ inputs.id }}\"}
  - id: check
    if: steps.stock.results.body.left > 0
    then: [{action: log.info, with: {message: Shipped}}]
    else: [{fail: Nothing left}]
";

const TESTS: &str = "\
doubles:
  stock: {result: {body: {left: 3}}}
tests:
  - name: what is there is shipped
    expect: {steps: {check: {branch: then}}, logs: [Shipped]}
  - name: what is not there is refused
    doubles:
      stock: {result: {body: {left: 0}}}
    expect: {error: Nothing left}
";

fn project(tests: &str) -> Project {
    Project::with(&[("automations/ship.yaml", SHIP), ("automations/ship.test.yaml", tests)])
}

/// The output without how long everything took, and without spaces at the ends of lines.
fn timeless(ran: &Ran) -> String {
    let is_unit = |word: &str| ["ms", "µs", "s"].contains(&word);
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let lines = ran.stdout.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let cut = match words.as_slice() {
            [rest @ .., number, unit] if is_unit(unit) && is_number(number) => rest.join(" "),
            _ => line.to_owned(),
        };
        cut.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn passing_tests_are_listed_and_counted() {
    let ran = project(TESTS).cogwork(&["test"]).exits(0);
    insta::assert_snapshot!(timeless(&ran), @r"
    automations/ship.test.yaml
      ✓ what is there is shipped
      ✓ what is not there is refused

    2 tests in 1 file: 2 passed
    ");
}

#[test]
fn a_failing_test_points_at_its_expectation() {
    let ran = project(&TESTS.replace("logs: [Shipped]", "logs: [Sent]")).cogwork(&["test"]).exits(1);
    insta::assert_snapshot!(timeless(&ran), @r#"
    automations/ship.test.yaml
      ✗ what is there is shipped
      ✓ what is not there is refused

    ✗ automations/ship.test.yaml › what is there is shipped

    error[unmet]: `logs[0].message` is not "Sent"
     --> automations/ship.test.yaml:5:53
      |
    5 |     expect: {steps: {check: {branch: then}}, logs: [Sent]}
      |                                                     ^^^^ found "Shipped"

    what ran:
    ├─ ✓ stock  action  {"body":{"left":3}}
    └─ ✓ check  if
       └─ then
          └─ ✓ step3  action

    2 tests in 1 file: 1 passed, 1 failed
    "#);
}

#[test]
fn a_call_without_a_stub_explains_how_to_add_it() {
    let ran = project("tests: [{name: nobody answers}]\n").cogwork(&["test"]).exits(1);
    assert!(
        ran.stdout.contains("nothing answers the call of `http.request` of the step `stock`"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("`http.request: {result: …}`"), "{}", ran.stdout);
}

#[test]
fn only_selected_tests_run() {
    let project = project(TESTS);
    project.write("automations/hello.yaml", HELLO);
    project.write("automations/hello.test.yaml", "tests: [{name: it greets}]\n");
    let names = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["test", "--json"].iter().chain(arguments).copied().collect();
        let found = project.cogwork(&arguments).exits(0).json();
        let files = found["files"].as_array().expect("a list").iter();
        let tests = files.flat_map(|file| file["tests"].as_array().expect("a list"));
        tests.map(|test| test["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]).len(), 3);
    assert_eq!(names(&["automations/hello.yaml"]), ["it greets"]);
    assert_eq!(names(&["automations/ship.test.yaml", "--name", "REFUSED"]), ["what is not there is refused"]);
    project
        .cogwork(&["test", "--name", "nothing like it"])
        .exits(2)
        .says("no test has `nothing like it` in its name");
    project.cogwork(&["test", "automations/nosuch.yaml"]).exits(1).says("cannot find");
    Project::with(&[("automations/hello.yaml", HELLO)]).cogwork(&["test"]).exits(2).says("NAME.test.yaml");
}

#[test]
fn a_test_file_with_errors_fails_test_and_validate() {
    let project = project("tests:\n  - name: a\n    expect: {steps: {stok: failed}}\n");
    for command in ["test", "validate"] {
        let ran = project.cogwork(&[command]).exits(1);
        assert!(ran.stdout.contains("there is no step `stok` in `ship`"), "{}", ran.stdout);
        assert!(ran.stdout.contains("did you mean `stock`?"), "{}", ran.stdout);
    }
}

#[test]
fn coverage_lists_unreached_steps_with_their_lines() {
    let tests = TESTS.split("  - name: what is not").next().expect("a part");
    let ran = project(tests).cogwork(&["test", "--coverage"]).exits(0);
    let shown = timeless(&ran);
    assert!(shown.contains("ship        3/4    75%  1/2   50%"), "{shown}");
    assert!(shown.contains("automations/ship.yaml:11  step `step4`"), "{shown}");
    assert!(shown.contains("automations/ship.yaml:8  `check`: else"), "{shown}");
    project(tests).cogwork(&["test", "--complete"]).exits(1);
    project(TESTS).cogwork(&["test", "--complete"]).exits(0);
    let json = project(tests).cogwork(&["test", "--json"]).exits(0).json();
    assert_eq!(json["coverage"][0]["steps"], json!({"all": 4, "reached": 3}));
    assert!(
        project(TESTS)
            .cogwork(&["test", "--coverage"])
            .stdout
            .contains("every step and every way is reached")
    );
}

#[test]
fn test_writes_a_junit_report() {
    let project = project(
        &format!("{TESTS}  - {{name: \"<not> yet\", skip: \"until & when\"}}\n")
            .replace("[Shipped]", "[\"<Sent>\"]"),
    );
    let ran = project.cogwork(&["test", "--junit", "out/tests.xml"]);
    assert_eq!(ran.code, Some(1));
    // The path is meant from where the command runs.
    let xml = project.read("out/tests.xml");
    let parts = [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<testsuites name=\"cogwork\" tests=\"3\" failures=\"1\" skipped=\"1\"",
        "<testcase name=\"what is not there is refused\" classname=\"ship\" file=\"automations/ship.test.yaml\"",
        "<testcase name=\"&lt;not&gt; yet\"",
        "<skipped message=\"until &amp; when\"/>",
        "<failure message=\"`logs[0].message` is not &quot;&lt;Sent&gt;&quot;\">",
    ];
    for part in parts {
        assert!(xml.contains(part), "`{part}` is missing in:\n{xml}");
    }
}

/// Answers each request on a connection of its own with this JSON, and gives the address.
fn service(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a call");
            let _ = stream.read(&mut [0; 4096]);
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            let _ = write!(stream, "{head} {}\r\n\r\n{answer}", answer.len());
        }
    });
    format!("http://{address}")
}

#[test]
fn recordings_are_replayed_offline_and_unrecorded_requests_fail() {
    let base = service(&[r#"{"left": 3, "token": "s3cret-answer"}"#]);
    let automation = SHIP.replace("https://stock.example.com", &base);
    let tests = |id: &str| {
        format!(
            "tests:\n  - name: the service answers\n    cassette: ship.yaml\n    inputs: {{id: {id}}}\n    expect: {{logs: [Shipped]}}\n"
        )
    };
    let project = Project::with(&[
        ("automations/ship.yaml", &automation),
        ("automations/ship.test.yaml", &tests("a1")),
    ]);
    project.cogwork(&["test"]).exits(1);
    let environment = [("COGWORK_OUTBOUND_ALLOW", "127.0.0.1")];
    project.cogwork_with(&["test", "--record"], &environment, "").exits(0).says("recorded 1 exchange in");
    let recorded = project.read("automations/cassettes/ship.yaml");
    assert!(recorded.contains(&format!("url: {base}/a1")) && recorded.contains("left: 3"), "{recorded}");
    assert!(!recorded.contains("s3cret"), "{recorded}");
    // Nobody listens any more.
    project.cogwork(&["test"]).exits(0);
    project.cogwork(&["validate"]).exits(0);
    project.write("automations/ship.test.yaml", &tests("a2"));
    let ran = project.cogwork(&["test"]).exits(1);
    for part in [
        format!("error[no-exchange]: the recording has no answer to `GET {base}/a2`"),
        format!("error[unused-exchange]: the recorded `GET {base}/a1` was not sent"),
    ] {
        assert!(ran.stdout.contains(&part), "`{part}` is missing in:\n{}", ran.stdout);
    }
}

#[test]
fn recording_reads_the_secrets_of_the_store() {
    let base = service(&[r#"{"ok": true}"#]);
    let project = Project::with(&[
        (
            "connections/desk.yaml",
            &format!(
                "type: http.bearer\nwith: {{baseUrl: \"{base}\", token: \"${{{{ secrets.desk }}}}\"}}\n"
            ),
        ),
        (
            "automations/ask.yaml",
            "trigger: {manual: {}}\nsteps:\n  - {action: http.request, connection: desk, with: {url: /ask, method: GET}}\n",
        ),
        (
            "automations/ask.test.yaml",
            "tests: [{name: it answers, cassette: ask.yaml, expect: {outcome: succeeded}}]\n",
        ),
    ]);
    let record =
        || project.cogwork_with(&["test", "--record"], &[("COGWORK_OUTBOUND_ALLOW", "127.0.0.1")], "");
    let without = record().exits(1);
    assert!(without.stdout.contains("the secret `desk` is not set"), "{}", without.stdout);
    project.cogwork_with(&["secrets", "set", "desk"], &[], &tests::canary::secret("desk")).exits(0);
    record().exits(0).says("recorded 1 exchange");
    tests::canary::look(project.read("automations/cassettes/ask.yaml"), "a recording");
    project.cogwork(&["test"]).exits(0);
}

#[test]
fn recording_reads_the_secrets_of_a_provider_once_and_keeps_no_value() {
    let (user, token) = (tests::canary::secret("user"), tests::canary::secret("token"));
    let seen = format!(r#"{{"seen": "{token}", "by": "{user}"}}"#).leak();
    let base = service(Box::leak(Box::new([&*seen, &*seen])));
    let with = "username: '${{ secrets.desk.user }}', password: '${{ secrets.desk.token }}'";
    let ask = "{action: http.request, connection: desk, with: {url: /ask, method: GET}}";
    let project = Project::with(&[
        ("connections/desk.yaml", &format!("type: http.basic\nwith: {{baseUrl: \"{base}\", {with}}}\n")),
        ("automations/ask.yaml", &format!("trigger: {{manual: {{}}}}\nsteps: [{ask}, {ask}]\n")),
        (
            "automations/ask.test.yaml",
            "tests: [{name: it answers, cassette: ask.yaml, expect: {outcome: succeeded}}]\n",
        ),
        ("give.sh", "echo x >> requests; test -e given || exit 9; cat given\n"),
    ]);
    let record = || {
        let variables = [
            ("COGWORK_OUTBOUND_ALLOW", "127.0.0.1"),
            ("COGWORK_SECRETS_SOURCES", "[store, command]"),
            ("COGWORK_SECRETS_COMMAND", "/bin/sh give.sh"),
        ];
        project.cogwork_with(&["test", "--record"], &variables, "")
    };
    let failed = record().exits(1);
    let reason = "the secret `desk` cannot be read: the secret provider `command`: the program fails with exit status: 9";
    assert!(failed.stdout.contains(reason), "{}", failed.stdout);
    assert!(!project.path().join("automations/cassettes/ask.yaml").exists(), "nothing was sent");
    project.write("given", &format!(r#"{{"user": "{user}", "token": "{token}"}}"#));
    project.write("requests", "");
    record().exits(0).says("recorded 2 exchanges");
    assert_eq!(project.read("requests"), "x\n");
    let recorded = project.read("automations/cassettes/ask.yaml");
    assert!(recorded.contains("seen: '***'"), "{recorded}");
    tests::canary::look(recorded, "a recording");
    // Offline, and without the provider.
    project.cogwork(&["test"]).exits(0);
}

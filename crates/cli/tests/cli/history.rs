//! `executions` and `list` without a daemon.

use crate::support::{BAD, FAILING, HELLO, ORDER, Project};

const LOOP: &str = "\
trigger: {manual: {}}
steps:
  - id: each
    forEach: \"['a', 'b']\"
    steps:
      - id: pick
        if: item == 'a'
        then:
          - id: take
            set: {taken: \"${{ item }}\"}
        else:
          - id: leave
            set: {left: \"${{ item }}\"}
  - id: maybe
    if: 1 > 2
    set: {never: 1}
  - id: try
    onError: continue
    fail: no luck
";

fn project() -> Project {
    Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("automations/failing.yaml", FAILING),
        ("automations/loop.yaml", LOOP),
    ])
}

/// What differs from run to run, taken out.
fn steady(text: &str) -> String {
    let steady = text.lines().map(|line| {
        let words = line.split(' ').map(|word| match word.as_bytes() {
            [b'0'..=b'9', ..] if word.len() == 36 => "<id>",
            [b'2', b'0', _, _, b'-', ..] => "<day>",
            bytes if bytes.len() >= 8 && bytes[2] == b':' && bytes[5] == b':' => "<time>",
            _ => word,
        });
        let words: Vec<&str> = words.collect();
        let mut out: Vec<&str> = Vec::new();
        for word in words {
            let unit = matches!(word, "µs" | "ms" | "s" | "s,");
            let number = out.last().is_some_and(|last| {
                last.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !last.is_empty()
            });
            if unit && number {
                out.pop();
                out.push("<span>");
            } else {
                out.push(word);
            }
        }
        out.join(" ")
    });
    steady.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_project_in_which_nothing_ran_has_no_history() {
    let project = project();
    project.cogwork(&["executions", "list"]).exits(0).says("no execution");
    project.cogwork(&["executions", "show", "latest"]).exits(1).says("nothing has run yet");
    assert!(!project.file(".cogwork").exists());
}

#[test]
fn executions_are_listed_newest_first_and_filtered() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["run", "failing"]).exits(1);
    let list = |arguments: &[&str]| {
        let arguments: Vec<&str> =
            ["executions", "list", "--json"].iter().chain(arguments).copied().collect();
        let listed = project.cogwork(&arguments).exits(0).json();
        let rows = listed["executions"].as_array().expect("a list").iter();
        rows.map(|row| row["automation"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), ["failing", "hello"]);
    assert_eq!(list(&["--limit", "1"]), ["failing"]);
    assert_eq!(list(&["--status", "succeeded"]), ["hello"]);
    assert_eq!(list(&["--status", "succeeded,failed", "--since", "1h"]), ["failing", "hello"]);
    assert_eq!(list(&["--automation", "hello"]), ["hello"]);
    assert_eq!(list(&["--since", "2100-01-01"]), Vec::<String>::new());
    let shown = project.cogwork(&["executions", "list"]).exits(0).stdout;
    assert!(shown.starts_with("ID ") && shown.contains("7 is one too many"), "{shown}");
}

#[test]
fn a_filter_that_is_none_is_wrong_usage() {
    let project = project();
    project.cogwork(&["executions", "list", "--status", "lost"]).exits(2).says("queued, running");
    project.cogwork(&["executions", "list", "--since", "yesterday"]).exits(2).says("`2h`");
    project.cogwork(&["executions", "list", "--automation", "A b"]).exits(2).says("cannot be the id");
    project.cogwork(&["executions", "list", "--limit", "0"]).exits(2);
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["executions", "show", "x"]).exits(2).says("no execution id");
    let unknown = "01a1fd8f-6cb2-7000-b4a0-7d8b195dd504";
    project.cogwork(&["executions", "show", unknown]).exits(1).says("there is no execution");
    project.cogwork(&["executions", "cancel", unknown]).exits(1).says("no daemon runs");
}

#[test]
fn an_execution_is_shown_as_a_tree_of_its_steps() {
    let project = project();
    project.cogwork(&["run", "loop"]).exits(0);
    let shown = project.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    insta::assert_snapshot!("tree", steady(&shown));
    project.cogwork(&["run", "failing"]).exits(1);
    let shown = project.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    insta::assert_snapshot!("tree_of_a_failure", steady(&shown));
}

#[test]
fn an_execution_is_shown_on_the_definition_it_ran_on() {
    let project = project();
    project.cogwork(&["run", "loop"]).exits(0);
    let before = project.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    project.write("automations/loop.yaml", HELLO);
    assert_eq!(project.cogwork(&["executions", "show", "latest"]).exits(0).stdout, before);
}

#[test]
fn a_program_reads_an_execution_as_the_api_gives_it() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(shown["outcome"]["result"]["greeting"], "Hello, world!");
    assert_eq!(shown["steps"][0]["step"], "greet");
    let id = shown["id"].as_str().expect("an id");
    assert_eq!(project.cogwork(&["executions", "show", id, "--json"]).exits(0).json(), shown);
}

#[test]
fn log_lines_are_shown_with_their_times() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    let shown = project.cogwork(&["executions", "logs", "latest"]).exits(0).stdout;
    assert_eq!(steady(&shown), "<day> <time> info  note  Hello, world!");
    let logs = project.cogwork(&["executions", "logs", "latest", "--json"]).exits(0).json();
    assert_eq!(logs["logs"][0]["message"], "Hello, world!");
}

#[test]
fn without_a_daemon_the_files_are_listed() {
    let project = Project::with(&[
        ("automations/bad.yaml", BAD),
        ("automations/hello.yaml", HELLO),
        ("automations/order.yaml", ORDER),
        ("automations/off.yaml", &format!("enabled: false\n{HELLO}")),
        (
            "automations/tick.yaml",
            "trigger: {schedule: {daily: {at: \"08:30\"}, timezone: Europe/Berlin}}\nsteps: [{set: {a: 1}}]\n",
        ),
    ]);
    let ran = project
        .cogwork(&["list"])
        .exits(0)
        .says("automations/bad.yaml:3:1: unknown key `stepz` in an automation");
    let lines: Vec<String> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "ID STATE STARTED BY LAST");
    assert_eq!(lines[1], "hello active manual never");
    assert_eq!(lines[2], "off disabled manual never");
    assert_eq!(lines[3], "order active webhook never");
    assert!(
        lines[4].starts_with("tick active next ") && lines[4].ends_with(" 08:30:00 Europe/Berlin never"),
        "{}",
        lines[4]
    );
    assert_eq!(lines[5], "automations/bad.yaml broken");
    project.cogwork(&["run", "hello"]).exits(0);
    let listed = project.cogwork(&["list", "--json"]).exits(0).json();
    assert_eq!(
        (&listed["daemon"], &listed["automations"][0]["lastExecution"]["status"]),
        (&false.into(), &"succeeded".into())
    );
    // Its address was made with the first start of the project, and is kept.
    let url = listed["automations"][2]["liveUrl"].as_str().expect("an address");
    assert!(url.starts_with("http://127.0.0.1:7070/trigger/"), "{url}");
    let based = project.cogwork_with(
        &["list", "--json"],
        &[("COGWORK_PUBLIC_URL", "https://hooks.example.com/")],
        "",
    );
    assert!(based.exits(0).stdout.contains("https://hooks.example.com/trigger/"));
}

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

/// Removes the parts that differ from run to run.
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
fn a_project_without_a_store_has_no_history() {
    let project = project();
    project.cogwork(&["executions", "list"]).exits(1).says("there is no store");
    project.cogwork(&["executions", "show", "latest"]).exits(1).says("there is no store");
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
fn a_list_counts_all_executions_and_shows_the_attempts_of_their_steps() {
    let retried = "trigger: {manual: {}}\nsteps:\n  - {id: get, action: http.request, \
                   retry: {max: 1, delay: 1ms}, with: {method: GET, url: \"http://127.0.0.1:1/\"}}\n";
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("automations/retried.yaml", retried)]);
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["run", "retried", "--outbound-allow", "127.0.0.1"]).exits(1);
    let listed = project.cogwork(&["executions", "list", "--count", "--attempts", "--limit", "2"]).exits(0);
    assert!(listed.stdout.contains("ATTEMPT") && listed.stdout.contains("get 2/2"), "{}", listed.stdout);
    listed.says("the newest 2 of 3");
    project.cogwork(&["executions", "list", "--count"]).exits(0).says("3 in all");
    let list = ["executions", "list", "--count", "--attempts", "--limit", "1", "--json"];
    let found = project.cogwork(&list).exits(0).json();
    assert_eq!(found["total"], serde_json::json!({"count": 3, "isAtLeast": false}));
    assert_eq!(
        found["executions"][0]["stepAttempt"],
        serde_json::json!({"step": "get", "attempt": 2, "of": 2})
    );
    let plain = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    assert!(plain.get("total").is_none() && plain["executions"][0].get("stepAttempt").is_none());
    // A search looks at each execution: it is not counted.
    project.cogwork(&["executions", "list", "--count", "--text", "x"]).exits(2);
}

#[test]
fn an_invalid_filter_is_wrong_usage() {
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

/// Answers one request after the other with an empty object, in a thread of its own.
fn server() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).expect("a request");
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).expect("an answer");
        }
    });
    address
}

#[test]
fn the_history_shows_called_requests_and_the_calling_execution() {
    let address = server();
    let parent = "\
trigger: {manual: {}}
steps:
  - id: each
    forEach: \"['a', 'b']\"
    steps:
      - id: sub
        call: child
        with: {name: \"${{ item }}\"}
";
    let child = format!(
        "\
trigger: {{manual: {{}}}}
inputs: {{name: {{type: text, required: true}}}}
steps:
  - id: put
    action: http.request
    with: {{method: PUT, url: \"http://{address}/items/${{{{ inputs.name }}}}?key=hush\"}}
"
    );
    let project = Project::with(&[("automations/parent.yaml", parent), ("automations/child.yaml", &child)]);
    project.cogwork(&["run", "parent", "--outbound-allow", "127.0.0.1"]).exits(0);
    let listed = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    let id = |automation: &str| {
        let rows = listed["executions"].as_array().expect("a list").iter();
        let mut of_it = rows.filter(|row| row["automation"] == automation);
        of_it.next().and_then(|row| row["id"].as_str()).expect("one").to_owned()
    };
    let (parent, child) = (id("parent"), id("child"));

    let shown = project.cogwork(&["executions", "show", &child, "--json"]).exits(0).json();
    let step = &shown["steps"][0];
    assert_eq!(step["action"], "http.request");
    assert_eq!(
        step["request"],
        serde_json::json!({"method": "PUT", "url": format!("http://{address}/items/b")})
    );
    assert!(!step.to_string().contains("hush"), "{step}");
    assert_eq!(
        (&shown["origin"]["execution"], &shown["origin"]["step"]),
        (&parent.as_str().into(), &"sub[1]".into())
    );
    let text = project.cogwork(&["executions", "show", &child]).exits(0).stdout;
    assert!(text.contains(&format!("execution {parent}, step `sub[1]`")), "{text}");
    assert!(
        text.contains("put  action http.request") && text.contains(&format!("PUT http://{address}/items/b")),
        "{text}"
    );

    let shown = project.cogwork(&["executions", "show", &parent, "--json"]).exits(0).json();
    let steps = shown["steps"].as_array().expect("steps");
    let sub = steps.iter().find(|step| step["step"] == "sub[1]").expect("the call");
    assert_eq!((&sub["automation"], &sub["executions"]), (&"child".into(), &serde_json::json!([child])));
    let text = project.cogwork(&["executions", "show", &parent]).exits(0).stdout;
    assert!(text.contains("sub[1]  call child") && text.contains(&format!("→ {child}")), "{text}");
}

#[test]
fn a_secret_in_a_request_path_is_redacted_in_the_history() {
    let address = server();
    let text = format!(
        "\
trigger: {{manual: {{}}}}
configVars:
  key: {{value: \"${{{{ secrets.pathKey }}}}\", secret: true}}
steps:
  - id: send
    action: http.request
    with: {{method: POST, url: \"http://{address}/bot${{{{ configVars.key }}}}/send\"}}
"
    );
    // The data folder and all that is printed are searched for the mark of the secret.
    let project = Project::with(&[("automations/a.yaml", &text)]);
    let secret = tests::canary::secret("path");
    let variables = [("COGWORK_SECRET_PATH_KEY", secret.as_str())];
    let arguments = ["run", "a", "--outbound-allow", "127.0.0.1", "--watch"];
    project.cogwork_with(&arguments, &variables, "").exits(0).says("/bot***/send");
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(shown["steps"][0]["request"]["url"], format!("http://{address}/bot***/send"));
}

#[test]
fn a_failure_in_a_loop_names_its_iteration() {
    let text = "\
trigger: {manual: {}}
steps:
  - forEach: \"[1, 2, 3]\"
    steps:
      - id: check
        if: item == 2
        fail: two is too many
";
    let project = Project::with(&[("automations/a.yaml", text)]);
    project.cogwork(&["run", "a"]).exits(1);
    let shown = project.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    assert!(shown.ends_with("error  step `check[1]` failed: two is too many\n"), "{shown}");
}

#[test]
fn an_unambiguous_id_prefix_is_accepted() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["run", "loop"]).exits(0);
    let listed = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    let id = |place: usize| listed["executions"][place]["id"].as_str().expect("an id").to_owned();
    let (newer, older) = (id(0), id(1));
    let same = newer.bytes().zip(older.bytes()).take_while(|(one, other)| one == other).count();
    let (short, common) = (&newer[..=same], &newer[..same.min(8)]);
    let shown = project.cogwork(&["executions", "show", short, "--json"]).exits(0).json();
    assert_eq!(shown["id"].as_str(), Some(newer.as_str()));
    let plain = short.replace('-', "").to_uppercase();
    project.cogwork(&["executions", "logs", &plain]).exits(0);
    let ran = project.cogwork(&["executions", "show", common]).exits(2);
    ran.says("is the beginning of several ids").says(&newer).says(&older);
    project.cogwork(&["executions", "cancel", short]).exits(1).says("no daemon runs");
    project.cogwork(&["executions", "show", "ffff"]).exits(1).says("there is no execution `ffff`");
}

#[test]
fn json_output_of_an_execution_matches_the_api() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(shown["outcome"]["result"]["greeting"], "Hello, world!");
    assert_eq!(shown["steps"][0]["step"], "greet");
    let id = shown["id"].as_str().expect("an id");
    assert_eq!(project.cogwork(&["executions", "show", id, "--json"]).exits(0).json(), shown);
}

#[test]
fn log_lines_are_shown_with_timestamps() {
    let project = project();
    project.cogwork(&["run", "hello"]).exits(0);
    let shown = project.cogwork(&["executions", "logs", "latest"]).exits(0).stdout;
    assert_eq!(steady(&shown), "<day> <time> info  note  Hello, world!");
    let logs = project.cogwork(&["executions", "logs", "latest", "--json"]).exits(0).json();
    assert_eq!(logs["logs"][0]["message"], "Hello, world!");
}

#[test]
fn list_reads_the_files_without_a_daemon() {
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
    let short = project.cogwork(&["list"]).exits(0).stdout;
    assert!(short.contains("webhook …/") && !short.contains(url), "{short}");
    assert!(project.cogwork(&["list", "--addresses"]).exits(0).stdout.contains(url));
    let based = project.cogwork_with(
        &["list", "--json"],
        &[("COGWORK_PUBLIC_URL", "https://hooks.example.com/")],
        "",
    );
    assert!(based.exits(0).stdout.contains("https://hooks.example.com/trigger/"));
}

#[test]
fn a_list_is_limited_to_a_hundred_thousand_executions() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["executions", "list", "--limit", "100000"]).exits(0);
    project.cogwork(&["executions", "list", "--limit", "100001"]).exits(2).says("100001");
}

//! `serve`, and what asks the daemon.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use crate::support::{BAD, HELLO, ORDER, Project};

/// A daemon on free ports. Killed at the end if it still runs.
pub(crate) struct Daemon {
    child: Child,
    out: BufReader<ChildStdout>,
    talk: BufReader<ChildStderr>,
    banner: String,
    log: String,
}

impl Daemon {
    /// Starts it and reads what it prints up to the line that holds `last`.
    pub(crate) fn start(project: &Project, arguments: &[&str], last: &str) -> Self {
        let arguments: Vec<&str> =
            ["serve", "--hooks", "0", "--admin", "0"].iter().chain(arguments).copied().collect();
        let mut command = project.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let talk = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut daemon = Self { child, out, talk, banner: String::new(), log: String::new() };
        if !read_to(&mut daemon.out, &mut daemon.banner, last) {
            daemon.talk.read_to_string(&mut daemon.log).expect("its log");
            panic!("it ended early:\n{}\n{}", daemon.banner, daemon.log);
        }
        daemon
    }

    /// The first word of the banner that holds this.
    pub(crate) fn word(&self, part: &str) -> &str {
        let mut words = self.banner.split_whitespace();
        words.find(|word| word.contains(part)).unwrap_or_else(|| panic!("no `{part}` in:\n{}", self.banner))
    }

    /// Starts an automation through the API, and gives the execution's id.
    pub(crate) fn run(&self, project: &Project, automation: &str) -> String {
        let token = project.read(".cogwork/admin-token");
        let url = format!("{}/api/v1/automations/{automation}/run", self.word_after("admin"));
        let answer = post_with(&url, &format!("authorization: Bearer {}\r\n", token.trim()), "{}");
        let (_, id) = answer.split_once("executionId\":\"").unwrap_or_else(|| panic!("{answer}"));
        id.split('"').next().expect("an id").to_owned()
    }

    /// The response of its API to `GET path`, once it has closed the connection; `None` if the daemon ends meanwhile.
    pub(crate) fn get(&self, project: &Project, path: &str) -> String {
        let token = project.read(".cogwork/admin-token");
        let authority = self.word_after("admin").strip_prefix("http://").expect("an address");
        let mut answer = String::new();
        let Ok(mut stream) = TcpStream::connect(authority) else { return answer };
        let fields = format!("authorization: Bearer {}\r\nconnection: close\r\n", token.trim());
        let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\n{fields}\r\n");
        // It may end before it has answered.
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        answer
    }

    /// Waits until it ends by itself; gives its exit code and its log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.talk.read_to_string(&mut self.log).expect("its log");
        (self.child.wait().expect("it ends").code(), std::mem::take(&mut self.log))
    }

    /// The word of the banner that follows this one.
    fn word_after(&self, name: &str) -> &str {
        let mut words = self.banner.split_whitespace();
        words.by_ref().find(|word| *word == name).and_then(|_| words.next()).expect("a word")
    }

    /// Waits until its log holds a line with `last`.
    fn says(&mut self, last: &str) {
        assert!(read_to(&mut self.talk, &mut self.log, last), "it ended without `{last}`:\n{}", self.log);
    }

    /// Ends it in order; gives its exit code and its log.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        signal(&self.child, "-TERM");
        self.talk.read_to_string(&mut self.log).expect("its log");
        (self.child.wait().expect("it ends").code(), std::mem::take(&mut self.log))
    }
}

/// Reads lines up to the one that holds `last`; false where there is none.
fn read_to(from: &mut impl BufRead, into: &mut String, last: &str) -> bool {
    while !into.lines().last().is_some_and(|line| line.contains(last)) {
        if from.read_line(into).expect("lines") == 0 {
            return false;
        }
    }
    true
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Nothing to do where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, signal: &str) {
    let line = format!("kill {signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell runs");
    assert!(sent.success());
}

/// Sends a POST with a JSON body and gives the whole answer.
pub(crate) fn post(url: &str, body: &str) -> String {
    post_with(url, "", body)
}

/// The same with further header fields, each with its line end.
fn post_with(url: &str, fields: &str, body: &str) -> String {
    let rest = url.strip_prefix("http://").expect("an address");
    let (authority, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn every_line_of_a_json_log_is_json() {
    let project = Project::with(&[("automations/bad.yaml", BAD), ("automations/hello.yaml", HELLO)]);
    project.write("secrets/open", "x");
    let variables = [("COGWORK_LOG_FORMAT", "json"), ("COGWORK_LIMITS_QUEU", "7")];
    let mut command = project.command(&["serve", "--hooks", "0", "--admin", "0", "--durability", "relaxed"]);
    let mut child =
        command.envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut talk = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut log = String::new();
    assert!(read_to(&mut talk, &mut log, "the daemon serves"), "{log}");
    project.write("automations/bad.yaml", &BAD.replace("stepz", "stepx"));
    assert!(read_to(&mut talk, &mut log, "stepx"), "{log}");
    signal(&child, "-TERM");
    talk.read_to_string(&mut log).expect("its log");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{log}");
    let mut banner = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut banner).expect("text");
    assert_eq!(banner, "", "the banner is a line of the log");
    for line in log.lines() {
        let entry: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(entry["timestamp"].is_string() && entry["level"].is_string(), "{line}");
        assert!(!line.contains("\\u001b"), "a colour in {line}");
    }
    for part in [
        "\"admin\":\"http://127.0.0.1:",
        "stopping",
        "COGWORK_LIMITS_QUEUE",
        "durability is relaxed",
        "bad.yaml",
    ] {
        assert!(log.contains(part), "`{part}` is missing in:\n{log}");
    }
    for (arguments, code) in
        [(&["serve", "--limits-queue", "none"][..], 2), (&["serve", "--data-dir", "/proc/self"], 1)]
    {
        let ran = project.cogwork_with(arguments, &variables, "").exits(code);
        for line in ran.stderr.lines().chain(ran.stdout.lines()) {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
    }
}

#[test]
fn sighup_stops_the_daemon_gracefully_unless_it_is_ignored() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    let daemon = Daemon::start(&project, &[], "hello");
    signal(&daemon.child, "-HUP");
    let (code, log) = daemon.end();
    assert!(code == Some(0) && log.contains("stopping"), "{code:?} {log}");
    // As `nohup cogwork serve &`, whose terminal closes.
    let mut command = Command::new("nohup");
    command
        .arg(crate::support::BINARY)
        .args(["serve", "--hooks", "0", "--admin", "0"])
        .current_dir(project.path());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let (mut out, mut banner) = (BufReader::new(child.stdout.take().expect("a pipe")), String::new());
    assert!(read_to(&mut out, &mut banner, "hello"), "{banner}");
    signal(&child, "-HUP");
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "only the second signal counts");
}

#[test]
fn a_daemon_serves_what_its_banner_shows_and_stops_gracefully() {
    let project = Project::with(&[
        ("automations/bad.yaml", BAD),
        ("automations/hello.yaml", HELLO),
        ("automations/order.yaml", ORDER),
    ]);
    let daemon = Daemon::start(&project, &["--addresses"], "does not load");
    assert!(daemon.banner.contains("2 automations, 0 connections, 1 file with errors"), "{}", daemon.banner);
    assert!(daemon.banner.contains(".cogwork/admin-token"), "{}", daemon.banner);
    let url = daemon.word("/trigger/").to_owned();
    let answer = post(&url, r#"{"id": 7}"#);
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.ends_with(r#"{"order":7}"#), "{answer}");

    let listed = project.cogwork(&["list", "--json"]).exits(0).json();
    assert_eq!((&listed["daemon"], &listed["automations"][1]["liveUrl"]), (&true.into(), &url.into()));
    assert_eq!(listed["broken"][0]["path"], "automations/bad.yaml");
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!((&shown["automation"], &shown["origin"]["kind"]), (&"order".into(), &"webhook".into()));
    let beside = project.cogwork(&["run", "hello"]).exits(0);
    beside.says("a daemon holds the store").says("not in the daemon; `cogwork start hello` starts one there");
    project.cogwork(&["serve", "--hooks", "0", "--admin", "0"]).exits(1).says("another daemon");

    let (code, log) = daemon.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("did you mean `steps`?") && log.contains("stopping"), "{log}");
    assert!(!project.file(".cogwork/daemon.json").exists());
    project.cogwork(&["list"]).exits(0).says("no daemon runs here");
}

#[test]
fn a_daemon_without_a_terminal_prints_no_webhook_address() {
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("automations/order.yaml", ORDER)]);
    let daemon = Daemon::start(&project, &[], "order");
    let listed = project.cogwork(&["list", "--json"]).exits(0).json();
    let url = listed["automations"][1]["liveUrl"].as_str().expect("an address").to_owned();
    let (_, token) = url.rsplit_once('/').expect("a token");
    let banner = daemon.banner.clone();
    let (code, log) = daemon.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(banner.contains("webhook"), "{banner}");
    assert!(!banner.contains(token) && !log.contains(token), "{banner}{log}");
}

#[test]
fn a_world_readable_secret_is_warned_of_with_a_fix() {
    use std::os::unix::fs::PermissionsExt as _;
    let project =
        Project::with(&[("automations/hello.yaml", HELLO), ("secrets/open", "x"), ("secrets/shut", "x")]);
    for (name, mode) in [("open", 0o644), ("shut", 0o600)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(project.file(&format!("secrets/{name}")), mode).expect("set");
    }
    let daemon = Daemon::start(&project, &[], "hello");
    let (code, log) = daemon.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("chmod 600") && log.contains("secrets/open"), "{log}");
    assert!(!log.contains("secrets/shut"), "{log}");
}

#[test]
fn an_execution_is_cancelled_through_the_daemon() {
    // Somebody who takes the call and never answers, so that the step is in flight for sure.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let automation = format!(
        "trigger: {{webhook: {{mode: async}}}}\nsteps:\n  - id: call\n    action: http.request\n    with: {{url: \"http://{address}/\"}}\n"
    );
    let project = Project::with(&[("automations/slow.yaml", &automation)]);
    let daemon = Daemon::start(&project, &["--addresses", "--outbound-allow", "127.0.0.1"], "/trigger/");
    let answer = post(daemon.word("/trigger/"), "{}");
    let (_, id) = answer.split_once("executionId\":\"").expect("an id");
    let id = id.split('"').next().expect("an id").to_owned();
    let (_held, _) = listener.accept().expect("a call");
    project.cogwork(&["executions", "cancel", &id, "--reason", "wrong order"]).exits(0).says("it ends");
    assert_eq!(daemon.stop().0, Some(0));
    let shown = project.cogwork(&["executions", "show", &id, "--json"]).exits(0).json();
    assert_eq!((&shown["status"], &shown["outcome"]["reason"]), (&"cancelled".into(), &"wrong order".into()));
}

#[test]
fn a_second_signal_stops_immediately() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let automation = format!(
        "trigger: {{webhook: {{mode: async}}}}\nsteps:\n  - id: call\n    action: http.request\n    with: {{url: \"http://{address}/\"}}\n"
    );
    let project = Project::with(&[("automations/slow.yaml", &automation)]);
    let mut daemon = Daemon::start(&project, &["--addresses", "--outbound-allow", "127.0.0.1"], "/trigger/");
    post(daemon.word("/trigger/"), "{}");
    let (_held, _) = listener.accept().expect("a call");
    signal(&daemon.child, "-TERM");
    daemon.says("stopping");
    signal(&daemon.child, "-INT");
    assert_eq!(daemon.child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_problem_found_on_reload_is_reported_once() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    let mut daemon = Daemon::start(&project, &[], "hello");
    project.write("automations/hello.yaml", BAD);
    daemon.says("did you mean `steps`?");
    project.cogwork(&["list"]).exits(0).says("automations/hello.yaml:3:1");
    project.write("automations/hello.yaml", HELLO);
    daemon.says("no problem is left in any file");
    let (code, log) = daemon.stop();
    assert_eq!((code, log.matches("did you mean `steps`?").count()), (Some(0), 1), "{log}");
    assert!(log.contains("the last good version stays in force"), "{log}");
}

#[test]
fn a_change_is_shown_by_plan_before_it_loads_and_logged_when_it_does() {
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("automations/order.yaml", ORDER)]);
    let mut daemon = Daemon::start(&project, &["--addresses"], "/trigger/");
    project.cogwork(&["plan"]).exits(0).says("no automation changes; 2 stay as they are");
    project.write("automations/hello.yaml", &HELLO.replace("id: note", "id: notice"));
    daemon.says("steps added: `notice`; steps removed: `note`");
    project.write("automations/order.yaml", &ORDER.replace("name: Order desk\n", "enabled: false\n"));
    daemon.says("webhook: unmounted; enabled: true → false");
    project.write("automations/tick.yaml", "trigger: {schedule: {every: 1h}}\nsteps:\n  - call: hello\n");
    daemon.says("next fires 20");
    // A file with errors is not loaded, so its errors are printed.
    project.write("automations/tick.yaml", BAD);
    daemon.says("did you mean `steps`?");
    let planned = project.cogwork(&["plan", "--json"]).exits(1).json();
    assert_eq!(
        (&planned["daemon"], &planned["errors"], &planned["unchanged"]),
        (&true.into(), &1.into(), &3.into())
    );
    project.cogwork(&["plan"]).exits(1).says("did you mean `steps`?");
    project.write("connections/main.yaml", "type: wiki.basic\n");
    daemon.says("missing-input");
    let (code, log) = daemon.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("added; every hour: mounted; calls added: `hello`"), "{log}");
}

#[test]
fn plan_compares_another_checkout_with_the_active_deployment() {
    let files = [("automations/hello.yaml", HELLO), ("automations/order.yaml", ORDER)];
    let project = Project::with(&files);
    let daemon = Daemon::start(&project, &[], "order");
    let elsewhere = Project::with(&files);
    let data = project.file(".cogwork").display().to_string();
    let plan = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["plan", "--data-dir", &data].iter().chain(arguments).copied().collect();
        elsewhere.cogwork(&arguments)
    };
    plan(&[])
        .exits(0)
        .says("no automation changes; 2 stay as they are")
        .says(&project.path().display().to_string());
    elsewhere.write("automations/hello.yaml", &HELLO.replace("id: note", "id: notice"));
    elsewhere.write(
        "connections/main.yaml",
        "type: http.bearer\nwith: {token: \"${{ secrets.t }}\", baseUrl: \"https://a.example\"}\n",
    );
    std::fs::remove_file(elsewhere.file("automations/order.yaml")).expect("removed");
    let planned = plan(&["--json"]).exits(0).json();
    let effects: Vec<_> =
        planned["changes"].as_array().expect("a list").iter().map(|one| &one["effect"]).collect();
    assert_eq!(effects, ["changed", "removed"]);
    assert_eq!(planned["files"][0]["path"], "connections/main.yaml");
    plan(&[]).exits(0).says("1 changed, 1 removed; 0 stay as they are");
    elsewhere.write("automations/hello.yaml", BAD);
    plan(&[]).exits(1).says("did you mean `steps`?").says("1 removed, 1 stale");
    // Nothing of it is taken.
    project.cogwork(&["plan"]).exits(0).says("no automation changes; 2 stay as they are");
    assert_eq!(daemon.stop().0, Some(0));
    plan(&[]).exits(1).says("no daemon runs here").says("--data-dir");
}

#[test]
fn start_runs_an_execution_in_the_daemon_and_follows_it() {
    let failing = "trigger: {manual: {}}\nsteps:\n  - fail: no luck\n";
    let project = Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("automations/order.yaml", ORDER),
        ("automations/failing.yaml", failing),
        (
            "automations/tick.yaml",
            "trigger: {schedule: {every: 5h}}\nsteps: [{set: {at: \"${{ trigger.results.scheduledAt }}\"}}]\n",
        ),
    ]);
    project.cogwork(&["start", "hello"]).exits(1).says("no daemon runs");
    let daemon = Daemon::start(&project, &[], "order");
    let ran = project.cogwork(&["start", "hello", "--input", "name=Ada", "--input", "times=2"]).exits(0);
    let id = ran.stdout.trim();
    let shown = daemon.get(&project, &format!("/api/v1/executions/{id}"));
    assert!(shown.contains("\"automation\":\"hello\"") && shown.contains("\"kind\":\"manual\""), "{shown}");

    let ran = project.cogwork(&["start", "hello", "--watch", "--input", "times=2"]).exits(0);
    assert_eq!(ran.json(), serde_json::json!({"greeting": "Hello, world!", "times": 2}));
    ran.says("hello execution ").says("✓ greet").says("│ Hello, world!").says("✓ note");
    project.cogwork(&["start", "failing", "--watch"]).exits(1).says("no luck");
    let ran =
        project.cogwork_with(&["start", "order", "--watch", "--payload", "-"], &[], r#"{"id": 7}"#).exits(0);
    assert_eq!(ran.json(), serde_json::json!({"order": 7}));
    let at = project.cogwork(&["start", "tick", "--watch"]).exits(0).json();
    assert!(at["at"].is_string(), "{at}");

    project.cogwork(&["start", "helo"]).exits(1).says("did you mean `hello`?");
    let nothing =
        "a schedule starts with the time alone: it takes no --payload, and --input only for `inputs`";
    project.cogwork(&["start", "tick", "--input", "a=b"]).exits(2).says(nothing);
    project.cogwork_with(&["start", "tick", "--payload", "-"], &[], "{}").exits(2).says(nothing);
    let ran = project.cogwork(&["run", "nope"]).exits(1);
    assert!(ran.stderr.contains("no automation `nope`") && !ran.stderr.contains("store"), "{}", ran.stderr);
    project.cogwork(&["start", "hello", "--input", "nam=Ada"]).exits(1).says("did you mean `name`?");
    project.cogwork(&["start", "order", "--input", "id=7"]).exits(2).says("--payload");
    let listed = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    assert_eq!(listed["executions"].as_array().map(Vec::len), Some(5));
    assert_eq!(daemon.stop().0, Some(0));
}

#[test]
fn an_invalid_setting_is_reported_before_anything_starts() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    project.cogwork(&["serve", "--hooks", "nowhere"]).exits(2).says("--hooks: `nowhere` is no address");
    project.cogwork(&["serve", "--durability", "fulll"]).exits(2).says("did you mean `full`?");
    project.cogwork(&["serve", "--log-level", "loud=much"]).exits(2).says("no log level");
    let variable = [("COGWORK_LIMITS_QUEUE", "many")];
    project.cogwork_with(&["serve"], &variable, "").exits(2).says("COGWORK_LIMITS_QUEUE");
    assert!(!project.file(".cogwork").exists());
}

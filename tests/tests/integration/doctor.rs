//! `cogwork doctor` with a broken store on PostgreSQL: each cause is reported with its fix, and nothing else is blamed.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use store::conformance::PostgresServer;

use crate::site::Site;

const WORK: &str = "trigger: {manual: {}}\nsteps: [{set: {done: true}}]\n";

/// The time within which a command ends, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Awaits a command that must end although its database is down.
async fn in_time<T>(command: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, command).await.expect("the command ends")
}

fn server() -> PostgresServer {
    PostgresServer::start()
}

/// Returns the report of `doctor` on the store at this URL.
async fn examine(site: &Site, url: &str) -> Value {
    let output = site.cogwork(&["doctor", "--json", "--hooks", "0", "--admin", "0", "--store", url]).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Returns the findings in one of these states, each as a line.
fn findings(report: &Value, states: &[&str]) -> Vec<String> {
    let found = report["findings"].as_array().unwrap().iter();
    let found = found.filter(|finding| states.contains(&finding["state"].as_str().unwrap()));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    found
        .map(|finding| {
            let [section, name, detail, help] =
                ["section", "name", "detail", "help"].map(|key| text(finding, key));
            format!("{section} {name}: {detail} → {help}")
        })
        .collect()
}

/// Asserts that the only error is a store error with this cause and this fix.
#[track_caller]
fn check(report: &Value, what: &str, cause: &str, way_out: &str) {
    let errors = findings(report, &["error"]);
    let [error] = errors.as_slice() else { panic!("{what}: one error is expected: {errors:#?}") };
    let (detail, help) = error.split_once(" → ").unwrap();
    assert!(detail.starts_with("store database") && detail.contains(cause), "{what}: `{cause}` in {error}");
    assert!(help.contains(way_out), "{what}: `{way_out}` in {error}");
}

/// Starts a server that answers the first message of each connection with these bytes.
fn pretender(answer: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 512];
            let read = stream.read(&mut request);
            if read.is_ok_and(|count| count > 0) {
                let _ = stream.write_all(&answer);
            }
        }
    });
    port
}

/// Builds an error message of the PostgreSQL protocol.
fn refusal(code: &str, message: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C{code}\0M{message}\0\0");
    let mut answer = vec![b'E'];
    answer.extend(u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
    answer.extend(fields.as_bytes());
    answer
}

#[tokio::test]
async fn an_unreachable_or_refusing_server_is_reported_with_the_fix() {
    let site = Site::new(&[("work", WORK)]);
    let plain = pretender(b"N".to_vec());
    let encrypted =
        pretender(refusal("28000", "no pg_hba.conf entry for host \"127.0.0.1\", user \"u\", no encryption"));
    let full = pretender(refusal("53300", "sorry, too many clients already"));
    let starting = pretender(refusal("57P03", "the database system is starting up"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (what, url, cause, way_out) in [
        (
            "no socket",
            "postgres://u@%2Fnowhere/x".to_owned(),
            "cannot use the database",
            "start the database server",
        ),
        (
            "refused",
            format!("postgres://u:pw@127.0.0.1:{free}/x"),
            "refused",
            "start the database server, or correct the host",
        ),
        ("no TLS", format!("postgres://u@127.0.0.1:{plain}/x?sslmode=verify-full"), "TLS", "sslmode=disable"),
        (
            "TLS wanted",
            format!("postgres://u@127.0.0.1:{encrypted}/x"),
            "no encryption",
            "sslmode=verify-full",
        ),
        ("no name", "postgres://u@nowhere.invalid/x".to_owned(), "nowhere.invalid", "correct the host"),
        ("too many", format!("postgres://u@127.0.0.1:{full}/x"), "too many clients", "max_connections"),
        ("starting", format!("postgres://u@127.0.0.1:{starting}/x"), "starting up", "wait until"),
    ] {
        check(&examine(&site, &url).await, what, cause, way_out);
    }
}

#[tokio::test]
async fn an_unusable_database_is_reported_with_the_fix() {
    let server = server();
    let site = Site::new(&[("work", WORK)]);
    let database = |name: &str| server.space().url().replace("/postgres?", &format!("/{name}?"));
    let hba = server.folder().join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("local all locked scram-sha-256\nlocal all stranger reject\n{rules}"))
        .unwrap();
    for sql in [
        "SELECT pg_reload_conf()",
        "CREATE ROLE locked LOGIN PASSWORD 'right'",
        "CREATE ROLE stranger LOGIN",
        "CREATE ROLE guest LOGIN",
        "CREATE ROLE reader LOGIN",
        "ALTER ROLE reader SET default_transaction_read_only = on",
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    ] {
        server.run(sql);
    }
    let (taken, guest) = (server.space(), server.space());
    server.run(&format!("CREATE TABLE {}.events (id int)", taken.schema()));
    server.run(&format!("GRANT USAGE ON SCHEMA {} TO guest", guest.schema()));
    for (what, url, cause, way_out) in [
        ("no database", database("missing"), "\"missing\" does not exist", "create it"),
        ("no user", server.space().url_as("nobody_at_all"), "does not exist", "correct the user"),
        (
            "wrong password",
            server.space().url_as("locked:wrong"),
            "password authentication failed",
            "correct the user and the password",
        ),
        ("not let in", server.space().url_as("stranger"), "pg_hba.conf", "pg_hba.conf"),
        ("no right", guest.url_as("guest"), "may not create tables", "GRANT CREATE, USAGE"),
        ("no schema", server.space().url().replace("space", "nospace"), "no schema", "search_path"),
        ("read-only", server.space().url_as("reader"), "takes no writes", "primary"),
        ("encoding", database("latin"), "LATIN1", "UTF8"),
        ("another program", taken.url(), "another program", "a database, or a schema, of its own"),
    ] {
        check(&examine(&site, &url).await, what, cause, way_out);
    }
}

#[tokio::test]
async fn tables_unusable_by_this_release_are_reported_with_the_fix() {
    let server = server();
    let mut site = Site::new(&[("work", WORK)]);
    let (revoked, later, earlier, moved) = (server.space(), server.space(), server.space(), server.space());
    for space in [&revoked, &later, &earlier, &moved] {
        site.start_with(&["--store", &space.url()]).await;
        assert!(site.stop().await.success());
    }
    server.run("CREATE ROLE guest LOGIN");
    server.run(&format!("GRANT USAGE ON SCHEMA {0} TO guest", revoked.schema()));
    server.run(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO guest", revoked.schema()));
    check(
        &examine(&site, &revoked.url_as("guest")).await,
        "no right",
        "may not read and write",
        "GRANT SELECT, INSERT",
    );
    server.run(&format!("GRANT ALL ON ALL TABLES IN SCHEMA {0} TO guest", revoked.schema()));
    server.run(&format!("GRANT ALL ON ALL SEQUENCES IN SCHEMA {0} TO guest", revoked.schema()));
    server.run(&format!("REVOKE DELETE ON {0}.waits FROM guest", revoked.schema()));
    check(
        &examine(&site, &revoked.url_as("guest")).await,
        "one right",
        "may not read and write the table `waits`",
        &format!("`GRANT DELETE ON {}.waits TO guest`", revoked.schema()),
    );
    let history = format!("{}.refinery_schema_history", later.schema());
    server.run(&format!(
        "INSERT INTO {history} SELECT 99, 'later', applied_on, checksum FROM {history} LIMIT 1"
    ));
    server.run(&format!("UPDATE {}.meta SET value = '99' WHERE name = 'oldest'", later.schema()));
    check(&examine(&site, &later.url()).await, "later", "version 99", "use the release that wrote it");
    let history = format!("{}.refinery_schema_history", earlier.schema());
    server.run(&format!("UPDATE {history} SET version = version - 1"));
    let warnings = findings(&examine(&site, &earlier.url()).await, &["warning"]);
    let is_told = |line: &String| {
        line.starts_with("store database") && line.contains("start the daemon with this release")
    };
    assert!(warnings.iter().any(is_told), "{warnings:#?}");
    let output = site.cogwork(&["migrate", "--store", &moved.url(), "--to", "elsewhere.db"]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&examine(&site, &moved.url()).await, "moved", "was moved to", "cogwork migrate --undo");
}

#[tokio::test]
async fn a_daemon_of_a_cluster_needs_no_project_folder() {
    let server = server();
    let url = server.space().url();
    let mut site = Site::new(&[("work", WORK)]);
    site.start_with(&["--store", &url]).await;
    let empty = Site::new(&[]);
    for folder in ["automations", "connections"] {
        std::fs::remove_dir_all(empty.project.path().join(folder)).unwrap();
    }
    let report = examine(&empty, &url).await;
    assert_eq!(findings(&report, &["error"]), [""; 0]);
    let warnings = findings(&report, &["warning"]);
    assert!(warnings.iter().any(|line| line.contains("nothing is deployed")), "{warnings:#?}");
    let pushed = site.cogwork(&["push"]).await;
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    let deployed = findings(&examine(&empty, &url).await, &["ok"]);
    assert!(deployed.iter().any(|line| line.contains("generation 1 is deployed")), "{deployed:#?}");
    assert!(site.stop().await.success());
}

#[tokio::test]
async fn doctor_blames_only_the_database_if_it_is_down_under_a_running_daemon() {
    let server = server();
    let url = server.space().url();
    let mut site = Site::new(&[("work", WORK)]);
    site.start_with(&["--store", &url]).await;
    drop(server);
    let output = in_time(site.cogwork(&["doctor", "--json", "--store", &url])).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = findings(&report, &["error"]);
    assert!(
        errors.iter().all(|line| line.starts_with("store database") || line.starts_with("daemon ")),
        "{errors:#?}"
    );
    assert!(errors[0].contains("start the database server"), "{errors:#?}");
    assert!(
        !errors.iter().any(|line| line.contains("token") || line.contains("stop the program")),
        "{errors:#?}"
    );
    let skipped = findings(&report, &["skipped"]);
    assert!(skipped.iter().any(|line| line.starts_with("listeners hooks")), "{skipped:#?}");
    let nodes = in_time(site.cogwork(&["nodes"])).await;
    let said = String::from_utf8_lossy(&nodes.stderr).into_owned();
    // The message depends on whether the daemon has noticed the outage.
    let is_explained = ["it waits, perhaps for its store", "the database does not answer"]
        .iter()
        .any(|cause| said.contains(cause));
    assert!(!nodes.status.success() && is_explained, "{said}");
    site.kill().await;
}

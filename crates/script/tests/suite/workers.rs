//! The worker processes: their confinement, their end, and misbehaving ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use script::{Error, Pool};

use crate::support::{pool, result, settings, step};

/// The running child processes of this process.
fn workers() -> BTreeSet<i32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|number| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            // After the name in brackets: the state, and the parent.
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
            fields.first() != Some(&"Z") && fields.get(1) == Some(&own.as_str())
        })
        .collect()
}

/// Waits until the processes match.
async fn until(is_so: impl Fn(&BTreeSet<i32>) -> bool) -> BTreeSet<i32> {
    let started = Instant::now();
    loop {
        let found = workers();
        if is_so(&found) {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "still {found:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_unused_pool_starts_no_worker() {
    let pool = pool();
    assert_eq!(workers(), BTreeSet::new());
    result(&pool, "export default () => 1").await;
    assert_eq!(workers().len(), 1);
}

#[tokio::test]
async fn workers_end_with_their_pool() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    drop(pool);
    until(BTreeSet::is_empty).await;
}

/// A capability set of a process, as bits.
fn capabilities(process: &str, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let bits = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t"));
    u64::from_str_radix(bits.expect("the set"), 16).expect("bits")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_has_no_capability_though_its_daemon_runs_as_root() {
    const SET_CAPABILITIES: u64 = 1 << 8;
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let worker = workers().pop_first().expect("there is one").to_string();
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(capabilities(&worker, set), 0, "{set}");
    }
    // A process without the capability to set capabilities cannot lower this set either; it passes none on.
    if capabilities("self", "CapEff") & SET_CAPABILITIES != 0 {
        assert_eq!(capabilities(&worker, "CapBnd"), 0);
    }
}

#[tokio::test]
async fn a_worker_is_confined() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let worker = workers().pop_first().expect("there is one");
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{worker}/{file}")).unwrap_or_default();
    let status = read("status");
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Threads:\t1"] {
        assert!(status.contains(line), "{line} is not in\n{status}");
    }
    let limits = read("limits");
    for name in ["Max core file size", "Max open files", "Max processes", "Max file size"] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let figures: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(figures, ["0", "0"], "{name}");
    }
    assert!(!limits.lines().any(|line| line.starts_with("Max address space") && line.contains("unlimited")));
    // Reading the descriptors requires the right to inspect the process.
    if let Ok(open) = std::fs::read_dir(format!("/proc/{worker}/fd")) {
        let mut open: Vec<_> = open.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        open.sort();
        // The socket to the pool, and the pipe.
        assert_eq!(open, ["0", "1"]);
    }
    assert_eq!(read("environ"), "TZ=UTC0\0");
}

#[tokio::test]
async fn a_worker_killed_while_idle_is_replaced() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    for _ in 0..3 {
        let worker = workers().pop_first().expect("there is one");
        let pid = rustix::process::Pid::from_raw(worker).expect("it has a number");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
        until(|workers| !workers.contains(&worker)).await;
        assert_eq!(result(&pool, "export default () => 1").await, "1");
    }
}

#[tokio::test]
async fn code_whose_worker_is_killed_before_reading_it_runs_on_another() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let worker = workers().pop_first().expect("there is one");
    let pid = rustix::process::Pid::from_raw(worker).expect("it has a number");
    // It is stopped, so that it is killed before it reads the call.
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it can be stopped");
    let call = step("export default () => 2");
    let run = call.on(&pool);
    let kill = async {
        tokio::task::yield_now().await;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
    };
    let (outcome, ()) = tokio::join!(run, kill);
    assert_eq!(outcome.expect("another worker runs it").value.to_json(), "2");
}

#[tokio::test]
async fn a_crashed_worker_is_replaced_immediately() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let before = workers();
    let mut run = step("export default () => { for (;;) {} }");
    run.deadline = Duration::from_millis(20);
    assert!(matches!(run.on(&pool).await, Err(Error::Overrun { .. })));
    until(|workers| workers.len() == 1 && *workers != before).await;
    assert_eq!(result(&pool, "export default () => 1").await, "1");
}

#[tokio::test]
async fn an_out_of_memory_worker_is_replaced_even_if_the_code_catches_it() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let before = workers();
    let code = "export default () => { try { new ArrayBuffer(2 ** 28) } catch { return 1 } }";
    assert!(matches!(step(code).on(&pool).await, Err(Error::OutOfMemory { .. })));
    until(|workers| workers.len() == 1 && workers.is_disjoint(&before)).await;
}

#[tokio::test]
async fn a_worker_ends_after_its_maximum_of_runs() {
    let mut settings = settings(1);
    settings.runs_per_worker = 3;
    let pool = Pool::new(settings);
    let mut seen = BTreeSet::new();
    for _ in 0..9 {
        assert_eq!(result(&pool, "export default () => 1").await, "1");
        if pool.idle_workers() == 1 {
            seen.extend(until(|workers| workers.len() == 1).await);
        }
    }
    assert_eq!((seen.len(), pool.idle_workers()), (3, 0));
}

#[tokio::test]
async fn a_worker_over_its_maximum_age_is_not_reused() {
    let mut settings = settings(1);
    settings.age = Duration::ZERO;
    let pool = Pool::new(settings);
    for _ in 0..3 {
        assert_eq!(result(&pool, "export default () => 1").await, "1");
        assert_eq!(pool.idle_workers(), 0);
    }
    until(BTreeSet::is_empty).await;
}

#[tokio::test]
async fn an_abandoned_run_is_killed() {
    let pool = pool();
    result(&pool, "export default () => 1").await;
    let before = workers();
    let endless = step("export default () => { for (;;) {} }").on(&pool);
    assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
    until(|workers| workers.is_disjoint(&before)).await;
    assert_eq!(result(&pool, "export default () => 1").await, "1");
}

#[tokio::test]
async fn runs_over_the_queue_limit_are_rejected_as_busy() {
    let mut settings = settings(1);
    settings.queue = 1;
    settings.wait_at_most = Duration::from_millis(30);
    let pool = Pool::new(settings);
    result(&pool, "export default () => 1").await;
    let mut run = step("export default () => { for (;;) {} }");
    run.deadline = Duration::from_secs(2);
    let (first, second, third) = tokio::join!(
        run.on(&pool),
        step("export default () => 1").on(&pool),
        step("export default () => 1").on(&pool)
    );
    assert!(matches!(first, Err(Error::Overrun { .. })), "{first:?}");
    assert!(matches!(second, Err(Error::Waited { .. })), "{second:?}");
    assert!(matches!(third, Err(Error::Busy { .. })), "{third:?}");
    assert!([second, third].iter().all(|end| end.as_ref().is_err_and(Error::is_passing)));
}

async fn fake(way: &str) -> Result<script::Outcome, Error> {
    let mut settings = settings(1);
    settings.arguments = vec!["fake".to_owned(), way.to_owned()];
    settings.start_within = Duration::from_secs(2);
    let mut run = step("export default () => 1");
    run.deadline = Duration::from_millis(100);
    run.on(&Pool::new(settings)).await
}

#[tokio::test]
async fn a_misbehaving_worker_is_an_error_of_its_own_run_only() {
    for (way, end) in [
        ("dies", "the process that ran the code ended; it has been replaced"),
        ("refuses", "a code worker cannot be started: no such kernel"),
        (
            "greets with garbage",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        ("dies when called", "the process that ran the code ended; it has been replaced"),
        ("is silent when called", "the code was stopped after 100 ms: raise its `timeout`, or do less"),
        (
            "answers with garbage",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        (
            "announces too much",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        (
            "announces nothing",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        ("answers half and dies", "the process that ran the code ended; it has been replaced"),
        ("answers half and waits", "the code was stopped after 100 ms: raise its `timeout`, or do less"),
        ("answers twice", "the process that ran the code sent what no worker sends; it has been replaced"),
        (
            "answers what was not asked",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        ("answers no JSON", "the process that ran the code sent what no worker sends; it has been replaced"),
        ("writes no JSON", "the process that ran the code sent what no worker sends; it has been replaced"),
        ("logs at no level", "the process that ran the code sent what no worker sends; it has been replaced"),
        ("logs without end", "the process that ran the code sent what no worker sends; it has been replaced"),
        ("logs and dies", "the process that ran the code ended; it has been replaced"),
        (
            "answers without parts",
            "the process that ran the code sent what no worker sends; it has been replaced",
        ),
        ("does not know it", "the process that ran the code sent what no worker sends; it has been replaced"),
    ] {
        let error = fake(way).await.expect_err(way).to_string();
        assert_eq!(error, end, "{way}");
    }
    until(BTreeSet::is_empty).await;
}

#[tokio::test]
async fn log_lines_of_a_worker_that_died_are_kept() {
    let error = fake("logs and dies").await.expect_err("it dies");
    let said: Vec<&str> = error.logs().iter().map(|line| line.message.as_str()).collect();
    assert_eq!(said, ["last words"]);
}

#[tokio::test]
async fn a_worker_that_never_completes_the_handshake_is_killed() {
    assert!(fake("never greets").await.is_err());
    until(BTreeSet::is_empty).await;
}

#[tokio::test]
async fn a_missing_worker_program_is_an_error_that_says_so() {
    let mut settings = settings(1);
    settings.program = "/nowhere/cogwork".into();
    let error = step("export default () => 1").on(&Pool::new(settings)).await.expect_err("there is none");
    assert!(error.to_string().starts_with("a code worker cannot be started: "), "{error}");
}

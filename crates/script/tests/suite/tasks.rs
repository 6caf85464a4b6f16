//! Tasks: one job in a worker of its own.

use std::sync::Once;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use script::{RunningTask, TaskError, set_worker_program};

fn start(task: &str, memory: u64, within: Duration) -> Result<RunningTask, TaskError> {
    static SET: Once = Once::new();
    SET.call_once(|| set_worker_program(env!("CARGO_BIN_EXE_script-worker").into(), Vec::new()));
    RunningTask::start(task, memory, Instant::now() + within)
}

const MINUTE: Duration = Duration::from_secs(60);
const MEMORY: u64 = 64 << 20;

#[test]
fn a_task_exchanges_messages_and_is_confined() {
    let mut task = start("echo", MEMORY, MINUTE).expect("it starts");
    let large = vec![7; 3 << 20];
    task.send(&[b"a", &large]).expect("it reads");
    let parts = task.receive().expect("it answers");
    assert_eq!((parts[0].as_ref(), parts[1].len()), (&b"a"[..], large.len()));
    assert_eq!(
        start("opens", MEMORY, MINUTE).and_then(|mut task| task.receive()).expect("it answers")[0].as_ref(),
        b"refused"
    );
}

#[test]
fn a_task_that_crashes_hangs_or_takes_too_much_is_an_error() {
    let error = |name: &str, within| {
        let mut task = start(name, MEMORY, within).expect("it starts");
        loop {
            if let Err(error) = task.receive() {
                return error;
            }
        }
    };
    assert!(matches!(error("panics", MINUTE), TaskError::Broken(words) if words == "ended early"));
    assert_eq!(error("allocates", MINUTE), TaskError::OutOfMemory);
    assert_eq!(error("connects", MINUTE), TaskError::Forbidden);
    let started = Instant::now();
    assert_eq!(error("hangs", Duration::from_millis(1500)), TaskError::TimedOut);
    assert!(started.elapsed() < MINUTE);
}

#[test]
fn a_task_without_a_name_of_the_worker_does_not_start() {
    assert!(start("unknown", MEMORY, MINUTE).is_err());
}

#[test]
fn a_task_is_ended_from_another_thread() {
    let mut task = start("hangs", MEMORY, MINUTE).expect("it starts");
    let stop = task.stop_handle();
    let waiting = std::thread::spawn(move || task.receive());
    stop.stop();
    assert!(waiting.join().expect("it ends").is_err());
}

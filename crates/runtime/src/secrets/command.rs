//! The source `command`: a program of the machine that prints a secret.
//!
//! The settings of the machine name the program and its arguments. There is no shell, and the name of the secret is one argument.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use catalog::is_own_variable;
use connector::secret_provider::ProvidedSecret;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use value::{Secret, mime};
use zeroize::Zeroizing;

/// Maximum size of the output, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Size of one read of the output, in bytes.
const PART: usize = 4096;
/// The place of the name among the arguments. Without it the name is the last argument.
const NAME: &str = "{name}";

/// Runs the program. An exit with status 0 and output is the secret, an exit without output means that there is no such secret, and everything else is
/// an error. What the program writes to its standard error is dropped, because it may hold a secret.
///
/// # Errors
/// Returns a phrase if the program cannot be started, fails, prints too much, or does not end within `limit`.
pub(super) async fn read(
    command: &[String],
    name: &str,
    limit: Duration,
) -> Result<Option<ProvidedSecret>, String> {
    // It would be read as an option.
    if name.starts_with('-') {
        return Ok(None);
    }
    let mut child = start(command, name)?;
    // A program that is not waited for to its end, or prints too much, is killed with its children.
    let killed = KillOnDrop(rustix::process::Pid::from_child(&child));
    let stdout = child.stdout.take().ok_or("the program has no output")?;
    let ended = tokio::task::spawn_blocking(move || child.wait());
    let finished = tokio::time::timeout(limit, finish(ended, stdout.into())).await;
    let late = |_| format!("the program does not end within {} s", limit.as_secs());
    let (status, output) = finished.map_err(late)??;
    // It has ended, and its id may belong to another process.
    std::mem::forget(killed);
    secret(status, &output)
}

/// Kills a process and its children.
struct KillOnDrop(rustix::process::Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = rustix::process::kill_process_group(self.0, rustix::process::Signal::KILL);
    }
}

fn start(command: &[String], name: &str) -> Result<Child, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no program is set".to_owned());
    };
    let mut started = Command::new(program);
    started.args(arguments.iter().map(|argument| argument.replace(NAME, name)));
    if !arguments.iter().any(|argument| argument.contains(NAME)) {
        started.arg(name);
    }
    let own = std::env::vars_os().map(|(name, _)| name);
    for variable in own.filter(|name| name.to_str().is_none_or(is_own_variable)) {
        started.env_remove(variable);
    }
    started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    started.spawn().map_err(|error| format!("the program `{program}` cannot be started: {error}"))
}

/// Reads the output until the program itself has ended. A process that it leaves behind may keep the output open.
async fn finish(
    ended: JoinHandle<io::Result<ExitStatus>>,
    stdout: OwnedFd,
) -> Result<(ExitStatus, Zeroizing<Vec<u8>>), String> {
    let unreadable = |error: io::Error| format!("the output of the program cannot be read: {error}");
    let pipe = pipe::Receiver::from_owned_fd(stdout).map_err(unreadable)?;
    // It never grows, so that no copy stays in memory.
    let mut output = Zeroizing::new(Vec::with_capacity(MAX_OUTPUT + PART));
    let reading = async {
        loop {
            pipe.readable().await?;
            if !take(&mut output, |part| pipe.try_read(part))? {
                return io::Result::Ok(());
            }
        }
    };
    let ended = async { ended.await.map_err(io::Error::other).flatten().map_err(|error| error.to_string()) };
    tokio::pin!(ended);
    let status = tokio::select! {
        biased;
        status = &mut ended => status?,
        read = reading => {
            read.map_err(unreadable)?;
            ended.await?
        }
    };
    // The rest is in the pipe, also if the runtime has not heard of it yet.
    take(&mut output, |part| Ok(rustix::io::read(&pipe, part)?)).map_err(unreadable)?;
    Ok((status, output))
}

/// Appends what can be read now. Returns false at the end of the output.
fn take(
    output: &mut Zeroizing<Vec<u8>>,
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<bool> {
    let mut part = Zeroizing::new([0; PART]);
    loop {
        match read(&mut *part) {
            Ok(0) => return Ok(false),
            Ok(length) => output.extend_from_slice(part.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if output.len() > MAX_OUTPUT {
            let most = text::units::format_size(MAX_OUTPUT as u64);
            return Err(io::Error::other(format!("the program prints more than {most}")));
        }
    }
}

/// The secret in the output of a program that has ended.
fn secret(status: ExitStatus, output: &[u8]) -> Result<Option<ProvidedSecret>, String> {
    if !status.success() {
        return Err(format!("the program fails with {status}"));
    }
    let text = mime::decode_exact(output, None).ok_or("the output of the program is no text")?;
    let text = Zeroizing::new(text.into_owned());
    let text = Secret::in_file(&text);
    Ok((!text.is_empty()).then(|| ProvidedSecret::from_text(Secret::new(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec()
    }

    async fn output(script: &str, name: &str) -> Result<Option<String>, String> {
        let found = read(&shell(script), name, LIMIT).await?;
        Ok(found.and_then(|found| found.text().map(|text| text.expose().to_owned())))
    }

    #[tokio::test]
    async fn a_program_gets_the_name_as_one_argument_and_its_output_is_the_secret() {
        assert_eq!(output(r#"printf '%s-%s\n' "$#" "$1""#, "a").await, Ok(Some("1-a".to_owned())));
        let within = ["/bin/echo", "folder/{name}.txt"].map(str::to_owned);
        let found = read(&within, "a", LIMIT).await.expect("it ends").expect("a secret");
        assert_eq!(found.text().map(Secret::expose), Some("folder/a.txt"));
        assert_eq!(output("exit 0", "a").await, Ok(None), "no output, no secret");
        assert_eq!(output("echo x", "-option").await, Ok(None), "no option of the program");
    }

    #[tokio::test]
    async fn a_program_that_fails_or_prints_too_much_is_an_error_without_its_output() {
        for (script, words) in [
            ("echo canary; echo canary >&2; exit 3", "exit status: 3"),
            ("head -c 70000 /dev/zero | tr '\\0' c", "more than 64KiB"),
            ("printf '\\377'", "is no text"),
        ] {
            let error = output(script, "a").await.expect_err(script);
            assert!(error.contains(words) && !error.contains("canary"), "{error}");
        }
        let missing = read(&["/no/such/program".to_owned()], "a", LIMIT).await.expect_err("no program");
        assert!(missing.contains("cannot be started"), "{missing}");
    }

    #[tokio::test]
    async fn a_process_that_keeps_the_output_open_delays_no_secret() {
        // It leaves the group, as an agent does that runs in the background.
        let script = "setsid sleep 1000 & echo $! >&3; echo value";
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("agent");
        let script = format!("exec 3>{}; {script}", file.display());
        let found = tokio::time::timeout(Duration::from_secs(20), output(&script, "a")).await;
        assert_eq!(found.expect("it ends with the program"), Ok(Some("value".to_owned())));
        let agent = std::fs::read_to_string(&file).expect("its id").trim().parse().expect("a number");
        let agent = rustix::process::Pid::from_raw(agent).expect("an id");
        let killed = rustix::process::kill_process(agent, rustix::process::Signal::KILL);
        assert_eq!(killed, Ok(()), "it is left alone");
    }

    #[tokio::test]
    async fn the_output_of_a_program_is_read_to_its_end() {
        let long = output("head -c 65000 /dev/zero | tr '\\0' c", "a").await;
        assert_eq!(long.map(|text| text.map_or(0, |text| text.len())), Ok(65_000));
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("child");
        // The child holds the output open.
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let error = read(&shell(&script), "a", Duration::from_millis(300)).await.expect_err("it is killed");
        assert!(error.contains("does not end within"), "{error}");
        let child = std::fs::read_to_string(&file).expect("it has started").trim().to_owned();
        let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let ends = async {
            while !matches!(state().split(' ').nth(2), None | Some("Z")) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, ends).await.expect("the child is killed too");
    }
}

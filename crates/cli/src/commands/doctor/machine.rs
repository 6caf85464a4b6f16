//! Checks of the machine: disk, clock, sandbox, and settings that weaken guarantees or security.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use catalog::Workers;
use jiff::Timestamp;
use store::{Durability, ExecutionFilter, Page};

use super::finding::{Findings, size};
use super::stored::Found;
use crate::settings::Config;
use crate::time;

const SECTION: &str = "machine";

/// Free bytes below which the daemon is about to fail.
const LEAST_FREE: u64 = 100 << 20;
/// Free bytes below which a disk may fill within days.
const LITTLE_FREE: u64 = 1 << 30;
/// The maximum skew between the clocks of a file system and the system.
const MAX_FILE_SKEW: Duration = Duration::from_secs(5);
/// A time before the first release: an earlier clock was never set.
const FIRST_RELEASE: Timestamp = Timestamp::constant(1_735_689_600, 0);

/// Checks that the data folder is writable and its disk has free space.
pub(super) fn disk(config: &Config, findings: &mut Findings) {
    let folder = existing(&config.data_dir);
    match tempfile::Builder::new().prefix(".doctor-").tempfile_in(&folder) {
        Ok(_) => findings.ok(SECTION, "data folder", format!("`{}` can be written", folder.display())),
        Err(error) => {
            let detail = format!("`{}` cannot be written: {error}", folder.display());
            let help = "give the folder to the user of the daemon, or name another with `dataDir`";
            findings.error(SECTION, "data folder", detail, help);
        }
    }
    match rustix::fs::statvfs(&folder) {
        Ok(found) => {
            room(found.f_bavail.saturating_mul(found.f_frsize), found.f_favail, found.f_files, findings)
        }
        Err(error) => findings.skipped(SECTION, "disk", format!("the free space is not known: {error}")),
    }
}

fn room(free: u64, free_files: u64, all_files: u64, findings: &mut Findings) {
    let detail = format!("{} free", size(free));
    let help = "free some space, or limit the store with `limits.storeSize` and `retention.days`";
    match free {
        ..LEAST_FREE => findings.error(SECTION, "disk", detail, help),
        LEAST_FREE..LITTLE_FREE => findings.warning(SECTION, "disk", detail, help),
        _ => findings.ok(SECTION, "disk", detail),
    }
    // Some file systems do not count files.
    if all_files > 0 && free_files < 1000 {
        let detail = format!("the file system has room for {free_files} more files");
        findings.error(
            SECTION,
            "disk",
            detail,
            "delete small files, or make the file system anew with more inodes",
        );
    }
}

/// The folder, or its nearest existing ancestor.
fn existing(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Checks the wall clock against the store, the file system and the first release.
pub(super) async fn clock(config: &Config, found: &Found, findings: &mut Findings) {
    let now = time::now();
    let mut newest = None;
    if let Some(store) = &found.store {
        let page = Page { before: None, limit: 1 };
        match store.executions(&ExecutionFilter::default(), page).await {
            Ok(rows) => newest = rows.first().map(|row| row.started_at),
            Err(error) => findings.error(
                SECTION,
                "clock",
                format!("the newest execution, with which it is compared, cannot be read: {error}"),
                "look at `store` above",
            ),
        }
    }
    if let Some(server_time) = found.server_time {
        // Daemons that share a store use the server's time, so the executions of the store say nothing about this clock.
        newest = None;
        compare_with_server(now, server_time, findings);
    }
    let on_disk = file_time(&existing(&config.data_dir));
    compare_clock(now, newest, on_disk, findings);
    let zone = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
    match jiff::tz::TimeZone::try_system() {
        Ok(_) => {}
        Err(error) => {
            let zone = zone.map_or_else(String::new, |zone| format!(" `{zone}`"));
            let detail = format!("the time zone{zone} of the system is not known, so UTC is used: {error}");
            findings.warning(
                SECTION,
                "time zone",
                detail,
                "set TZ to a name such as `Europe/Berlin`, or install tzdata",
            );
        }
    }
}

/// Compares the wall clock with that of the database server, which all daemons of a store use.
fn compare_with_server(now: Timestamp, server_time: Timestamp, findings: &mut Findings) {
    let skew = now.duration_until(server_time).unsigned_abs();
    if skew > MAX_FILE_SKEW {
        let detail = format!("it shows {now}, and the database server {server_time}");
        let help = "set both clocks, and let NTP keep them (`timedatectl set-ntp true`): schedules go by the one of the server";
        findings.warning(SECTION, "clock", detail, help);
    }
}

fn compare_clock(
    now: Timestamp,
    newest: Option<Timestamp>,
    on_disk: Option<Timestamp>,
    findings: &mut Findings,
) {
    let help = "set the clock, and let NTP keep it (`timedatectl set-ntp true`)";
    if now < FIRST_RELEASE {
        return findings.error(SECTION, "clock", format!("it shows {now}, before the first release"), help);
    }
    if let Some(newest) = newest.filter(|newest| *newest > now) {
        let detail = format!("it shows {now}, before the newest execution of {newest}: it was set back");
        return findings.error(SECTION, "clock", detail, help);
    }
    let skew = on_disk.map(|on_disk| now.duration_until(on_disk).unsigned_abs());
    if let Some(skew) = skew.filter(|skew| *skew > MAX_FILE_SKEW) {
        let detail = format!("the file system of the data folder differs by {} s", skew.as_secs());
        return findings.warning(
            SECTION,
            "clock",
            detail,
            "synchronise both machines, or keep the data on a local disk",
        );
    }
    findings.ok(SECTION, "clock", now.to_string());
}

/// The time that the file system gives a new file.
fn file_time(folder: &Path) -> Option<Timestamp> {
    let file = tempfile::tempfile_in(folder).ok()?;
    let modified: SystemTime = file.metadata().ok()?.modified().ok()?;
    Timestamp::try_from(modified).ok()
}

/// Starts a code worker and returns how the kernel confines it.
pub(super) async fn sandbox(config: &Config, findings: &mut Findings) {
    catalog::set_code_limits(config.limits.code());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match Workers::shared().pool().confinement().await {
        Ok(confinement) => judge_confinement(&confinement, kernel.trim(), findings),
        Err(error) => {
            let help = "code blocks cannot run: the kernel needs seccomp, and the user must be able to start processes (see `ulimit -u` and the filter of the container)";
            findings.error(SECTION, "sandbox", error.to_string(), help);
        }
    }
}

fn judge_confinement(confinement: &str, kernel: &str, findings: &mut Findings) {
    let detail = format!("code is confined by {confinement} (Linux {kernel})");
    if !confinement.contains("seccomp") {
        let help = "run untrusted code on Linux only: other systems do not confine system calls";
        return findings.warning("weakened", "sandbox", detail, help);
    }
    if confinement.contains("no landlock") || confinement.contains("landlock in part") {
        let help = "seccomp confines code by itself; Linux 6.12 and `lsm=landlock,…` add the second wall";
        return findings.warning("weakened", "sandbox", detail, help);
    }
    findings.ok(SECTION, "sandbox", detail);
}

/// Settings that weaken a guarantee or the security of the daemon.
pub(super) fn weakened(config: &Config, findings: &mut Findings) {
    const SECTION: &str = "weakened";
    if config.durability == Durability::Relaxed {
        let detail = "`durability: relaxed`: a power failure may lose the last accepted executions";
        findings.warning(SECTION, "durability", detail, "`durability: full`");
    }
    if !config.admin.ip().is_loopback() {
        let detail = format!("the API on {} can be reached from other machines, unencrypted", config.admin);
        findings.warning(SECTION, "admin", detail, "listen on a loopback address, behind a proxy with TLS");
        if config.public_metrics {
            let detail = "`publicMetrics: true`: everyone who reaches the API can read the metrics";
            findings.warning(
                SECTION,
                "metrics",
                detail,
                "`publicMetrics: false`, and a token for the monitoring system",
            );
        }
    }
    let is_everything = |item: &&String| matches!(item.as_str(), "0.0.0.0/0" | "::/0");
    if let Some(item) = config.outbound_allow.iter().find(is_everything) {
        let detail =
            format!("`outbound.allow` has {item}: steps may call every address of the private network");
        findings.warning(SECTION, "outbound", detail, "name the hosts that are called");
    }
    let public = config.public_url.as_deref().unwrap_or_default();
    if public.starts_with("http://") && !config.hooks.ip().is_loopback() {
        let detail = format!("webhooks at {public} are unencrypted: their addresses are credentials");
        findings.warning(
            SECTION,
            "webhooks",
            detail,
            "put a proxy with TLS before them, and set `publicUrl` to its https address",
        );
    }
    if !findings.iter().any(|finding| finding.section == SECTION) {
        findings.ok(SECTION, "nothing", "no guarantee is weakened");
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn found(check: impl FnOnce(&mut Findings)) -> Findings {
        let mut findings = Findings::default();
        check(&mut findings);
        findings
    }

    #[test]
    fn a_nearly_full_disk_is_a_warning_and_a_full_one_an_error() {
        let states = |free| found(|findings| room(free, 5000, 9000, findings)).states("disk");
        assert_eq!(states(5 << 30), [State::Ok]);
        assert_eq!(states(500 << 20), [State::Warning]);
        assert_eq!(states(5 << 20), [State::Error]);
        let without_inodes = found(|findings| room(5 << 30, 3, 9000, findings));
        assert_eq!(without_inodes.states("disk"), [State::Ok, State::Error]);
        assert_eq!(found(|findings| room(5 << 30, 0, 0, findings)).states("disk"), [State::Ok]);
    }

    #[test]
    fn a_clock_that_was_set_back_or_never_set_is_an_error() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let now = at("2026-01-02T03:04:05Z");
        let state = |now, newest, on_disk| {
            found(|findings| compare_clock(now, newest, on_disk, findings)).states("clock")
        };
        assert_eq!(state(now, Some(at("2026-01-02T03:04:04Z")), Some(now)), [State::Ok]);
        assert_eq!(state(now, Some(at("2026-01-02T03:04:06Z")), Some(now)), [State::Error]);
        assert_eq!(state(at("1970-01-01T00:00:09Z"), None, None), [State::Error]);
        assert_eq!(state(now, None, Some(at("2026-01-02T03:04:20Z"))), [State::Warning]);
    }

    #[test]
    fn missing_sandbox_features_of_the_kernel_are_a_warning() {
        let state = |confinement: &str| {
            found(|findings| judge_confinement(confinement, "6.12", findings)).states("sandbox")
        };
        assert_eq!(
            state("resource limits, no new privileges, no capabilities, seccomp, landlock"),
            [State::Ok]
        );
        assert_eq!(state("resource limits, seccomp, landlock in part"), [State::Warning]);
        assert_eq!(state("resource limits, seccomp, no landlock: the kernel has none"), [State::Warning]);
        assert_eq!(state("resource limits (system calls are confined on Linux only)"), [State::Warning]);
    }
}

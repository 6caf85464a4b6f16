//! The machine on which the figures were measured.

use std::io::Write as _;
use std::time::Instant;

use super::Terms;
use crate::Error;
use crate::project::scratch;
use crate::statistics::median;

/// The number of measured synced writes.
const SYNCS: usize = 200;

/// The machine in a few lines.
pub(super) fn describe(terms: Terms<'_>) -> Result<Vec<String>, Error> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let places = match terms.processors.apart {
        Some((server, driver)) => format!("servers on processor {server}, driver on {driver}"),
        None => format!("servers and driver share {processors} processor(s)"),
    };
    let model = std::fs::read_to_string("/proc/cpuinfo").ok();
    let model =
        model.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("model name")));
    let model = model.map_or("an unknown processor", |line| line.trim_start_matches([' ', '\t', ':']));
    Ok(vec![
        format!("{model}; {places}"),
        format!("one synced write of 4 KiB takes {:.0} µs here", sync_us()?),
        format!("each measurement takes {:.1} s", terms.options.time.as_secs_f64()),
    ])
}

/// The time that the disk needs to sync one page, in microseconds: the wait of every commit.
fn sync_us() -> Result<f64, Error> {
    let folder = scratch()?;
    let path = folder.path().join("page");
    let mut file = std::fs::File::create(&path).map_err(Error::io(path.display()))?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).map_err(Error::io(path.display()))?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

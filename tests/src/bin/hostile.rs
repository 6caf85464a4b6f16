//! Sends the hostile corpus to a daemon under a limit of memory, and says which bounds it broke.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tests::hostile::{Amounts, Bounds, Findings, run, run_data, run_each, run_files, run_rows};

/// Sends every filter, function, operator, query and schema keyword with hostile operands to a daemon.
#[derive(Parser)]
#[command(name = "hostile")]
struct Arguments {
    /// The number of body sizes, from 1 KB over 100 KB to 5 MB.
    #[arg(long, value_name = "N", default_value_t = 3)]
    sizes: usize,
    /// Maximum memory above that of the idle daemon, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    memory: u64,
    /// The 99th percentile that answers to others may have, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    others: u64,
    /// The binary bodies of 6 MB that go into a call, and into an answer.
    #[arg(long, value_name = "N", default_value_t = 400)]
    bodies: usize,
    /// The readers of an execution at a time.
    #[arg(long, value_name = "N", default_value_t = 100)]
    readers: usize,
    /// Send large data alone, not the corpus.
    #[arg(long, group = "alone")]
    data: bool,
    /// Read and write a million rows of databases alone.
    #[arg(long, group = "alone")]
    rows: bool,
    /// Pass a gigabyte through the daemon alone.
    #[arg(long, group = "alone")]
    files: bool,
    /// Send the corpus alone, not large data.
    #[arg(long, group = "alone")]
    operands: bool,
    /// Send each row alone, and list the rows that take the most memory.
    #[arg(long)]
    each: bool,
    /// Further arguments of the daemon, after `--`.
    #[arg(last = true)]
    daemon: Vec<String>,
}

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    // There can be one already only if another part of this process installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut out = io::stdout();
    if arguments.each {
        for (peak, size, name) in
            run_each(arguments.sizes).await.map_err(io::Error::other)?.into_iter().take(40)
        {
            writeln!(out, "{:5} MiB with a body of {:5} KiB: {name}", peak >> 20, size >> 10)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bounds = Bounds { memory: arguments.memory << 20, others: Duration::from_millis(arguments.others) };
    let is_all = !(arguments.operands || arguments.data || arguments.rows || arguments.files);
    let mut rows = Vec::new();
    if is_all || arguments.operands {
        let findings = run(bounds, arguments.sizes, &arguments.daemon).await.map_err(io::Error::other)?;
        rows.push(("operands", findings));
    }
    let amounts = Amounts { bodies: arguments.bodies, readers: arguments.readers };
    if is_all || arguments.data {
        rows.extend(run_data(bounds, amounts, &arguments.daemon).await.map_err(io::Error::other)?);
    }
    if is_all || arguments.rows {
        rows.extend(run_rows(bounds, &arguments.daemon).await.map_err(io::Error::other)?);
    }
    if is_all || arguments.files {
        rows.extend(run_files(bounds, &arguments.daemon).await.map_err(io::Error::other)?);
    }
    let mut is_well = true;
    for (name, findings) in rows {
        is_well &= findings.broken.is_empty();
        report(&mut out, name, &findings)?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(out: &mut io::Stdout, name: &str, findings: &Findings) -> io::Result<()> {
    let (count, median, late, longest) = findings.others;
    writeln!(
        out,
        "hostile: {name}: {} requests answered {:?}; peak {} MiB above idle; {count} others: median {median:?}, 99th percentile {late:?}, longest {longest:?}",
        findings.answered,
        findings.statuses,
        findings.peak >> 20,
    )?;
    for broken in &findings.broken {
        writeln!(out, "  broken: {broken}")?;
    }
    Ok(())
}

//! The figures as a table for people and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// All figures of a run.
pub(crate) struct Report {
    machine: Vec<String>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    group: &'static str,
    name: String,
    value: f64,
    unit: Unit,
    beside: Option<Beside>,
    target: Option<Target>,
}

/// The same of a baseline.
#[derive(Clone, Copy, Debug)]
struct Beside {
    baseline: &'static str,
    value: f64,
    /// Our share of the baseline, as the median of the rounds.
    ratio: f64,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Operations per second.
    PerSecond,
    /// 1,048,576 bytes each, per second.
    MebibytesPerSecond,
    /// Millionths of a second.
    Microseconds,
    /// Thousandths of a second.
    Milliseconds,
    /// Bytes.
    Bytes,
    /// 1,048,576 bytes each.
    Mebibytes,
    /// The power of the size with which a cost grows.
    Exponent,
    /// A number of things.
    Count,
}

/// The target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// At least this share of its baseline.
    Ratio(f64),
    /// At most this many times its baseline.
    RatioAtMost(f64),
    /// At most this, in the figure's unit.
    AtMost(f64),
}

impl Row {
    /// A figure of a group.
    pub(crate) fn new(group: &'static str, name: String, value: f64, unit: Unit) -> Self {
        Self { group, name, value, unit, beside: None, target: None }
    }

    /// With the same of a baseline, and what part of that it is.
    pub(crate) fn beside(mut self, baseline: &'static str, value: f64, ratio: f64) -> Self {
        self.beside = Some(Beside { baseline, value, ratio });
        self
    }

    /// With a target, if it has one.
    pub(crate) fn target(mut self, target: Option<Target>) -> Self {
        self.target = target;
        self
    }

    /// True if it meets its target; `None` without a target.
    fn is_met(&self) -> Option<bool> {
        match self.target? {
            Target::Ratio(least) => self.beside.map(|beside| beside.ratio >= least),
            Target::RatioAtMost(most) => self.beside.map(|beside| beside.ratio <= most),
            Target::AtMost(most) => Some(self.value <= most),
        }
    }

    fn cells(&self) -> [String; 6] {
        let with_unit = |value: f64| format!("{} {}", figure(value), self.unit.word()).trim_end().to_owned();
        let target = match self.target {
            None => String::new(),
            Some(Target::Ratio(least)) => format!("≥ {least:.2}"),
            Some(Target::RatioAtMost(most)) => format!("≤ {most:.2}"),
            Some(Target::AtMost(most)) => format!("≤ {}", with_unit(most)),
        };
        let met = match self.is_met() {
            None => "",
            Some(true) => "met",
            Some(false) => "missed",
        };
        let (baseline, ratio) = self.beside.map_or_else(Default::default, |beside| {
            (format!("{} ({})", with_unit(beside.value), beside.baseline), format!("{:.2}", beside.ratio))
        });
        [self.name.clone(), with_unit(self.value), baseline, ratio, target, met.to_owned()]
    }

    fn json(&self) -> Value {
        let target = self.target.map(|target| match target {
            Target::Ratio(least) => json!({ "ratioAtLeast": least }),
            Target::RatioAtMost(most) => json!({ "ratioAtMost": most }),
            Target::AtMost(most) => json!({ "atMost": most }),
        });
        json!({
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "unit": self.unit.word(),
            "baseline": self.beside.map(|beside| json!({ "name": beside.baseline, "value": beside.value })),
            "ratio": self.beside.map(|beside| beside.ratio),
            "target": target,
            "met": self.is_met(),
        })
    }
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::MebibytesPerSecond => "MiB/s",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Bytes => "B",
            Self::Mebibytes => "MiB",
            Self::Exponent | Self::Count => "",
        }
    }
}

impl Report {
    /// One without figures, of a machine described in these lines.
    pub(crate) fn new(machine: Vec<String>) -> Self {
        Self { machine, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a figure.
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// The figures for people.
    pub(crate) fn table(&self) -> String {
        let head = ["", "Cogwork", "baseline", "ratio", "target", ""].map(str::to_owned);
        let mut lines = vec![head];
        // Baselines have a place of their own: they are no figures of Cogwork.
        let (baselines, own): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| row.group == "baselines");
        lines.extend(own.iter().map(|row| row.cells()));
        let mut text = self.machine.join("\n") + "\n\n";
        aligned(&lines, &mut text);
        if !baselines.is_empty() {
            text.push('\n');
            let cells: Vec<_> = baselines.iter().map(|row| row.cells()).collect();
            aligned(&cells, &mut text);
        }
        for note in &self.notes {
            text.push('\n');
            text.push_str(note);
        }
        text.push_str("\nA ratio is the median over the rounds, in which baseline and daemon took turns.");
        text
    }

    /// The figures for programs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "machine": self.machine,
            "figures": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

/// A size in [`Unit::Mebibytes`].
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52 bytes")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Columns as wide as they need to be: the first to the left, figures to the right.
fn aligned(lines: &[[String; 6]], text: &mut String) {
    let mut widths = [0; 6];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            // Writing to a text cannot fail.
            let _ = match column {
                0 | 5 => write!(row, "{cell:<width$}  "),
                _ => write!(row, "{cell:>width$}  "),
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
}

/// A number with as many digits as mean something: `31,405`, `84.2`, `1.63`.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{:.0}", value.abs());
            let mut text = String::from(if value < 0.0 { "-" } else { "" });
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index) % 3 == 0 {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks() -> Row {
        Row::new("acks", "acks".to_owned(), 12_345.0, Unit::PerSecond).beside("one write", 30_000.0, 0.41)
    }

    #[test]
    fn a_figure_is_shown_with_its_significant_digits() {
        let shown = [0.0, 1.627, 84.24, 999.6, 1234.5, 1_234_567.0, -1234.0].map(figure);
        assert_eq!(shown, ["0.00", "1.63", "84.2", "1,000", "1,234", "1,234,567", "-1,234"]);
    }

    #[test]
    fn a_ratio_is_measured_against_its_target_and_a_cost_against_its_limit() {
        assert_eq!(acks().is_met(), None);
        assert_eq!(acks().target(Some(Target::Ratio(0.40))).is_met(), Some(true));
        assert_eq!(acks().target(Some(Target::Ratio(0.42))).is_met(), Some(false));
        assert_eq!(acks().target(Some(Target::RatioAtMost(0.42))).is_met(), Some(true));
        assert_eq!(acks().target(Some(Target::RatioAtMost(0.40))).is_met(), Some(false));
        assert_eq!(acks().target(None).is_met(), None);
        let step = Row::new("steps", "step".to_owned(), 2.5, Unit::Microseconds);
        assert_eq!(step.clone().target(Some(Target::AtMost(2.0))).is_met(), Some(false));
        assert_eq!(step.target(Some(Target::AtMost(3.0))).is_met(), Some(true));
    }

    #[test]
    fn the_table_names_figure_baseline_ratio_and_target() {
        let mut report = Report::new(vec!["a machine".to_owned()]);
        report.add(Row::new("baselines", "bare".to_owned(), 70_000.0, Unit::PerSecond));
        report.add(acks().target(Some(Target::Ratio(0.40))));
        let table = report.table();
        let row = table.lines().find(|line| line.starts_with("acks")).expect("the row");
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(
            words,
            ["acks", "12,345", "/s", "30,000", "/s", "(one", "write)", "0.41", "≥", "0.40", "met"]
        );
        let below = table.lines().position(|line| line.starts_with("bare"));
        assert!(below > table.lines().position(|line| line.starts_with("acks")), "{table}");
    }

    #[test]
    fn the_json_report_has_every_figure_with_its_parts() {
        let mut report = Report::new(vec![]);
        report.add(acks().target(Some(Target::Ratio(0.40))));
        let json = report.json();
        let figure = &json["figures"][0];
        assert_eq!(figure["ratio"], 0.41);
        assert_eq!(figure["baseline"]["name"], "one write");
        assert_eq!(figure["target"]["ratioAtLeast"], 0.40);
        assert_eq!(figure["met"], true);
    }
}

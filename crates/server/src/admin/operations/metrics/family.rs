//! Metric families as plain values, and their text forms.

use std::fmt::{Error, Write as _};

use model::metric::HistogramSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text as openmetrics_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

/// The prefix of all names.
const PREFIX: &str = "cogwork";

/// The labels of a sample. All samples of a family have the same names.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A metric with its samples at one time.
#[derive(Debug)]
pub(super) struct Family {
    /// Without the prefix; a counter also without `_total`, information without `_info`.
    pub(super) name: &'static str,
    /// One sentence without a full stop: the text form ends it.
    pub(super) help: &'static str,
    pub(super) samples: Samples,
}

/// The samples of a family, by its type.
#[derive(Debug)]
pub(super) enum Samples {
    Counter(Vec<(Labels, u64)>),
    /// In a unit that needs fractions.
    FractionalCounter(f64),
    Gauge(Vec<(Labels, f64)>),
    /// Each with the number of observed units in one unit of the family: 1,000,000 for microseconds shown as seconds.
    Histogram(Vec<(Labels, HistogramSnapshot, f64)>),
    Info(Labels),
}

/// The families in the form of OpenMetrics 1.0.
pub(super) fn open_metrics(families: Vec<Family>) -> Result<String, Error> {
    let mut text = String::new();
    openmetrics_text::encode(&mut text, &registry(families))?;
    Ok(text)
}

/// The families in the form 0.0.4 of Prometheus.
pub(super) fn plain(families: Vec<Family>) -> Result<String, Error> {
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry(families))?;
    Ok(text)
}

fn registry(families: Vec<Family>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    registry
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut name = String::new();
        for family in &self.0 {
            name.clear();
            write!(name, "{PREFIX}_{}", family.name)?;
            let metric = encoder.encode_descriptor(&name, family.help, None, family.samples.metric_type())?;
            family.samples.encode(metric)?;
        }
        Ok(())
    }
}

impl Samples {
    fn metric_type(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::FractionalCounter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
            Self::Info(_) => MetricType::Info,
        }
    }

    fn encode(&self, mut metric: MetricEncoder<'_>) -> Result<(), Error> {
        const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
        match self {
            Self::Counter(samples) => {
                for (labels, value) in samples {
                    metric.encode_family(labels)?.encode_counter(value, NO_EXEMPLAR)?;
                }
            }
            Self::FractionalCounter(value) => metric.encode_counter(value, NO_EXEMPLAR)?,
            Self::Gauge(samples) => {
                for (labels, value) in samples {
                    metric.encode_family(labels)?.encode_gauge(value)?;
                }
            }
            Self::Histogram(samples) => {
                for (labels, snapshot, per_unit) in samples {
                    let bounds = snapshot.bounds.iter().map(|bound| float(*bound) / per_unit);
                    let bounds = bounds.chain([f64::INFINITY]);
                    let buckets: Vec<_> = bounds.zip(snapshot.counts.iter().copied()).collect();
                    let sum = float(snapshot.sum) / per_unit;
                    metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                        sum,
                        snapshot.count(),
                        &buckets,
                        None,
                    )?;
                }
            }
            Self::Info(labels) => metric.encode_info(labels)?,
        }
        Ok(())
    }
}

/// A count as a floating-point number, exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "a sample is a floating-point number")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use model::metric::Histogram;

    use super::*;

    fn families() -> Vec<Family> {
        let histogram = Histogram::new(&[1_000, 2_000_000]);
        for us in [500, 1_500_000, 9_000_000] {
            histogram.observe(us);
        }
        let label = |value: &str| vec![("kind", value.to_owned())];
        vec![
            Family { name: "build", help: "The program", samples: Samples::Info(label("a\"b\n")) },
            Family { name: "ends", help: "Ends", samples: Samples::Counter(vec![(label("x"), 3)]) },
            Family {
                name: "took_seconds",
                help: "Times",
                samples: Samples::Histogram(vec![(label("y"), histogram.snapshot(), 1e6)]),
            },
            Family { name: "up", help: "Up", samples: Samples::Gauge(vec![(Labels::new(), 1.5)]) },
        ]
    }

    #[test]
    fn metrics_are_rendered_in_the_openmetrics_format() {
        assert_eq!(
            open_metrics(families()).expect("a text"),
            "# HELP cogwork_build The program\n# TYPE cogwork_build info\ncogwork_build_info{kind=\"a\\\"b\\n\"} 1\n\
             # HELP cogwork_ends Ends\n# TYPE cogwork_ends counter\ncogwork_ends_total{kind=\"x\"} 3\n\
             # HELP cogwork_took_seconds Times\n# TYPE cogwork_took_seconds histogram\n\
             cogwork_took_seconds_sum{kind=\"y\"} 10.5005\ncogwork_took_seconds_count{kind=\"y\"} 3\n\
             cogwork_took_seconds_bucket{le=\"0.001\",kind=\"y\"} 1\n\
             cogwork_took_seconds_bucket{le=\"2.0\",kind=\"y\"} 2\n\
             cogwork_took_seconds_bucket{le=\"+Inf\",kind=\"y\"} 3\n\
             # HELP cogwork_up Up\n# TYPE cogwork_up gauge\ncogwork_up 1.5\n# EOF\n"
        );
    }
}

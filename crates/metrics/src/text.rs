//! The two text formats, which differ in how they name counters and end.
//!
//! ```text
//!  OpenMetrics 1.0                              Prometheus 0.0.4
//!  # TYPE sawmill_log_written_bytes counter     # TYPE sawmill_log_written_bytes_total counter
//!  # UNIT sawmill_log_written_bytes bytes
//!  sawmill_log_written_bytes_total{pool="a"} 7  sawmill_log_written_bytes_total{pool="a"} 7
//!  # EOF
//! ```
//! A histogram whose times were not added up has no `_sum`. OpenMetrics wants `_count` just where there is a
//! `_sum`; the older format wants `_count` always.

use crate::buckets::Buckets;
use std::fmt::{self, Display, Write as _};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format 0.0.4, which everything reads.
    Prometheus,
}

impl Format {
    /// The one that a client asks for by an HTTP `Accept` header: OpenMetrics only where it is named.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// What an HTTP `Content-Type` header says of it.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Grows, or begins anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Of what a family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Things.
    None,
    Bytes,
    Seconds,
    /// A part of 1.
    Ratio,
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Ratio => "ratio",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Histogram(Buckets),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Whole(is.into())
    }
}

/// Labels with their values, in order.
pub(crate) type Labels<'a> = [(&'static str, &'a str)];

/// A body being written, family by family.
pub(crate) struct Text {
    format: Format,
    out: String,
}

impl Text {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, out: String::new() }
    }

    /// Begins a family. Its name is without unit and what the kind adds.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, unit: Unit, help: &str) -> Series<'_> {
        let separator = if unit == Unit::None { "" } else { "_" };
        let name = format!("{name}{separator}{}", unit.word());
        let total = if kind == Kind::Counter { "_total" } else { "" };
        let titled = match self.format {
            Format::OpenMetrics => name.clone(),
            Format::Prometheus => format!("{name}{total}"),
        };
        self.line(format_args!("# HELP {titled} {help}"));
        self.line(format_args!("# TYPE {titled} {}", kind.word()));
        if self.format == Format::OpenMetrics && unit != Unit::None {
            self.line(format_args!("# UNIT {titled} {}", unit.word()));
        }
        Series { name: format!("{name}{total}"), text: self }
    }

    /// The whole body.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.out
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // A string takes whatever it is given.
        _ = writeln!(self.out, "{line}");
    }
}

/// The samples of one family.
pub(crate) struct Series<'a> {
    name: String,
    text: &'a mut Text,
}

impl Series<'_> {
    /// What was measured of one thing.
    pub(crate) fn sample(&mut self, labels: &Labels<'_>, value: &Value) {
        match value {
            Value::Whole(number) => self.put("", labels, number),
            Value::Real(number) => self.put("", labels, number),
            Value::Histogram(buckets) => self.histogram(labels, buckets),
        }
    }

    fn histogram(&mut self, labels: &Labels<'_>, buckets: &Buckets) {
        let mut all = labels.to_vec();
        for (end, count) in &buckets.below {
            all.truncate(labels.len());
            all.push(("le", end));
            self.put("_bucket", &all, count);
        }
        if let Some(sum) = buckets.sum {
            self.put("_sum", labels, &sum);
        }
        if buckets.sum.is_some() || self.text.format == Format::Prometheus {
            self.put("_count", labels, &buckets.count);
        }
    }

    fn put(&mut self, suffix: &str, labels: &Labels<'_>, number: &impl Display) {
        self.text.out.push_str(&self.name);
        self.text.out.push_str(suffix);
        for (place, (label, value)) in labels.iter().enumerate() {
            self.text.out.push_str(if place == 0 { "{" } else { "," });
            self.text.out.push_str(label);
            self.text.out.push_str("=\"");
            escape(&mut self.text.out, value);
            self.text.out.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.text.line(format_args!("{end} {number}"));
    }
}

/// A label's value, in which both formats escape the same three characters.
fn escape(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

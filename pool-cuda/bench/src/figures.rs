//! What came out of the measurements.

use serde::Serialize;

use crate::timing::Samples;

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) device: String,
    /// The newest CUDA version that the driver serves, as it writes it.
    pub(crate) driver_version: u32,
    /// Bytes of the device.
    pub(crate) total_bytes: u64,
    pub(crate) sections: Vec<Section>,
}

/// A table.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Figure>,
}

/// A figure: a median, or the only value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    /// 99 of 100 are at most this.
    pub(crate) p99: Option<f64>,
    pub(crate) unit: &'static str,
    /// How many operations count.
    pub(crate) operations: u64,
    /// How many of them were timed together: the percentile is of their means.
    pub(crate) batch: u32,
    /// What belongs to it.
    pub(crate) remark: String,
}

impl Figure {
    /// Nanoseconds of an operation.
    pub(crate) fn ns(what: impl Into<String>, samples: &Samples) -> Self {
        Self::of(what.into(), samples, "ns", 1.0)
    }

    /// Microseconds of an operation.
    pub(crate) fn us(what: impl Into<String>, samples: &Samples) -> Self {
        Self::of(what.into(), samples, "µs", 1e3)
    }

    /// Milliseconds of an operation.
    pub(crate) fn ms(what: impl Into<String>, samples: &Samples) -> Self {
        Self::of(what.into(), samples, "ms", 1e6)
    }

    fn of(what: String, samples: &Samples, unit: &'static str, unit_ns: f64) -> Self {
        Self {
            what,
            value: samples.median_ns() / unit_ns,
            p99: Some(samples.p99_ns() / unit_ns),
            unit,
            operations: samples.operations(),
            batch: samples.batch(),
            remark: String::new(),
        }
    }

    /// How many times as long one took as another.
    pub(crate) fn ratio(what: impl Into<String>, longer: &Samples, shorter: &Samples) -> Self {
        let value = longer.median_ns() / shorter.median_ns();
        Self::one(what, value, "times")
    }

    /// A value by itself.
    pub(crate) fn one(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let what = what.into();
        Self { what, value, p99: None, unit, operations: 1, batch: 1, remark: String::new() }
    }

    /// The same with a remark.
    pub(crate) fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: remark.into(), ..self }
    }
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "figures are read to a few digits")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

//! Figures for the facade `metrics`, whatever exporter is behind it.

use alloc::string::{String, ToString};
use core::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::figures::Figures;

/// Says what the metrics are that [`Figures::publish`] sets, to the recorder that is installed: once, before
/// the first of them.
///
/// # Example
///
/// ```
/// pool_core::record::describe_metrics();
/// ```
pub fn describe_metrics() {
    let bytes = [
        ("device_pool_live_bytes", "Held by the program"),
        (
            "device_pool_peak_bytes",
            "The most in use at once, caches and what was deferred included",
        ),
        ("device_pool_cached_bytes", "In caches of threads, and on shelves"),
        ("device_pool_deferred_bytes", "Freed, and waiting for work of the device or for a graph"),
        ("device_pool_free_bytes", "Free in arenas"),
        ("device_pool_reserved_bytes", "Taken from the device"),
        ("device_pool_peak_reserved_bytes", "The most taken from the device at once"),
        ("device_pool_limit_bytes", "The most that may be taken from the device"),
        ("device_pool_preallocated_bytes", "Taken from the device before anyone asked"),
        ("device_pool_preallocated_in_use_bytes", "As many of the preallocated bytes as are live"),
        ("device_pool_label_live_bytes", "Live blocks that were asked for under a label"),
        ("device_pool_label_peak_bytes", "The most of a label that was live at once"),
    ];
    for (name, what) in bytes {
        describe_gauge!(name, Unit::Bytes, what);
    }
    describe_gauge!(
        "device_pool_reuse_seconds",
        Unit::Seconds,
        "From a block's free to the next one in its place, within a factor of two, by quantile"
    );
    describe_counter!(
        "device_pool_growth_bytes_total",
        Unit::Bytes,
        "Taken from the device after the start"
    );
    let counts = [
        ("device_pool_requests_total", "Requests, by stream and by how they were served"),
        ("device_pool_growths_total", "Times that the pool grew"),
        ("device_pool_steals_total", "Stretches that went from one stream to another"),
        ("device_pool_class_operations_total", "Allocations and frees of a size class"),
        ("device_pool_class_misses_total", "Those of them that a thread's cache did not do alone"),
        ("device_pool_device_calls_total", "Calls of the device"),
    ];
    for (name, what) in counts {
        describe_counter!(name, Unit::Count, what);
    }
    describe_gauge!(
        "device_pool_growth_seconds",
        Unit::Seconds,
        "How long growth took, from the start"
    );
}

impl Figures {
    /// Sets the metrics of the recorder that is installed, each with the pool's name as the label
    /// `pool`. Nothing of it is on the way of an allocation: a program does it now and then, or before it is
    /// asked for them.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.figures().publish("main");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn publish(&self, pool: &str) {
        let stats = &self.stats;
        let bytes = [
            ("device_pool_live_bytes", stats.live_bytes),
            ("device_pool_peak_bytes", stats.peak_bytes),
            ("device_pool_cached_bytes", stats.cached_bytes),
            ("device_pool_deferred_bytes", stats.deferred_bytes),
            ("device_pool_free_bytes", stats.free_bytes),
            ("device_pool_reserved_bytes", stats.reserved_bytes),
            ("device_pool_peak_reserved_bytes", stats.peak_reserved_bytes),
            ("device_pool_preallocated_bytes", self.preallocated_bytes),
            ("device_pool_preallocated_in_use_bytes", self.preallocated_in_use_bytes),
        ];
        let limit = stats.limit_bytes.map(|limit| ("device_pool_limit_bytes", limit));
        for (name, value) in bytes.into_iter().chain(limit) {
            gauge!(name, "pool" => pool.to_string()).set(float(value));
        }
        let counts = [
            ("device_pool_growths_total", stats.growths),
            ("device_pool_growth_bytes_total", stats.growth_bytes),
            ("device_pool_steals_total", stats.steals),
            ("device_pool_device_calls_total", stats.calls.total()),
        ];
        for (name, value) in counts {
            counter!(name, "pool" => pool.to_string()).absolute(value);
        }
        gauge!("device_pool_growth_seconds", "pool" => pool.to_string())
            .set(self.growth_time.as_secs_f64());
        self.publish_requests(pool);
        for class in self.classes.iter().filter(|class| class.operations > 0) {
            let size = class.size_bytes.to_string();
            let labels = [("pool", pool.to_string()), ("class_bytes", size)];
            counter!("device_pool_class_operations_total", &labels).absolute(class.operations);
            counter!("device_pool_class_misses_total", &labels).absolute(class.missed);
        }
        for (per_mille, quantile) in [(500, "0.5"), (990, "0.99")] {
            let time = self
                .reuse
                .quantile(per_mille)
                .map_or(f64::NAN, |time: Duration| time.as_secs_f64());
            let labels = [("pool", pool.to_string()), ("quantile", quantile.to_string())];
            gauge!("device_pool_reuse_seconds", &labels).set(time);
        }
        for label in &self.labels {
            let labels = [("pool", pool.to_string()), ("label", label.path.clone())];
            gauge!("device_pool_label_live_bytes", &labels).set(float(label.live_bytes));
            gauge!("device_pool_label_peak_bytes", &labels).set(float(label.peak_bytes));
        }
    }

    fn publish_requests(&self, pool: &str) {
        let named = self.streams.iter().map(|stream| (stream.stream.to_string(), stream));
        let others = [(String::from("other"), &self.other_streams)];
        for (stream, requests) in named.chain(others).filter(|(_, stream)| stream.requests() > 0) {
            let outcomes = [
                ("at_once", requests.at_once),
                ("by_search", requests.by_search),
                ("by_help", requests.by_help),
                ("refused", requests.refused),
            ];
            for (outcome, count) in outcomes {
                let labels = [
                    ("pool", pool.to_string()),
                    ("stream", stream.clone()),
                    ("outcome", outcome.to_string()),
                ];
                counter!("device_pool_requests_total", &labels).absolute(count);
            }
        }
    }
}

/// As gauges have it.
#[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
fn float(value: u64) -> f64 {
    value as f64
}

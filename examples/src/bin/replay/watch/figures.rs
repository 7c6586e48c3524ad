//! What a replay that is watched has come to, in numbers.

use core::time::Duration;

use indicatif::HumanCount;

use crate::row::{human, ratio};

/// The figures of a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Calls that were made, and all there are.
    pub(super) done: usize,
    pub(super) total: usize,
    pub(super) elapsed: Duration,
    pub(super) live_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) free_bytes: u64,
    /// Not known in pages: addresses between blocks may be bare.
    pub(super) largest_free_bytes: Option<u64>,
    pub(super) failures: u64,
    /// What only a pool has.
    pub(super) pool: Option<OfPool>,
}

/// Figures of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfPool {
    pub(super) deferred_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) requests: u64,
    /// Requests that free memory served: with no growth, no wait, and nothing from another stream.
    pub(super) hits: u64,
    pub(super) growths: u64,
    /// Of streams and of the host.
    pub(super) waits: u64,
}

impl Figures {
    /// Each by its name, in the order in which they are shown.
    pub(super) fn named(&self) -> Vec<(&'static str, String)> {
        let count = |count| HumanCount(count).to_string();
        let mut named = vec![("live", human(self.live_bytes))];
        if let Some(pool) = &self.pool {
            named.push(("deferred", human(pool.deferred_bytes)));
            named.push(("cached", human(pool.cached_bytes)));
        }
        named.push(("reserved", human(self.reserved_bytes)));
        named.push(("free", human(self.free_bytes)));
        named.push(("largest free", self.largest_free_bytes.map_or("-".to_owned(), human)));
        if let Some(pool) = &self.pool {
            named.push(("hits", percent(pool.hits, pool.requests)));
            named.push(("growths", count(pool.growths)));
            named.push(("waits", count(pool.waits)));
        }
        named.push(("failures", count(self.failures)));
        named
    }

    /// How far the replay is: `1,204 of 9,000 operations, 1.5 s`.
    pub(super) fn course(&self) -> String {
        let count = |count: usize| HumanCount(count as u64);
        let (done, total, seconds) = (self.done, self.total, self.elapsed.as_secs_f64());
        format!("{} of {} operations, {seconds:.1} s", count(done), count(total))
    }

    /// All in one line, for what is no terminal.
    pub(super) fn line(&self) -> String {
        let named = self.named().into_iter().map(|(name, value)| format!("{name} {value}"));
        format!("{}: {}", self.course(), named.collect::<Vec<_>>().join(", "))
    }
}

/// `99.1 %`; `-` of nothing.
fn percent(part: u64, whole: u64) -> String {
    ratio(part, whole).map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_figures_and_says_what_is_not_known() {
        assert_eq!(
            Figures::default().line(),
            "0 of 0 operations, 0.0 s: live 0 B, reserved 0 B, free 0 B, largest free -, failures 0"
        );
        let figures = Figures {
            done: 1204,
            total: 9000,
            elapsed: Duration::from_millis(1500),
            live_bytes: 3 << 20,
            reserved_bytes: u64::MAX,
            free_bytes: 1 << 30,
            largest_free_bytes: Some(512),
            failures: 2,
            pool: Some(OfPool {
                deferred_bytes: 2048,
                cached_bytes: 0,
                requests: 1000,
                hits: 991,
                growths: 4,
                waits: 1_000_000,
            }),
        };
        assert_eq!(
            figures.line(),
            "1,204 of 9,000 operations, 1.5 s: live 3.0 MiB, deferred 2.0 KiB, cached 0 B, reserved \
             16.0 EiB, free 1.0 GiB, largest free 512 B, hits 99.1 %, growths 4, waits 1,000,000, \
             failures 2"
        );
    }
}

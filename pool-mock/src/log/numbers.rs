//! Small numbers for large ones.

use std::collections::HashMap;

/// Raw numbers, numbered by first appearance.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The raw numbers; each one's place is its number.
    pub(super) raw: Vec<u64>,
    known: HashMap<u64, u32>,
    last: Option<(u64, u32)>,
}

impl Numbers {
    /// The number of `raw`, a new one if it was not seen before. There are fewer than
    /// 2^32 events, and so fewer raw numbers.
    pub(super) fn number(&mut self, raw: u64) -> u32 {
        // Most events are of the same stream and thread as the one before.
        if let Some((last, number)) = self.last
            && last == raw
        {
            return number;
        }
        let number = *self.known.entry(raw).or_insert_with(|| {
            let place = u32::try_from(self.raw.len()).unwrap_or(u32::MAX);
            self.raw.push(raw);
            place
        });
        self.last = Some((raw, number));
        number
    }
}

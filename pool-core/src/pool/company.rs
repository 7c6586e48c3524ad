//! Whether one stream alone has asked for memory lately, or several.
//!
//! A program may know streams that it uses no more, or has used for one phase. What they got
//! memory for is over: where only one stream asks, memory is kept as for one.

/// After so many requests that are no hits, who asked before them counts no more.
const WINDOW: u32 = 1 << 16;

/// The streams that asked lately, as far as it matters: one or several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Company {
    /// Whether there are several.
    is_several: bool,
    /// The one that was seen first in this window, and whether another was.
    first: Option<u32>,
    is_mixed: bool,
    requests: u32,
    /// Whether anybody asked so far: then the pool got memory.
    was_asked: bool,
}

impl Company {
    /// Whether several streams asked lately.
    pub(crate) fn is_several(&self) -> bool {
        self.is_several
    }

    /// A stream that is new counts as one that asks.
    pub(crate) fn enter(&mut self, number: u32) {
        self.is_mixed |= self.first.is_some_and(|first| first != number);
        self.first.get_or_insert(number);
        self.is_several |= self.is_mixed;
    }

    /// A stream asks for what is no hit, in a pool that has so much memory, in bytes. Once all was
    /// given back, who asked before counts no more.
    pub(crate) fn note(&mut self, number: u32, reserved_bytes: u64) {
        if self.was_asked && reserved_bytes == 0 {
            *self = Self::default();
        }
        self.was_asked = true;
        self.enter(number);
        self.requests += 1;
        if self.requests >= WINDOW {
            self.is_several = self.is_mixed;
            // Who was alone is so until another comes.
            self.first = self.first.filter(|_| !self.is_mixed);
            (self.is_mixed, self.requests) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_several_from_the_second_on() {
        let mut company = Company::default();
        company.enter(1);
        company.note(1, 0);
        assert!(!company.is_several());
        company.enter(2);
        assert!(company.is_several());
    }

    #[test]
    fn who_has_not_asked_for_long_counts_no_more() {
        let mut company = Company::default();
        company.enter(1);
        company.enter(2);
        // In the window in which they came they count, and so they do in the next.
        assert!((1..2 * WINDOW).all(|_| {
            company.note(2, 1);
            company.is_several()
        }));
        company.note(2, 1);
        assert!(!company.is_several());
        company.note(1, 1);
        assert!(company.is_several());
    }

    #[test]
    fn nobody_counts_in_a_pool_that_was_emptied() {
        let mut company = Company::default();
        company.enter(1);
        company.enter(2);
        // It had nothing so far.
        company.note(2, 0);
        assert!(company.is_several());
        company.note(1, 1);
        company.note(2, 0);
        assert!(!company.is_several());
    }
}

//! Many values in few places, with the least and the most of each place kept.

/// The most places.
const PLACES: usize = 2048;

/// A row of values over events, `WIDTH` side by side: so many events share a place, and of each place
/// the least and the most value are kept. When all places are full, each two become one. So a peak
/// is never lost, however long the row, and the bytes are bounded.
#[derive(Clone, Debug)]
pub(crate) struct Thinned<const WIDTH: usize> {
    places: Vec<[Span; WIDTH]>,
    events_a_place: u64,
    events: u64,
}

/// The least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) least: u16,
    pub(crate) most: u16,
}

/// Widens each span so that it has the other's values too.
fn merge<const WIDTH: usize>(place: &mut [Span; WIDTH], others: [Span; WIDTH]) {
    for (span, other) in place.iter_mut().zip(others) {
        span.least = span.least.min(other.least);
        span.most = span.most.max(other.most);
    }
}

impl<const WIDTH: usize> Default for Thinned<WIDTH> {
    fn default() -> Self {
        Self { places: Vec::new(), events_a_place: 1, events: 0 }
    }
}

impl<const WIDTH: usize> Thinned<WIDTH> {
    /// The values after the next event.
    pub(crate) fn push(&mut self, values: [u16; WIDTH]) {
        let values = values.map(|value| Span { least: value, most: value });
        if self.events.is_multiple_of(self.events_a_place) {
            // Their number is even, so that the next place begins here after this too.
            if self.places.len() == PLACES {
                self.halve();
            }
            self.places.push(values);
        } else if let Some(place) = self.places.last_mut() {
            merge(place, values);
        }
        self.events += 1;
    }

    fn halve(&mut self) {
        let pairs = self.places.chunks_exact(2).map(|pair| {
            let mut place = pair[0];
            merge(&mut place, pair[1]);
            place
        });
        self.places = pairs.collect();
        self.events_a_place *= 2;
    }

    /// How many events share a place.
    pub(crate) fn events_a_place(&self) -> u64 {
        self.events_a_place
    }

    /// The places, in order.
    pub(crate) fn places(&self) -> &[[Span; WIDTH]] {
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use core::iter;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_has_the_least_and_the_most_of_its_events(
            values in prop::collection::vec(any::<[u16; 2]>(), 0..3 * PLACES),
            repeats in 1_usize..4,
        ) {
            let mut thinned = Thinned::<2>::default();
            let all: Vec<_> = values.iter().flat_map(|value| iter::repeat_n(*value, repeats)).collect();
            for value in &all {
                thinned.push(*value);
            }
            prop_assert!(thinned.places().len() <= PLACES);
            let of_a_place = usize::try_from(thinned.events_a_place()).unwrap();
            prop_assert_eq!(thinned.places().len(), all.len().div_ceil(of_a_place));
            for (place, events) in thinned.places().iter().zip(all.chunks(of_a_place)) {
                for (column, span) in place.iter().enumerate() {
                    let values = || events.iter().map(|values| values[column]);
                    prop_assert_eq!(span.least, values().min().unwrap());
                    prop_assert_eq!(span.most, values().max().unwrap());
                }
            }
        }
    }
}

//! Tables from the heap that are made when they are needed, never move, and can fail cleanly.

use alloc::boxed::Box;
use alloc::vec::Vec;

use once_cell::race::OnceBox;

use crate::sync::Once;

/// Cells of a row.
const ROW_BITS: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
const ROW: usize = 1 << ROW_BITS;

/// The host's heap refused a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoTable;

/// A table of values.
pub(crate) fn filled<V>(count: u64, value: impl FnMut() -> V) -> Result<Box<[V]>, NoTable> {
    let count = usize::try_from(count).map_err(|_| NoTable)?;
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| NoTable)?;
    values.resize_with(count, value);
    Ok(values.into_boxed_slice())
}

/// One value.
pub(crate) fn alone<V>(value: V) -> Result<Box<[V; 1]>, NoTable> {
    let mut values = Vec::new();
    values.try_reserve_exact(1).map_err(|_| NoTable)?;
    values.push(value);
    values.into_boxed_slice().try_into().map_err(|_| NoTable)
}

/// A table of values that are made one by one, in rows that are there where values were made: a range of
/// hundreds of GiB has so many places that even a pointer for each would take megabytes, and
/// milliseconds, before the first of them is used.
pub(crate) struct Rows<V> {
    rows: Box<[OnceBox<Row<V>>]>,
}

type Row<V> = [Once<V>; ROW];

impl<V> Rows<V> {
    /// So many places, none filled.
    pub(crate) fn new(places: u64) -> Result<Self, NoTable> {
        Ok(Self { rows: filled(places.div_ceil(ROW as u64), OnceBox::new)? })
    }

    /// The value in a place, once it is made.
    #[inline(always)]
    pub(crate) fn get(&self, place: u32) -> Option<&V> {
        self.rows.get((place >> ROW_BITS) as usize)?.get()?[place as usize % ROW].get()
    }

    /// Makes the value in a place, unless it is there. Of two threads that do so at once, one makes it, and
    /// the other waits; of two rows, one is thrown away.
    pub(crate) fn make(
        &self,
        place: u32,
        value: impl FnOnce() -> Result<V, NoTable>,
    ) -> Result<&V, NoTable> {
        let row = self.rows.get((place >> ROW_BITS) as usize).ok_or(NoTable)?;
        let row = row.get_or_try_init(|| {
            let row = filled(ROW as u64, Once::new)?;
            row.try_into().map_err(|_| NoTable)
        })?;
        row[place as usize % ROW].try_call_once(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_values_is_made_with_its_first_and_places_beyond_the_last_row_have_none() {
        let places = 3 * ROW as u32;
        let rows = Rows::new(u64::from(places) - 1).unwrap();
        let in_use = [0, ROW as u32 - 1, 2 * ROW as u32, places - 2];
        for place in in_use {
            assert_eq!(rows.get(place), None);
            assert_eq!(rows.make(place, || Ok(place)), Ok(&place));
            // It stays what it was made first.
            assert_eq!(rows.make(place, || Ok(place + 1)), Ok(&place));
        }
        for place in 0..places {
            assert_eq!(rows.get(place).copied(), in_use.contains(&place).then_some(place));
        }
        assert_eq!(rows.get(places), None);
        assert_eq!(rows.make(places, || Ok(0)), Err(NoTable));
    }

    #[test]
    fn a_value_that_could_not_be_made_is_made_by_the_next_who_tries() {
        let rows = Rows::new(1).unwrap();
        assert_eq!(rows.make(0, || Err(NoTable)), Err(NoTable));
        assert_eq!((rows.get(0), rows.make(0, || Ok(7))), (None, Ok(&7)));
    }
}

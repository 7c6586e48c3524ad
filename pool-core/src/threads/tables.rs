//! Tables from the heap that are made when they are needed, never move, and can fail cleanly.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::sync::Once;

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

/// A table of cells, none filled.
pub(crate) fn cells<V>(count: u64) -> Result<Box<[Once<V>]>, NoTable> {
    filled(count, Once::new)
}

/// One value.
pub(crate) fn alone<V>(value: V) -> Result<Box<[V; 1]>, NoTable> {
    let mut values = Vec::new();
    values.try_reserve_exact(1).map_err(|_| NoTable)?;
    values.push(value);
    values.into_boxed_slice().try_into().map_err(|_| NoTable)
}

//! The blocks that are not free at the moment.

use std::collections::HashMap;

/// A block that the program has, or that work may still use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Its number: so many were handed out before it.
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) is_deferred: bool,
}

/// By address.
pub(crate) type OpenBlocks = HashMap<u64, Open>;

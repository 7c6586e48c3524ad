//! What kind of log the bytes are.

use std::io::Read;

use super::{error::LogError, trace::Trace};

pub(super) fn read(_reader: impl Read, _device: Option<u32>) -> Result<Trace, LogError> {
    unimplemented!()
}

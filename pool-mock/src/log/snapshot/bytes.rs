//! The bytes of a pickle and the numbers in them, with the place of each.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::{
    error::PickleError,
    word::{self, Word},
};
use crate::log::LogError;

/// Why a pickle cannot be read on.
pub(super) enum Fault {
    /// The reader failed.
    Read(io::Error),
    /// The pickle is wrong, at the opcode being read.
    Pickle(PickleError),
    /// Something else, with its place.
    Log(LogError),
}

impl From<PickleError> for Fault {
    fn from(error: PickleError) -> Self {
        Self::Pickle(error)
    }
}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// The most that is kept of a string.
const MAX_TEXT_BYTES: u64 = 1024;

pub(super) struct PickleBytes<R> {
    /// Most reads are of a byte or two, so they go to a buffer of our own, whatever is
    /// beneath.
    inner: BufReader<R>,
    offset: u64,
    /// Where the current frame ends.
    frame_end: Option<u64>,
}

impl<R: Read> PickleBytes<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner: BufReader::new(inner), offset: 0, frame_end: None }
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Begins a frame of `length_bytes`, which only promises where the next one begins.
    pub(super) fn begin_frame(&mut self, length_bytes: u64) -> Result<(), Fault> {
        if self.frame_end.is_some() {
            return Err(PickleError::BadFrame.into());
        }
        let end = self.offset.checked_add(length_bytes).ok_or(PickleError::BadFrame)?;
        self.frame_end = Some(end);
        Ok(())
    }

    /// Checks, before an opcode, that the one before it kept inside its frame.
    pub(super) fn check_frame(&mut self) -> Result<(), Fault> {
        match self.frame_end {
            Some(end) if self.offset > end => Err(PickleError::BadFrame.into()),
            Some(end) if self.offset == end => {
                self.frame_end = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        let mut filled = 0;
        while let Some(rest) = array.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let input = fill(&mut self.inner)?;
            let count = rest.len().min(input.len());
            for (to, from) in rest.iter_mut().zip(input) {
                *to = *from;
            }
            self.consume(count);
            filled += count;
        }
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        let byte = *fill(&mut self.inner)?.first().ok_or(PickleError::Cut)?;
        self.consume(1);
        Ok(byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Fault> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length that older opcodes write with a sign.
    pub(super) fn signed_length(&mut self) -> Result<u64, Fault> {
        let length = self.i32()?;
        u64::try_from(length).map_err(|_| PickleError::NegativeLength { length }.into())
    }

    /// Passes over `count` bytes.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), Fault> {
        while count > 0 {
            let input = fill(&mut self.inner)?;
            let step = usize::try_from(count).unwrap_or(usize::MAX).min(input.len());
            self.consume(step);
            count -= step as u64;
        }
        Ok(())
    }

    /// A string of `count` bytes, as far as it matters.
    pub(super) fn word(&mut self, count: u64) -> Result<Word, Fault> {
        let mut text = [0; word::MAX_BYTES];
        let text = usize::try_from(count).ok().and_then(|count| text.get_mut(..count));
        let Some(text) = text else {
            self.skip(count)?;
            return Ok(Word::Other);
        };
        for byte in text.iter_mut() {
            *byte = self.u8()?;
        }
        Ok(Word::of(text))
    }

    /// The start of a string of `count` bytes, in `text`.
    pub(super) fn text(&mut self, count: u64, text: &mut Vec<u8>) -> Result<(), Fault> {
        text.clear();
        let kept = count.min(MAX_TEXT_BYTES);
        for _ in 0..kept {
            text.push(self.u8()?);
        }
        self.skip(count - kept)
    }

    /// A whole number of `count` bytes, with a sign, lowest byte first; `None` if it is
    /// negative or over 64 bits.
    pub(super) fn long(&mut self, count: u64) -> Result<Option<u64>, Fault> {
        let mut number = 0_u64;
        let mut fits = true;
        let mut last = 0;
        for place in 0..count {
            last = self.u8()?;
            match u32::try_from(place * 8) {
                Ok(shift @ 0..64) => number |= u64::from(last) << shift,
                _ => fits &= last == 0,
            }
        }
        Ok((fits && last < 0x80).then_some(number))
    }

    /// Reads to the end, so that a checksum around the pickle is checked too. Gives
    /// where the first byte other than zero is, if there is one.
    pub(super) fn rest(&mut self) -> Result<Option<u64>, Fault> {
        let mut first = None;
        loop {
            let input = match fill(&mut self.inner) {
                Err(Fault::Pickle(PickleError::Cut)) => return Ok(first),
                input => input?,
            };
            let count = input.len();
            let place = input.iter().position(|byte| *byte != 0);
            first = first.or(place.map(|place| self.offset + place as u64));
            self.consume(count);
        }
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.offset += count as u64;
    }
}

/// At least one byte.
fn fill<R: Read>(inner: &mut BufReader<R>) -> Result<&[u8], Fault> {
    while inner.buffer().is_empty() {
        match inner.fill_buf() {
            Ok([]) => return Err(PickleError::Cut.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Read(error)),
        }
    }
    Ok(inner.buffer())
}

//! Writes pickles, with those opcodes alone that PyTorch's viewers know.
//!
//! Each string is written once and named by number from then on; so are other values that the
//! caller remembers. Of protocol 4, without frames, which nobody needs to read one.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use super::opcode as op;

/// The protocol: the newest that the viewer in a browser takes.
pub(super) const PROTOCOL: u8 = 4;

/// How many items are handed to a list at once, as picklers do: the viewer passes them as
/// arguments of one call.
const BATCH: u32 = 1000;

/// The longest string that is written whole.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// A pickle as it is written.
#[derive(Debug)]
pub(super) struct Pickler<W> {
    inner: W,
    /// How many values are remembered.
    remembered: u32,
    strings: HashMap<Box<str>, u32>,
}

/// A value that is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered(u32);

/// A list that is being written: how many items since the last batch.
#[derive(Debug)]
pub(super) struct List {
    items: u32,
}

impl<W: Write> Pickler<W> {
    pub(super) fn new(mut inner: W) -> io::Result<Self> {
        inner.write_all(&[op::PROTO, PROTOCOL])?;
        Ok(Self { inner, remembered: 0, strings: HashMap::new() })
    }

    /// Ends the pickle.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.opcode(op::STOP)?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    pub(super) fn begin_dict(&mut self) -> io::Result<()> {
        self.inner.write_all(&[op::EMPTY_DICT, op::MARK])
    }

    pub(super) fn end_dict(&mut self) -> io::Result<()> {
        self.opcode(op::SETITEMS)
    }

    pub(super) fn begin_list(&mut self) -> io::Result<List> {
        self.inner.write_all(&[op::EMPTY_LIST, op::MARK])?;
        Ok(List { items: 0 })
    }

    /// Comes before each item.
    pub(super) fn item(&mut self, list: &mut List) -> io::Result<()> {
        if list.items == BATCH {
            list.items = 0;
            self.inner.write_all(&[op::APPENDS, op::MARK])?;
        }
        list.items += 1;
        Ok(())
    }

    pub(super) fn end_list(&mut self, List { .. }: List) -> io::Result<()> {
        self.opcode(op::APPENDS)
    }

    pub(super) fn empty_list(&mut self) -> io::Result<()> {
        self.opcode(op::EMPTY_LIST)
    }

    /// Makes one value of the last two.
    pub(super) fn pair(&mut self) -> io::Result<()> {
        self.opcode(op::TUPLE2)
    }

    pub(super) fn bool(&mut self, value: bool) -> io::Result<()> {
        self.opcode(if value { op::NEWTRUE } else { op::NEWFALSE })
    }

    pub(super) fn float(&mut self, value: f64) -> io::Result<()> {
        self.opcode(op::BINFLOAT)?;
        self.inner.write_all(&value.to_be_bytes())
    }

    /// Any number of 64 bits, or a sum of some.
    pub(super) fn int(&mut self, number: i128) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(number) {
            return self.inner.write_all(&[op::BININT1, byte]);
        }
        if let Ok(number) = u16::try_from(number) {
            self.opcode(op::BININT2)?;
            return self.inner.write_all(&number.to_le_bytes());
        }
        if let Ok(number) = i32::try_from(number) {
            self.opcode(op::BININT)?;
            return self.inner.write_all(&number.to_le_bytes());
        }
        // As few bytes as leave the sign in place.
        let bits =
            i128::BITS - if number < 0 { number.leading_ones() } else { number.leading_zeros() };
        let bytes = bits / 8 + 1;
        // At most 16.
        self.inner.write_all(&[op::LONG1, bytes.to_le_bytes()[0]])?;
        let all = number.to_le_bytes();
        self.inner.write_all(all.get(..bytes as usize).unwrap_or(&all))
    }

    /// A string.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(number) = self.strings.get(text) {
            return self.recall(Remembered(*number));
        }
        let text = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text);
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if let Ok(length) = u8::try_from(length) {
            self.inner.write_all(&[op::SHORT_BINUNICODE, length])?;
        } else {
            self.opcode(op::BINUNICODE)?;
            self.inner.write_all(&length.to_le_bytes())?;
        }
        self.inner.write_all(text.as_bytes())?;
        if let Some(Remembered(number)) = self.remember()? {
            self.strings.insert(text.into(), number);
        }
        Ok(())
    }

    /// Remembers the value that was written last; `None` if there are 2^32 already.
    pub(super) fn remember(&mut self) -> io::Result<Option<Remembered>> {
        let number = self.remembered;
        let Some(next) = number.checked_add(1) else { return Ok(None) };
        self.opcode(op::MEMOIZE)?;
        self.remembered = next;
        Ok(Some(Remembered(number)))
    }

    /// A remembered value once more.
    pub(super) fn recall(&mut self, Remembered(number): Remembered) -> io::Result<()> {
        if let Ok(number) = u8::try_from(number) {
            return self.inner.write_all(&[op::BINGET, number]);
        }
        self.opcode(op::LONG_BINGET)?;
        self.inner.write_all(&number.to_le_bytes())
    }

    fn opcode(&mut self, opcode: u8) -> io::Result<()> {
        self.inner.write_all(&[opcode])
    }
}

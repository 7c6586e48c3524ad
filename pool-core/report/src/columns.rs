//! Events as columns of packed bytes: what is alike lies together, so that it compresses well, and an
//! event takes some ten bytes.

use std::io::{self, Write};

use super::{event::Event, pack};

/// The columns. All are numbers of [`pack`], but the kinds, which are bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) events: u64,
    pub(crate) blocks: u32,
    /// Of each event.
    kinds: Vec<u8>,
    /// Of each event, the time since the one before.
    times: Vec<u8>,
    /// Of each block, the step from the address of the one before.
    addresses: Vec<u8>,
    sizes: Vec<u8>,
    streams: Vec<u8>,
    labels: Vec<u8>,
    /// Of each free, how many blocks were handed out since, the block itself counted.
    frees: Vec<u8>,
    /// Of everything else: the step of its address, its bytes, by how many it changed what is
    /// reserved, stream, label.
    others: Vec<u8>,
    last_time: u64,
    last_block_address: u64,
    last_other_address: u64,
}

impl Columns {
    /// The time of the last event.
    pub(crate) fn last_time(&self) -> u64 {
        self.last_time
    }

    /// A block was handed out. Its number is so many as there were before.
    pub(crate) fn block(&mut self, event: &Event) {
        self.begin(event);
        pack::step(&mut self.addresses, self.last_block_address, event.address);
        self.last_block_address = event.address;
        pack::number(&mut self.sizes, event.bytes);
        pack::number(&mut self.streams, event.stream.0.into());
        pack::number(&mut self.labels, event.label.0.into());
        self.blocks = self.blocks.saturating_add(1);
    }

    /// A block with a number is given back, or serves again.
    pub(crate) fn free(&mut self, event: &Event, number: u32) {
        self.begin(event);
        pack::number(&mut self.frees, self.blocks.saturating_sub(number).into());
    }

    /// Anything else, which changes what is reserved by so many bytes.
    pub(crate) fn other(&mut self, event: &Event, reserved_bytes: u64) {
        self.begin(event);
        pack::step(&mut self.others, self.last_other_address, event.address);
        self.last_other_address = event.address;
        pack::number(&mut self.others, event.bytes);
        pack::number(&mut self.others, reserved_bytes);
        pack::number(&mut self.others, event.stream.0.into());
        pack::number(&mut self.others, event.label.0.into());
    }

    fn begin(&mut self, event: &Event) {
        self.kinds.push(event.kind as u8);
        pack::number(&mut self.times, event.time - self.last_time);
        self.last_time = event.time;
        self.events += 1;
    }

    /// Writes all columns, each with its length.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { kinds, times, addresses, sizes, streams, labels, frees, others, .. } = self;
        for column in [kinds, times, addresses, sizes, streams, labels, frees, others] {
            let mut length = Vec::new();
            pack::number(&mut length, column.len() as u64);
            out.write_all(&length)?;
            out.write_all(column)?;
        }
        Ok(())
    }
}

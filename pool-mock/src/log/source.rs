//! The bytes of a log with any gzip undone, and what kind of log they are.

use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use super::{
    error::{LogError, Progress},
    recording::{Keep, Recording},
    rmm, snapshot,
};

/// Reads a log of either kind.
pub(super) fn read(
    reader: impl Read,
    device: Option<u32>,
    keep: Keep,
) -> Result<Recording, LogError> {
    let bytes = Bytes::new(reader)?;
    if bytes.is_snapshot() {
        snapshot::read(bytes, device, keep)
    } else {
        rmm::read(bytes, device, keep)
    }
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How many bytes to look ahead: the longest that any check needs, a byte order mark.
const PEEK_BYTES: usize = 3;

/// A reader whose first bytes were looked at and put back.
type Peeked<B> = Chain<Cursor<Vec<u8>>, B>;

/// The bytes of a log, any gzip undone.
pub(super) struct Bytes<R> {
    start: Vec<u8>,
    inner: Peeked<Plain<R>>,
}

enum Plain<R> {
    AsIs(Peeked<BufReader<R>>),
    Gzip(BufReader<MultiGzDecoder<Peeked<BufReader<R>>>>),
}

impl<R: Read> Bytes<R> {
    pub(super) fn new(reader: R) -> Result<Self, LogError> {
        let fail = |source| read_error(source, Progress::Rows(0));
        let (start, raw) = peek(BufReader::new(reader)).map_err(fail)?;
        let plain = if start.starts_with(&GZIP_MAGIC) {
            Plain::Gzip(BufReader::new(MultiGzDecoder::new(raw)))
        } else {
            Plain::AsIs(raw)
        };
        let (start, inner) = peek(plain).map_err(fail)?;
        if start.is_empty() { Err(LogError::Empty) } else { Ok(Self { start, inner }) }
    }

    /// Whether they are a pickle, and no CSV.
    pub(super) fn is_snapshot(&self) -> bool {
        self.start.first() == Some(&snapshot::MAGIC)
    }

    /// The first bytes, up to three.
    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }
}

fn peek<B: BufRead>(mut reader: B) -> io::Result<(Vec<u8>, Peeked<B>)> {
    let mut start = Vec::with_capacity(PEEK_BYTES);
    reader.by_ref().take(PEEK_BYTES as u64).read_to_end(&mut start)?;
    Ok((start.clone(), Cursor::new(start).chain(reader)))
}

impl<R: Read> Read for Bytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl<R: Read> BufRead for Bytes<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::AsIs(inner) => inner.read(buffer),
            Self::Gzip(inner) => inner.read(buffer).map_err(gzip_fault),
        }
    }
}

impl<R: Read> BufRead for Plain<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::AsIs(inner) => inner.fill_buf(),
            Self::Gzip(inner) => inner.fill_buf().map_err(gzip_fault),
        }
    }

    fn consume(&mut self, count: usize) {
        match self {
            Self::AsIs(inner) => inner.consume(count),
            Self::Gzip(inner) => inner.consume(count),
        }
    }
}

/// Damage of the gzip stream, on its way through readers that know only `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct GzipFault(io::Error);

fn gzip_fault(error: io::Error) -> io::Error {
    // The decoder's own verdicts; any other kind comes from the reader beneath it.
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), GzipFault(error))
        }
        _ => error,
    }
}

/// The typed error of a failed read.
pub(super) fn read_error(error: io::Error, read: Progress) -> LogError {
    match error.downcast::<GzipFault>() {
        Ok(GzipFault(source)) => LogError::Gzip { read, source },
        Err(source) => LogError::Io { read, source },
    }
}

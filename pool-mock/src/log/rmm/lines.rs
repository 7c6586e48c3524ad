//! Text as the row reader wants it: lines of bounded length that end in one LF.

use std::io::{self, BufRead, Read};

/// The longest line that is read.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Passes text through; takes away a byte order mark and the CR before an LF, adds the
/// LF that the last line may lack, and fails on a line over [`MAX_LINE_BYTES`]. So one
/// LF is one line, whatever wrote the file, and no row can fill the memory.
pub(super) struct Lines<B> {
    inner: B,
    line: Line,
}

/// What is known of the line being copied.
#[derive(Default)]
struct Line {
    bytes: usize,
    /// A CR was taken that may belong to an LF.
    held_cr: bool,
    /// Some byte of it was passed on.
    begun: bool,
}

/// A line was over the limit.
#[derive(Debug, thiserror::Error)]
#[error("line too long")]
pub(super) struct LineTooLong;

impl<B: BufRead> Lines<B> {
    /// `start` holds the first bytes of `inner`, at least three if there are so many.
    pub(super) fn new(mut inner: B, start: &[u8]) -> io::Result<Self> {
        if start.starts_with(BYTE_ORDER_MARK) {
            inner.read_exact(&mut [0; BYTE_ORDER_MARK.len()])?;
        }
        Ok(Self { inner, line: Line::default() })
    }
}

impl Line {
    /// Copies from `input` to `output`; gives how much was taken and how much written.
    fn copy(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<(usize, usize)> {
        let (mut taken, mut written) = (0, 0);
        while let (Some(&byte), Some(place)) = (input.get(taken), output.get_mut(written)) {
            if self.held_cr && byte != b'\n' {
                self.held_cr = false;
                *place = b'\r';
                written += 1;
                continue;
            }
            taken += 1;
            self.held_cr = byte == b'\r';
            if byte == b'\n' {
                self.bytes = 0;
            } else if self.bytes < MAX_LINE_BYTES {
                self.bytes += 1;
            } else {
                return Err(io::Error::other(LineTooLong));
            }
            self.begun = byte != b'\n';
            if !self.held_cr {
                *place = byte;
                written += 1;
            }
        }
        Ok((taken, written))
    }
}

impl<B: BufRead> Read for Lines<B> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(first) = output.first_mut() else { return Ok(0) };
            let input = self.inner.fill_buf()?;
            if input.is_empty() {
                if !core::mem::take(&mut self.line.begun) {
                    return Ok(0);
                }
                *first = b'\n';
                return Ok(1);
            }
            let (taken, written) = self.line.copy(input, output)?;
            self.inner.consume(taken);
            if written > 0 {
                return Ok(written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &[u8], chunk_bytes: usize) -> Vec<u8> {
        let start = text.get(..3).unwrap_or(text);
        let inner = io::BufReader::with_capacity(chunk_bytes, text);
        let mut lines = Lines::new(inner, start).unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; 2]);
        loop {
            match lines.read(&mut buffer).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn every_line_end_becomes_one_lf() {
        for chunk_bytes in [1, 2, 3, 64] {
            assert_eq!(clean(b"\xef\xbb\xbfa\r\nb\n\r\n\nc", chunk_bytes), b"a\nb\n\n\nc\n");
            assert_eq!(clean(b"a\rb\r\r\nc\r", chunk_bytes), b"a\rb\r\nc\n");
            assert_eq!(clean(b"\xef\xbb", chunk_bytes), b"\xef\xbb\n");
            assert_eq!(clean(b"", chunk_bytes), b"");
        }
    }

    #[test]
    fn a_line_of_any_bytes_is_bounded() {
        for byte in [b'a', b'\r', 0] {
            let endless = io::BufReader::new(io::repeat(byte));
            let mut lines = Lines::new(endless, &[byte; 3]).unwrap();
            let copied = io::copy(&mut lines, &mut io::sink()).unwrap_err();
            assert!(copied.downcast::<LineTooLong>().is_ok());
        }
    }
}

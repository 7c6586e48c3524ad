//! Rows as a log in RMM's newest form.

use std::io::{self, ErrorKind, Write};

use super::{Action, Row};

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// Writes a log that RMM's own tools and other readers understand: the newest header,
/// `0x` and hexadecimal pointers, `(nil)` for a failure, `0` for the default stream and
/// hexadecimal for any other.
///
/// Each row is a few small writes: give it a [`std::io::BufWriter`].
///
/// ```
/// use pool_mock::log::rmm::{Action, Row, Writer};
///
/// let mut writer = Writer::new(Vec::new())?;
/// writer.write(&Row {
///     line: 0,
///     thread: 7,
///     time_us: Some(36_000_000_001),
///     action: Action::Allocate,
///     pointer: 0x7f00,
///     size_bytes: 64,
///     stream: 2,
///     device: None,
/// })?;
/// let log = writer.into_inner();
/// assert_eq!(
///     std::str::from_utf8(&log).unwrap(),
///     "Thread,Time,Action,Pointer,Size,Stream\n7,10:00:00.000001,allocate,0x7f00,64,0x2\n"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    inner: W,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// Those of `inner`.
    ///
    /// ```
    /// let writer = pool_mock::log::rmm::Writer::new(Vec::new())?;
    /// assert_eq!(writer.into_inner(), b"Thread,Time,Action,Pointer,Size,Stream\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(mut inner: W) -> io::Result<Self> {
        inner.write_all(b"Thread,Time,Action,Pointer,Size,Stream\n")?;
        Ok(Self { inner })
    }

    /// Writes a row. Its line and device are not part of the form, and neither is the
    /// day: a time is taken modulo 24 hours, and none is midnight.
    ///
    /// # Errors
    ///
    /// Those of the inner writer; and `InvalidInput`, with nothing written, for
    /// [`Action::Reallocate`], which the form has no word for.
    ///
    /// ```
    /// use pool_mock::log::rmm::{Reader, Writer};
    ///
    /// // From the form of 0.14 to the newest.
    /// let old = "Time,Action,Pointer,Size,Stream\n10:00:00:000001,free,0xa0,8,2\n";
    /// let mut writer = Writer::new(Vec::new())?;
    /// for row in Reader::new(old.as_bytes())? {
    ///     writer.write(&row?)?;
    /// }
    /// assert!(writer.into_inner().ends_with(b"\n0,10:00:00.000001,free,0xa0,8,0x2\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&mut self, row: &Row) -> io::Result<()> {
        let action = match row.action {
            Action::Allocate => "allocate",
            Action::Free => "free",
            Action::Failure => "allocate failure",
            Action::Reallocate => {
                let reason = "a reallocation has no row of its own: write a free and an allocate";
                return Err(io::Error::new(ErrorKind::InvalidInput, reason));
            }
        };
        let time_us = row.time_us.unwrap_or(0) % DAY_US;
        let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            self.inner,
            "{},{hours:02}:{minutes:02}:{seconds:02}.{micros:06},{action},",
            row.thread
        )?;
        match row.pointer {
            0 => write!(self.inner, "(nil),{},", row.size_bytes)?,
            pointer => write!(self.inner, "{pointer:#x},{},", row.size_bytes)?,
        }
        match row.stream {
            0 => writeln!(self.inner, "0"),
            stream => writeln!(self.inner, "{stream:#x}"),
        }
    }

    /// Flushes the inner writer.
    ///
    /// # Errors
    ///
    /// Those of the inner writer.
    ///
    /// ```
    /// let mut writer = pool_mock::log::rmm::Writer::new(std::io::sink())?;
    /// writer.flush()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Gives the inner writer back, not flushed.
    ///
    /// ```
    /// let writer = pool_mock::log::rmm::Writer::new(Vec::new())?;
    /// assert!(!writer.into_inner().is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_inner(self) -> W {
        self.inner
    }
}

//! Typed rows from a log, one at a time.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::{
    Row,
    columns::{Column, Columns},
    field::{self, NumberError, RowError},
    lines::{LineTooLong, Lines, MAX_LINE_BYTES},
};
use crate::log::{
    error::{LogError, Progress},
    source::{Bytes, read_error},
};

/// The rows of a log, plain or gzipped, in the order of the file.
///
/// Memory is constant: one buffer and one line. It needs no buffered reader beneath it.
/// After an error there are no more rows.
///
/// ```
/// use pool_mock::log::rmm::{Action, Reader};
///
/// let log = "Time,Action,Pointer,Size,Stream\n\
///            10:00:00:000001,allocate,0x7f00,64,2\n";
/// let mut rows = Reader::new(log.as_bytes())?;
/// let row = rows.next().expect("one row")?;
/// assert_eq!((row.line, row.action, row.stream), (2, Action::Allocate, 2));
/// assert!(rows.next().is_none());
/// # Ok::<(), pool_mock::LogError>(())
/// ```
pub struct Reader<R: Read> {
    csv: csv::Reader<Lines<Bytes<R>>>,
    columns: Columns,
    record: ByteRecord,
    rows: u64,
    unreadable_times: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`LogError`]: there is nothing to read, or no header that names the columns
    /// action, pointer, size and stream.
    ///
    /// ```
    /// use pool_mock::{LogError, log::rmm::Reader};
    ///
    /// let log = "Time,Action,Pointer,Size\n";
    /// let missing = Reader::new(log.as_bytes());
    /// assert!(matches!(missing, Err(LogError::MissingColumn { column: "Stream", .. })));
    /// ```
    pub fn new(reader: R) -> Result<Self, LogError> {
        Self::from_bytes(Bytes::new(reader)?)
    }

    pub(in crate::log) fn from_bytes(bytes: Bytes<R>) -> Result<Self, LogError> {
        let start = bytes.start().to_vec();
        let lines =
            Lines::new(bytes, &start).map_err(|error| read_error(error, Progress::Rows(0)))?;
        let mut csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            // The format has no quotes; a stray one must not swallow the lines after it.
            .quoting(false)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(lines);
        let mut record = ByteRecord::new();
        if !next_record(&mut csv, &mut record, 0)? {
            return Err(LogError::Empty);
        }
        let columns = Columns::find(&record, line(&csv))?;
        Ok(Self { csv, columns, record, rows: 0, unreadable_times: 0, ended: false })
    }

    /// How many rows were read so far.
    ///
    /// ```
    /// use pool_mock::log::rmm::Reader;
    ///
    /// let mut rows = Reader::new(&b"Action,Pointer,Size,Stream\nfree,0xa0,8,0\n"[..])?;
    /// assert_eq!(rows.by_ref().count(), 1);
    /// assert_eq!(rows.rows(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many of them had a time that cannot be read ([`Row::time_us`] is `None`).
    ///
    /// ```
    /// use pool_mock::log::rmm::Reader;
    ///
    /// let log = "Time,Action,Pointer,Size,Stream\nnoon,free,0xa0,8,0\n";
    /// let mut rows = Reader::new(log.as_bytes())?;
    /// assert_eq!(rows.by_ref().count(), 1);
    /// assert_eq!(rows.unreadable_times(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn unreadable_times(&self) -> u64 {
        self.unreadable_times
    }

    /// How many columns there are that RMM no longer writes.
    pub(in crate::log) fn other_columns(&self) -> usize {
        self.columns.others()
    }

    fn read(&mut self) -> Result<Option<Row>, LogError> {
        if !next_record(&mut self.csv, &mut self.record, self.rows)? {
            return Ok(None);
        }
        let line = line(&self.csv);
        let row =
            self.row(line).map_err(|source| LogError::Row { line, rows: self.rows, source })?;
        self.rows += 1;
        Ok(Some(row))
    }

    fn row(&mut self, line: u64) -> Result<Row, RowError> {
        let columns = self.columns;
        let fields = self.record.len();
        if fields > columns.count && columns.last_is_ours {
            return Err(RowError::TooLong { fields, columns: columns.count });
        }
        let time = columns.time.map(|column| self.field(column)).transpose()?;
        let time_us = time.and_then(field::time_us);
        let unreadable_time = time_us.is_none() && time.is_some_and(|text| !text.is_empty());
        let row = Row {
            line,
            thread: self.optional(columns.thread, field::handle)?.unwrap_or(0),
            time_us,
            action: field::action(self.field(columns.action)?)?,
            pointer: self.number(columns.pointer, field::pointer)?,
            size_bytes: self.number(columns.size, field::size)?,
            stream: self.number(columns.stream, field::handle)?,
            device: self.optional(columns.device, field::device)?,
        };
        self.unreadable_times += u64::from(unreadable_time);
        Ok(row)
    }

    fn field(&self, column: Column) -> Result<&[u8], RowError> {
        self.record
            .get(column.index)
            .map(<[u8]>::trim_ascii)
            .ok_or(RowError::TooShort { column: column.name })
    }

    fn number<T>(
        &self,
        column: Column,
        parse: fn(&[u8]) -> Result<T, NumberError>,
    ) -> Result<T, RowError> {
        let text = self.field(column)?;
        parse(text).map_err(|problem| RowError::Number {
            column: column.name,
            text: field::excerpt(text),
            problem,
        })
    }

    fn optional<T>(
        &self,
        column: Option<Column>,
        parse: fn(&[u8]) -> Result<T, NumberError>,
    ) -> Result<Option<T>, RowError> {
        column.map(|column| self.number(column, parse)).transpose()
    }
}

/// The line that the last record was on: each line ends in one LF, which was read.
fn line<R: Read>(csv: &csv::Reader<R>) -> u64 {
    csv.position().line().saturating_sub(1)
}

/// Reads the next line that is not blank; false at the end.
fn next_record<R: Read>(
    csv: &mut csv::Reader<R>,
    record: &mut ByteRecord,
    rows: u64,
) -> Result<bool, LogError> {
    loop {
        if !csv.read_byte_record(record).map_err(|error| csv_error(error, csv, rows))? {
            return Ok(false);
        }
        if record.iter().any(|field| !field.trim_ascii().is_empty()) {
            return Ok(true);
        }
    }
}

fn csv_error<R: Read>(error: csv::Error, csv: &csv::Reader<R>, rows: u64) -> LogError {
    let error = match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        // Records of bytes, of any length, can fail by their reader only.
        other => std::io::Error::other(format!("{other:?}")),
    };
    match error.downcast::<LineTooLong>() {
        Ok(LineTooLong) => LogError::Row {
            line: csv.position().line(),
            rows,
            source: RowError::LineTooLong { limit_bytes: MAX_LINE_BYTES },
        },
        Err(error) => read_error(error, Progress::Rows(rows)),
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Row, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.read().transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        row
    }
}

impl<R: Read> core::iter::FusedIterator for Reader<R> {}

impl<R: Read> core::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").field("rows", &self.rows).finish_non_exhaustive()
    }
}

//! The fields of a row: from text to numbers, and what can be wrong with them.

use super::Action;

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// It ends before a column that is needed: often a file that was cut there.
    #[error("the row ends before its column {column:?}")]
    TooShort {
        /// The first column that it lacks.
        column: &'static str,
    },
    /// It has more fields than the header, and it cannot be told which are meant.
    #[error("the row has {fields} fields under {columns} columns")]
    TooLong {
        /// The fields of the row.
        fields: usize,
        /// The columns of the header.
        columns: usize,
    },
    /// Its line is longer than any row can be; it is not read into memory.
    #[error("the line is longer than {limit_bytes} bytes")]
    LineTooLong {
        /// The longest line that is read.
        limit_bytes: usize,
    },
    /// Its action is none of the known words.
    #[error("unknown action {action:?}")]
    UnknownAction {
        /// The word, shortened.
        action: String,
    },
    /// A number cannot be read.
    #[error("column {column:?}: {text:?} {problem}")]
    Number {
        /// The column, as the header calls it.
        column: &'static str,
        /// The text, shortened.
        text: String,
        /// Why not.
        problem: NumberError,
    },
}

/// Why some text is not the number wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// It holds something other than digits.
    #[error("is not a number")]
    NotDigits,
    /// It is a number, but too large.
    #[error("is more than {max}")]
    TooLarge {
        /// The largest number that is read here.
        max: u64,
    },
}

/// The start of `text`, printable, for a message.
pub(super) fn excerpt(text: &[u8]) -> String {
    const MAX_CHARS: usize = 40;
    let mut excerpt = String::new();
    let start = text.get(..4 * MAX_CHARS).unwrap_or(text);
    for (count, char) in String::from_utf8_lossy(start).chars().enumerate() {
        if count == MAX_CHARS {
            excerpt.push_str("...");
            break;
        }
        excerpt.push(char);
    }
    excerpt
}

pub(super) fn action(text: &[u8]) -> Result<Action, RowError> {
    match text {
        b"allocate" | b"Alloc" => Ok(Action::Allocate),
        b"free" | b"Free" => Ok(Action::Free),
        b"allocate failure" => Ok(Action::Failure),
        b"Realloc" => Ok(Action::Reallocate),
        _ => Err(RowError::UnknownAction { action: excerpt(text) }),
    }
}

/// An address: hexadecimal with or without `0x`, or one of the ways to print null.
pub(super) fn pointer(text: &[u8]) -> Result<u64, NumberError> {
    match text {
        b"" | b"(nil)" | b"(null)" | b"nullptr" => Ok(0),
        _ => digits::<16>(without_0x(text).unwrap_or(text)),
    }
}

/// A stream handle or thread: hexadecimal if it says so by `0x`, or decimal.
pub(super) fn handle(text: &[u8]) -> Result<u64, NumberError> {
    match text {
        b"(nil)" => Ok(0),
        _ => without_0x(text).map_or_else(|| digits::<10>(text), digits::<16>),
    }
}

/// A count of bytes.
pub(super) fn size(text: &[u8]) -> Result<u64, NumberError> {
    digits::<10>(text)
}

/// The number of a device.
pub(super) fn device(text: &[u8]) -> Result<u32, NumberError> {
    u32::try_from(digits::<10>(text)?)
        .map_err(|_| NumberError::TooLarge { max: u64::from(u32::MAX) })
}

/// Microseconds from `hh:mm:ss.ffffff`, `hh:mm:ss:ffffff` or plain seconds; `None` if
/// it is none of them.
pub(super) fn time_us(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    let Some((hours, rest)) = text.split_once(':') else {
        let seconds: f64 = text.parse().ok()?;
        let micros = (seconds * 1e6).round();
        #[expect(clippy::cast_possible_truncation, reason = "whole, and in range as checked")]
        #[expect(clippy::cast_sign_loss, reason = "not negative, as checked")]
        return (0.0..=9e15).contains(&micros).then_some(micros as u64);
    };
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, fraction) = rest.split_once(['.', ':']).unwrap_or((rest, "0"));
    let part = |text: &str, below: u64| {
        digits::<10>(text.as_bytes()).ok().filter(|number| *number < below)
    };
    // Six digits as written today; fewer or more are still a fraction.
    let fraction = fraction.get(..6).unwrap_or(fraction);
    let scale = 10_u64.pow(6_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    let micros = part(fraction, 1_000_000)?.checked_mul(scale)?;
    // A leap second is second 60.
    let seconds = (part(hours, 24)? * 60 + part(minutes, 60)?) * 60 + part(seconds, 61)?;
    Some(seconds * 1_000_000 + micros)
}

fn without_0x(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))
}

fn digits<const RADIX: u32>(text: &[u8]) -> Result<u64, NumberError> {
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    // Parsed by hand: the standard parsers take a sign and want UTF-8.
    let mut number = Some(0_u64);
    for &byte in text {
        let digit = char::from(byte).to_digit(RADIX).ok_or(NumberError::NotDigits)?;
        number = number
            .and_then(|number| number.checked_mul(u64::from(RADIX)))
            .and_then(|number| number.checked_add(u64::from(digit)));
    }
    number.ok_or(NumberError::TooLarge { max: u64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_every_form() {
        assert_eq!(time_us(b"00:00:00.000000"), Some(0));
        assert_eq!(time_us(b"23:59:59.999999"), Some(86_399_999_999));
        assert_eq!(time_us(b"01:02:03:000004"), Some(3_723_000_004));
        assert_eq!(time_us(b"01:02:03.5"), Some(3_723_500_000));
        assert_eq!(time_us(b"01:02:03"), Some(3_723_000_000));
        assert_eq!(time_us(b"1.10549"), Some(1_105_490));
        assert_eq!(time_us(b"9.5e-05"), Some(95));
        let bad: [&[u8]; 9] = [
            b"",
            b"noon",
            b"24:00:00.0",
            b"00:60:00.0",
            b"-1",
            b"nan",
            b"1e300",
            b"1:2:3.\xff",
            b"1:2:3.+5",
        ];
        for text in bad {
            assert_eq!(time_us(text), None, "{}", excerpt(text));
        }
    }

    #[test]
    fn numbers_up_to_the_last() {
        assert_eq!(pointer(b"0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(size(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(size(b"18446744073709551616"), Err(NumberError::TooLarge { max: u64::MAX }));
        assert_eq!(pointer(b"0x10000000000000000"), Err(NumberError::TooLarge { max: u64::MAX }));
        assert_eq!(size(b"+1"), Err(NumberError::NotDigits));
        assert_eq!(size(b"-1"), Err(NumberError::NotDigits));
        assert_eq!(size(b""), Err(NumberError::Empty));
        assert_eq!(handle(b"0x"), Err(NumberError::Empty));
        assert_eq!(handle(b"ff"), Err(NumberError::NotDigits));
        assert_eq!(device(b"4294967296"), Err(NumberError::TooLarge { max: 4_294_967_295 }));
    }
}

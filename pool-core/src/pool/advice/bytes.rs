//! Sizes for people.

use core::fmt;

/// A number of bytes, written with a unit: `1.5 GiB`.
pub(in crate::pool) struct Human(pub(in crate::pool) u64);

const UNITS: [(u32, &str); 6] =
    [(60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let Some((shift, unit)) = UNITS.into_iter().find(|&(shift, _)| bytes >> shift > 0) else {
            return write!(f, "{bytes} B");
        };
        let rest = bytes & ((1 << shift) - 1);
        // In 128 bits, since ten times the rest of an EiB is more than 64 have.
        match (u128::from(rest) * 10) >> shift {
            0 => write!(f, "{} {unit}", bytes >> shift),
            tenths => write!(f, "{}.{tenths} {unit}", bytes >> shift),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_fits_and_a_tenth() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1023.9 KiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(Human(bytes).to_string(), text);
        }
    }
}

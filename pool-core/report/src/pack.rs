//! Numbers as bytes: seven bits a byte, the lowest first, the eighth bit set if more follow.

/// Appends a number.
pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The lowest seven bits.
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends the way from one number to another, small if they are near each other, either way: the
/// lowest bit says which. Around the end of all numbers it wraps, as does the reader.
pub(crate) fn step(out: &mut Vec<u8>, from: u64, to: u64) {
    let way = to.wrapping_sub(from).cast_signed();
    number(out, ((way << 1) ^ (way >> 63)).cast_unsigned());
}

/// Appends a text with its length.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

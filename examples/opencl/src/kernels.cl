// What shows whether a block's bytes are its own: each block has a number, and each of its bytes a
// value that follows from that and from where it lies.

uint mixed(uint number, uint place) {
    uint x = number * 0x9e3779b9u ^ place * 0x85ebca6bu;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    return x ^ x >> 13;
}

// Sixteen bytes of a block.
uint4 marks(uint number, uint place) {
    uint4 places = (uint4)(0, 1, 2, 3) + 4 * place;
    return (uint4)(mixed(number, places.x), mixed(number, places.y),
                   mixed(number, places.z), mixed(number, places.w));
}

// Marks a block as that of a number; each item sixteen bytes of it.
kernel void mark(global uint4 *block, uint number) {
    uint place = get_global_id(0);
    block[place] = marks(number, place);
}

// Counts the bytes of a block that are not that number's.
kernel void check(global const uint4 *block, uint number, global uint *wrong_bytes) {
    uint place = get_global_id(0);
    uchar16 found = as_uchar16(block[place]);
    uchar16 expected = as_uchar16(marks(number, place));
    char16 differ = found != expected;
    if (any(differ)) {
        // True is minus one.
        char8 pairs = differ.lo + differ.hi;
        char4 fours = pairs.lo + pairs.hi;
        atomic_sub(wrong_bytes, (uint)(int)(fours.x + fours.y + fours.z + fours.w));
    }
}

// Takes a while, and writes what came of it so that it is not left out.
kernel void dawdle(global uint *sink, uint rounds) {
    uint x = rounds;
    for (uint round = 0; round < rounds; round++) {
        x = x * 1664525u + 1013904223u;
    }
    *sink = x;
}

// Gives bytes from a place on one value.
kernel void fill(global uchar *bytes, uint first, uchar value) {
    bytes[first + get_global_id(0)] = value;
}

//! The opcodes of a pickle, by their names.

/// Makes a constant of each opcode that is read.
macro_rules! opcodes {
    ($($name:ident = $byte:expr;)*) => {
        $(pub(super) const $name: u8 = $byte;)*
    };
}

opcodes! {
    MARK = b'(';
    STOP = b'.';
    POP = b'0';
    POP_MARK = b'1';
    DUP = b'2';
    BINBYTES = b'B';
    SHORT_BINBYTES = b'C';
    BINFLOAT = b'G';
    BININT = b'J';
    BININT1 = b'K';
    BININT2 = b'M';
    NONE = b'N';
    BINSTRING = b'T';
    SHORT_BINSTRING = b'U';
    BINUNICODE = b'X';
    EMPTY_LIST = b']';
    APPEND = b'a';
    DICT = b'd';
    APPENDS = b'e';
    BINGET = b'h';
    LONG_BINGET = b'j';
    LIST = b'l';
    BINPUT = b'q';
    LONG_BINPUT = b'r';
    SETITEM = b's';
    TUPLE = b't';
    SETITEMS = b'u';
    EMPTY_TUPLE = b')';
    EMPTY_DICT = b'}';
    PROTO = 0x80;
    TUPLE1 = 0x85;
    TUPLE2 = 0x86;
    TUPLE3 = 0x87;
    NEWTRUE = 0x88;
    NEWFALSE = 0x89;
    LONG1 = 0x8a;
    LONG4 = 0x8b;
    SHORT_BINUNICODE = 0x8c;
    BINUNICODE8 = 0x8d;
    BINBYTES8 = 0x8e;
    EMPTY_SET = 0x8f;
    ADDITEMS = 0x90;
    FROZENSET = 0x91;
    MEMOIZE = 0x94;
    FRAME = 0x95;
    BYTEARRAY8 = 0x96;
}

/// The name of an opcode that is refused; `None` for a byte that is no opcode.
pub(super) fn refused(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'g' => "GET",
        b'p' => "PUT",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'c' => "GLOBAL",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x92 => "NEWOBJ_EX",
        0x93 => "STACK_GLOBAL",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}

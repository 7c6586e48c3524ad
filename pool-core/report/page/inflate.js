// From base64 to bytes. Browsers have both steps built in; where one has not, it is done here.

async function unpack(base64) {
  const packed = lettersToBytes(base64);
  if (typeof DecompressionStream !== "function") return inflate(packed);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function lettersToBytes(base64) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(base64);
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// Deflate (RFC 1951), without a wrapper.
function inflate(packed) {
  const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
  const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
  const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

  let out = new Uint8Array(Math.max(1024, packed.length * 4));
  let size = 0;
  let at = 0;
  let held = 0; // bits that were read, and not used yet
  let count = 0;

  function bits(wanted) {
    while (count < wanted) {
      if (at >= packed.length) throw new Error("the data ends too early");
      held |= packed[at++] << count;
      count += 8;
    }
    const value = held & ((1 << wanted) - 1);
    held >>>= wanted;
    count -= wanted;
    return value;
  }

  function room(wanted) {
    if (size + wanted <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, size + wanted));
    larger.set(out);
    out = larger;
  }

  // How many codes there are of each length, and the symbols in the order of their codes.
  function codes(lengths) {
    const counts = new Uint16Array(16);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    const starts = new Uint16Array(16);
    for (let length = 1; length < 16; length++) starts[length] = starts[length - 1] + counts[length - 1];
    const symbols = new Uint16Array(lengths.length);
    lengths.forEach((length, symbol) => {
      if (length) symbols[starts[length]++] = symbol;
    });
    return { counts, symbols };
  }

  function symbol({ counts, symbols }) {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length++) {
      code |= bits(1);
      const many = counts[length];
      if (code - first < many) return symbols[index + code - first];
      index += many;
      first = (first + many) << 1;
      code <<= 1;
    }
    throw new Error("the data is damaged");
  }

  function coded(literals, distances) {
    for (;;) {
      const value = symbol(literals);
      if (value === 256) return;
      if (value < 256) {
        room(1);
        out[size++] = value;
        continue;
      }
      const length = LENGTHS[value - 257] + bits(LENGTH_BITS[value - 257]);
      const far = symbol(distances);
      const extra = far < 4 ? 0 : (far >> 1) - 1;
      const distance = far < 4 ? far + 1 : ((2 + (far & 1)) << extra) + 1 + bits(extra);
      if (distance > size) throw new Error("the data is damaged");
      room(length);
      for (let i = 0; i < length; i++, size++) out[size] = out[size - distance];
    }
  }

  function tables() {
    const many = [bits(5) + 257, bits(5) + 1];
    const lengths = new Array(19).fill(0);
    for (let i = 0, codeCount = bits(4) + 4; i < codeCount; i++) lengths[ORDER[i]] = bits(3);
    const of = codes(lengths);
    const all = [];
    while (all.length < many[0] + many[1]) {
      const value = symbol(of);
      if (value < 16) all.push(value);
      else if (value === 16) for (let i = 3 + bits(2), last = all.at(-1); i > 0; i--) all.push(last);
      else for (let i = value === 17 ? 3 + bits(3) : 11 + bits(7); i > 0; i--) all.push(0);
    }
    return [codes(all.slice(0, many[0])), codes(all.slice(many[0]))];
  }

  for (let last = 0; !last; ) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      held = count = 0;
      const length = packed[at] | (packed[at + 1] << 8);
      at += 4;
      room(length);
      out.set(packed.subarray(at, at + length), size);
      size += length;
      at += length;
    } else if (kind === 1) {
      const lengths = Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8));
      coded(codes(lengths), codes(new Array(30).fill(5)));
    } else if (kind === 2) {
      coded(...tables());
    } else {
      throw new Error("the data is damaged");
    }
  }
  return out.subarray(0, size);
}

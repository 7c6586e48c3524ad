// Numbers for people.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function inBytes(bytes, digits = 3) {
  let unit = 0;
  let value = bytes;
  // No more than three digits before the point.
  while (Math.abs(value) >= 1000 && unit + 1 < BYTE_UNITS.length) {
    value /= 1024;
    unit++;
  }
  return `${short(value, unit === 0 ? 4 : digits)} ${BYTE_UNITS[unit]}`;
}

// So many digits that count, but whole numbers as they are.
function short(value, digits = 3) {
  if (Number.isInteger(value)) return counted(value);
  const whole = Math.max(1, Math.floor(Math.log10(Math.abs(value) || 1)) + 1);
  return value.toLocaleString("en-US", {
    minimumFractionDigits: Math.max(0, digits - whole), maximumFractionDigits: Math.max(0, digits - whole),
  });
}

function counted(count) {
  return count.toLocaleString("en-US");
}

function inTime(nanoseconds) {
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9], ["min", 6e10], ["h", 3.6e12]];
  const [name, scale] = units.findLast(([, scale]) => Math.abs(nanoseconds) >= scale) ?? units[0];
  return `${short(nanoseconds / scale)} ${name}`;
}

function inPercent(share) {
  if (!Number.isFinite(share)) return "–";
  if (share === 0) return "0 %";
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

function inUnit(value, unit) {
  switch (unit) {
    case "bytes": return inBytes(value);
    case "nanoseconds": return inTime(value);
    case "share": return inPercent(value);
    case "times": return `${short(value)} ×`;
    default: return short(value);
  }
}

// Names without the folder that all files among them share.
function withoutSharedFolder(names) {
  const files = names.filter((name) => /^(\/|[A-Za-z]:\\)/.test(name));
  if (files.length < 2) return names;
  let shared = files[0];
  for (const file of files) while (!file.startsWith(shared)) shared = shared.slice(0, -1);
  const long = Math.max(shared.lastIndexOf("/"), shared.lastIndexOf("\\")) + 1;
  return names.map((name) => (name.startsWith(shared) ? name.slice(long) : name));
}

// At most so many letters. Of a file the end says more, of all else the beginning.
function inLetters(name, most) {
  if (name.length <= most) return name;
  return /[/\\]\S+:\d/.test(name) ? `…${name.slice(name.length - most + 1)}` : `${name.slice(0, most - 1)}…`;
}

function asAddress(address) {
  return `0x${address.toString(16)}`;
}

// Steps of an axis from zero to a most, about so many: of bytes in powers of two, else in tens.
function axisSteps(most, about, inBinary) {
  if (!(most > 0)) return [0];
  let step;
  if (inBinary) {
    step = 2 ** Math.ceil(Math.log2(most / about));
  } else {
    const power = 10 ** Math.floor(Math.log10(most / about));
    step = [1, 2, 5, 10].map((times) => times * power).find((step) => most / step <= about);
  }
  const steps = [];
  for (let value = 0; value <= most * 1.0001; value += step) steps.push(value);
  return steps;
}

// Colours, patterns, and canvases as sharp as the screen.

// Okabe and Ito's colours, which stay apart without full colour vision, each with a pattern of its
// own: the first pattern is plain.
// On dark ground they are lighter.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
const COLOURS_ON_DARK = ["#3f9fe0", "#f0b429", "#2bbf92", "#e29cc3", "#9fd8f7", "#ff8a4c", "#f0e442"];
const PATTERNS = ["plain", "rising", "dots", "falling", "upright", "cross", "level"];
const NOBODY = "#8b95a3";
// From new to old, light to dark: lightness alone tells.
const AGES = ["#f7d03c", "#f2953a", "#d75f50", "#a13a6d", "#652c7d", "#2d1b58"];
const AGES_ON_DARK = ["#fff3a3", "#fbc04f", "#f2875f", "#d3689a", "#9f6fd0", "#7068c8"];

const tiles = new Map();
const themed = new Map(); // what the style sheet says, until the theme changes

function theme(name) {
  if (!themed.has(name)) themed.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return themed.get(name);
}

function font() {
  if (!themed.has("font")) themed.set("font", `11px ${getComputedStyle(document.body).fontFamily}`);
  return themed.get("font");
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

// Fits a canvas to its place on the screen; its context, in units of the page.
function sharp(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = font();
  return { context, width, height };
}

// A colour with a pattern over it, to fill with.
function fill(context, colour, pattern, ink = inkOn(colour)) {
  if (pattern === "plain") return colour;
  const key = `${colour} ${pattern} ${ink}`;
  if (!tiles.has(key)) tiles.set(key, context.createPattern(tile(colour, pattern, ink), "repeat"));
  return tiles.get(key);
}

function tile(colour, pattern, ink) {
  const side = 8;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, side, side);
  context.strokeStyle = context.fillStyle = ink;
  context.globalAlpha = 0.5;
  context.lineWidth = 1.4;
  const line = (...points) => {
    context.beginPath();
    for (let i = 0; i < points.length; i += 4) {
      context.moveTo(points[i], points[i + 1]);
      context.lineTo(points[i + 2], points[i + 3]);
    }
    context.stroke();
  };
  // Lines that leave the tile come in again on the other side.
  const rising = [-2, 2, 2, -2, -2, 10, 10, -2, 6, 10, 10, 6];
  const falling = [-2, 6, 2, 10, -2, -2, 10, 10, 6, -2, 10, 2];
  switch (pattern) {
    case "rising": line(...rising); break;
    case "falling": line(...falling); break;
    case "cross": line(...rising, ...falling); break;
    case "upright": line(2, 0, 2, 8, 6, 0, 6, 8); break;
    case "level": line(0, 2, 8, 2, 0, 6, 8, 6); break;
    case "dots":
      for (const [x, y] of [[2, 2], [6, 6]]) {
        context.beginPath();
        context.arc(x, y, 1.1, 0, 7);
        context.fill();
      }
      break;
  }
  return canvas;
}

// Black or white, whichever can be read on a colour.
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 ? "#10141a" : "#ffffff";
}

// What the series are drawn with, in chart, legend and table alike.
const SERIES = {
  live: (context) => theme("live"),
  deferred: (context) => fill(context, theme("deferred"), "rising", "#10141a"),
  cached: (context) => fill(context, theme("cached"), "dots", theme("cached-ink")),
  reserved: (context) => theme("reserved"),
};

// A small picture of a fill, for legends.
function swatch(style, isLine = false) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [16, 12];
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  context.fillStyle = style(context);
  if (isLine) context.fillRect(0, 5, 16, 2);
  else context.fillRect(0, 0, 16, 12);
  return canvas;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  // Texts become text, never markup.
  made.append(...children);
  return made;
}

function legend(list, entries) {
  list.replaceChildren(...entries.map(([style, name, isLine]) => element("li", { title: name }, swatch(style, isLine), name)));
}

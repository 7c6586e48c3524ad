// Reports in a real browser, opened from files. SAMPLES is the folder that the example `samples`
// filled, with what it printed as `expected`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browserPath, openBrowser, openReport } from "./browser.mjs";

const folder = process.env.SAMPLES;
const skip = !browserPath() ? "no browser: install chromium, or say in CHROMIUM where one is"
  : !folder ? "no reports: say in SAMPLES where they are" : false;

const expected = skip ? [] : readFileSync(join(folder, "expected"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
const HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
let browser;
before(async () => {
  if (!skip) browser = await openBrowser();
});
after(() => browser?.close());

// Opens a sample, looks at it, and wants no complaint and no request.
function report(name, sample, look, options) {
  test(name, { skip }, async () => {
    const opened = await openReport(browser, join(folder, `${sample}.html`), options);
    const { page, problems } = opened;
    try {
      assert.equal(await page.getAttribute("html", "data-ready"), "yes");
      await look(page, expected.find((each) => each.name === sample));
      assert.deepEqual(problems, []);
    } finally {
      await page.context().close();
    }
  });
}

const value = (page, key) => page.locator(`[data-figure="${key}"]`).getAttribute("data-value").then(Number);
const shown = (page, key) => page.locator(`[data-of="${key}"]`).getAttribute("data-value").then(Number);
const state = (page) => page.evaluate(() => ({ moment: report.moment, from: report.from, to: report.to, last: report.last, isHeld: report.isHeld }));
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
async function press(page, key) {
  await page.keyboard.press(key);
  await drawn(page);
}

for (const sample of ["empty", "hostile", "full", "paged", "long"]) {
  report(`the figures of "${sample}" are those of the history`, sample, async (page, wanted) => {
    assert.equal(await value(page, "peak-live-bytes"), wanted.peakLive);
    assert.equal(await value(page, "peak-reserved-bytes"), wanted.peakReserved);
    assert.equal(await value(page, "live-at-end-bytes"), wanted.liveAtEnd);
    assert.equal(await value(page, "failures"), wanted.failures);
    assert.equal(await page.evaluate(() => report.history.events), wanted.events);
    await press(page, "p");
    assert.equal(await shown(page, "live"), wanted.peakLive);
  });
}

report("texts are shown as they are", "hostile", async (page) => {
  assert.equal(await page.title(), HOSTILE);
  assert.equal(await page.textContent("#title"), HOSTILE);
  assert.equal(await page.textContent("#source"), HOSTILE);
  assert.equal(await page.textContent("#holders tbody th"), HOSTILE);
  assert.ok((await page.textContent("#marks")).includes(HOSTILE));
  assert.ok((await page.textContent("#figures")).includes(HOSTILE));
  assert.ok((await page.textContent("#map-legend")).includes(HOSTILE));
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("script").count(), 1, "the data is dropped once it is read");
  await press(page, "m");
  await press(page, "ArrowRight");
  assert.ok((await page.textContent("#tip")).includes(HOSTILE));
});

report("keys lead to the peak, to failures and back", "full", async (page, wanted) => {
  await press(page, "Home");
  assert.equal((await state(page)).moment, 0);
  await press(page, "p");
  assert.equal(await page.evaluate(() => report.history.times[report.moment]), wanted.peakLiveTime);
  const seen = [];
  for (let i = 0; i < 4; i++) {
    await press(page, "f");
    seen.push(await page.textContent("#moment-what"));
  }
  assert.match(seen[0], /REFUSED a request of 90\.0 MiB|REFUSED a request of 90 MiB/);
  assert.match(seen[0], /compute · activations/);
  assert.match(seen[0], /free, the longest stretch is/);
  assert.equal(seen[3], seen[2], "after the last there is none");
  assert.match(await page.textContent("#said"), /no more/);
  await press(page, "Shift+F");
  assert.equal(await page.textContent("#moment-what"), seen[1]);
  const { moment } = await state(page);
  await press(page, "ArrowRight");
  assert.equal((await state(page)).moment, moment + 1);
  await press(page, "End");
  assert.equal((await state(page)).moment, (await state(page)).last);
});

report("keys and the wheel zoom and pan", "long", async (page) => {
  const whole = await state(page);
  await press(page, "p");
  await press(page, "+");
  const near = await state(page);
  assert.ok(near.to - near.from < whole.to - whole.from);
  assert.ok(near.from <= near.moment && near.moment <= near.to);
  await press(page, "PageDown");
  assert.ok((await state(page)).from > near.from);
  await press(page, "0");
  assert.deepEqual([(await state(page)).from, (await state(page)).to], [whole.from, whole.to]);

  const box = await page.locator("#timeline").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  for (let i = 0; i < 80; i++) await page.mouse.wheel(0, -200);
  await drawn(page);
  const closest = await state(page);
  assert.ok(closest.to - closest.from <= 12.5 && closest.from >= 0 && closest.to <= whole.to);
  for (let i = 0; i < 80; i++) await page.mouse.wheel(0, 200);
  await drawn(page);
  assert.equal((await state(page)).to, whole.to);
  await page.mouse.wheel(0, -600);
  await drawn(page);
  const before = await state(page);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 100, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await drawn(page);
  const dragged = await state(page);
  assert.ok(dragged.from > before.from && Math.abs(dragged.to - dragged.from - before.to + before.from) < 1);
});

report("the pointer chooses the moment until a click holds it", "full", async (page) => {
  const box = await page.locator("#timeline").boundingBox();
  await page.mouse.move(box.x + 100, box.y + 60);
  await drawn(page);
  const first = (await state(page)).moment;
  await page.mouse.move(box.x + box.width - 20, box.y + 60);
  await drawn(page);
  const second = (await state(page)).moment;
  assert.ok(second > first);
  await page.mouse.click(box.x + 100, box.y + 60);
  await page.mouse.move(box.x + box.width - 20, box.y + 60);
  await drawn(page);
  assert.deepEqual([(await state(page)).moment, (await state(page)).isHeld], [first, true]);
});

report("a peak of one event is in its pixel", "long", async (page, wanted) => {
  const most = await page.evaluate(() => {
    const columns = columnsOf(report, document.querySelector("#timeline").clientWidth, 0, report.whole);
    return Math.max(...columns.map((column) => column.liveMost));
  });
  assert.equal(most, wanted.peakLive);
});

report("thinning is the slow way's least and most", "long", async (page) => {
  const wrong = await page.evaluate(() => {
    let seed = 1;
    const draw = (below) => (seed = (seed * 48271) % 2147483647) % below;
    const wrong = [];
    for (let round = 0; round < 300; round++) {
      const values = Float64Array.from({ length: 1 + draw(round < 100 ? 200 : 6000) }, () => draw(1000));
      const peaks = new Peaks(values);
      for (let i = 0; i < 10; i++) {
        const first = draw(values.length);
        const last = first + draw(values.length - first);
        const part = values.subarray(first, last + 1);
        if (peaks.most(first, last) !== Math.max(...part) || peaks.least(first, last) !== Math.min(...part)) wrong.push([values.length, first, last]);
      }
    }
    return wrong;
  });
  assert.deepEqual(wrong, []);
});

report("names of files lose what all have in common, and keep their ends", "empty", async (page) => {
  const found = await page.evaluate(() => [
    withoutSharedFolder(["", "/home/me/net/a.py:1 f", "/home/me/netted/b.py:2 g", "step 7"]),
    withoutSharedFolder(["", "/home/me/a.py:1 f", "weights"]),
    withoutSharedFolder(["C:\\net\\a.py:1 f", "C:\\net\\b.py:1 f"]),
    [inLetters("model/attention.py:42 forward", 16), inLetters("layer 11 / workspace", 9), inLetters("short", 9)],
  ]);
  assert.deepEqual(found, [
    ["", "net/a.py:1 f", "netted/b.py:2 g", "step 7"],
    ["", "/home/me/a.py:1 f", "weights"],
    ["a.py:1 f", "b.py:1 f"],
    ["…n.py:42 forward", "layer 11…", "short"],
  ]);
});

report("numbers are in words that fit", "empty", async (page) => {
  const found = await page.evaluate(() => [
    [0, 999, 1000, 1024, 1 << 20, 1004 * 1024, 5e15].map((bytes) => inBytes(bytes)),
    [0, 950, 1500, 2e9].map(inTime), [0, 0.0004, 0.051, 0.34, 1].map(inPercent),
  ]);
  assert.deepEqual(found, [
    ["0 B", "999 B", "0.98 KiB", "1 KiB", "1 MiB", "0.98 MiB", "4.44 PiB"],
    ["0 ns", "950 ns", "1.50 µs", "2 s"], ["0 %", "<0.1 %", "5.1 %", "34 %", "100 %"],
  ]);
});

for (const sample of ["full", "paged", "long"]) {
  report(`the map of "${sample}" has the blocks and the memory of each moment`, sample, async (page) => {
    const wrong = await page.evaluate(() => {
      const { history, moments, backing, last } = report;
      const { kinds, about } = history;
      const wrong = [];
      const open = new Set();
      const pages = new Set();
      const step = Math.max(1, Math.floor(last / 500));
      const wanted = [];
      for (let event = 0; event <= last; event++) {
        const kind = kinds[event];
        if (kind === KIND.allocate) open.add(about[event]);
        else if (kind === KIND.free || kind === KIND.freeDone) open.delete(about[event]);
        else if (kind >= KIND.growth && kind <= KIND.decommit) {
          const { address, bytes } = history.notes[about[event]];
          for (let page = address; page < address + bytes; page += 1 << 20) {
            if (kind === KIND.growth || kind === KIND.commit) pages.add(page);
            else pages.delete(page);
          }
        }
        if (event % step === 0) wanted.push([event, [...open].sort((a, b) => a - b).join(), pages.size * (1 << 20)]);
      }
      // In an order that goes to and fro.
      wanted.sort((a, b) => ((a[0] * 7919) % 1009) - ((b[0] * 7919) % 1009));
      for (const [event, blocks, bytes] of wanted) {
        const found = [...moments.at(event)].sort((a, b) => a - b).join();
        const sum = backing.at(event).reduce((sum, edge, index) => sum + (index % 2 ? edge : -edge), 0);
        if (found !== blocks || sum !== bytes || sum !== report.series.reserved.values[event]) wrong.push(event);
      }
      return wrong;
    });
    assert.deepEqual(wrong, []);
  });
}

report("arrows go through the map, and a block says what it is", "full", async (page) => {
  await press(page, "p");
  await press(page, "m");
  await press(page, "ArrowRight");
  const first = await page.textContent("#tip");
  assert.match(first, /4 MiB .* at 0x0\nstream: compute\nlabel: weights\nallocated/);
  await press(page, "ArrowRight");
  assert.match(await page.textContent("#tip"), /5 MiB .* at 0xa00000/);
  assert.match(await page.textContent("#said"), /5 MiB/);
  const box = await page.locator("#map").boundingBox();
  await page.mouse.move(box.x + 8, box.y + 20);
  await drawn(page);
  assert.equal((await page.textContent("#tip")).split("\n")[0], first.split("\n")[0]);
});

report("holders, colours and sizes can be chosen by key", "full", async (page) => {
  await press(page, "p");
  assert.match(await page.textContent("#holders tbody"), /weights/);
  await press(page, "h");
  assert.match(await page.textContent("#holders-of"), /Size/);
  await press(page, "h");
  assert.match(await page.textContent("#holders tbody"), /copies/);
  const rows = await page.locator("#holders tbody td[data-value]").evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.value)));
  assert.equal(rows.reduce((sum, bytes) => sum + bytes, 0), await shown(page, "live"));
  for (const words of [/< 8 events/, /compute/, /weights/]) {
    await press(page, "c");
    assert.match(await page.textContent("#map-legend"), words);
  }
  const size = await page.inputValue("#size");
  await press(page, "s");
  assert.notEqual(await page.inputValue("#size"), size);
});

report("the theme follows the system, and a key", "full", async (page) => {
  assert.equal(await page.getAttribute("html", "data-theme"), "dark");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await press(page, "t");
  assert.equal(await page.getAttribute("html", "data-theme"), "light");
  assert.notEqual(await ground(), dark);
}, { colorScheme: "dark" });

report("the dialog of keys opens, and Escape closes it", "full", async (page) => {
  await press(page, "?");
  assert.equal(await page.locator("#keys").isVisible(), true);
  await press(page, "f");
  await press(page, "Escape");
  assert.equal(await page.locator("#keys").isVisible(), false);
});

report("focus can be seen wherever Tab goes", "full", async (page) => {
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement === document.body ? "body" : `${style.outlineStyle} ${style.outlineWidth}`;
    });
    assert.doesNotMatch(outline, /^none|^solid 0/);
  }
});

for (const viewport of [{ width: 1366, height: 768 }, { width: 1920, height: 1080 }, { width: 800, height: 600 }]) {
  report(`it fits ${viewport.width} by ${viewport.height}`, "full", async (page) => {
    const { wide, high } = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth, high: document.documentElement.scrollHeight - innerHeight,
    }));
    assert.ok(wide <= 0, `${wide} pixels too wide`);
    if (viewport.width > 1000) assert.ok(high <= 0, `${high} pixels too high`);
  }, { viewport });
}

for (const colorScheme of ["light", "dark"]) {
  report(`axe finds nothing in ${colorScheme}`, "full", async (page) => {
    await press(page, "f");
    const { default: axe } = await import("axe-core");
    await page.evaluate(axe.source);
    const found = await page.evaluate(() => window.axe.run());
    assert.deepEqual(found.violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
  }, { colorScheme });
}

test("a browser without the built-in steps reads the same", { skip }, async () => {
  for (const { name, peakLive, events } of expected) {
    const context = await browser.newContext();
    await context.addInitScript(() => {
      delete globalThis.DecompressionStream;
      delete Uint8Array.fromBase64;
    });
    const { page, problems } = await openReport({ newContext: () => context }, join(folder, `${name}.html`));
    assert.equal(await value(page, "peak-live-bytes"), peakLive);
    assert.equal(await page.evaluate(() => report.history.events), events);
    assert.deepEqual(problems, []);
    await context.close();
  }
});

test("a damaged report says so", { skip }, async () => {
  const { mkdtempSync, writeFileSync } = await import("node:fs");
  const { tmpdir } = await import("node:os");
  const whole = readFileSync(join(folder, "full.html"), "utf8");
  const path = join(mkdtempSync(join(tmpdir(), "report-")), "damaged.html");
  writeFileSync(path, whole.replace(/id="history">.{40}/, 'id="history">'));
  const { page } = await openReport(browser, path);
  assert.equal(await page.getAttribute("html", "data-ready"), "failed");
  assert.match(await page.textContent("[role=alert]"), /cannot be read/);
  await page.context().close();
});

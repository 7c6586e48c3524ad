// Opens a report as a person does, from a file, and says what it found: how long it took to open, how
// long pictures take while it is zoomed. `node look.mjs REPORT.html [FOLDER for screenshots]`.

import { mkdir } from "node:fs/promises";
import { openBrowser, openReport } from "./browser.mjs";

const [path, folder] = process.argv.slice(2);
const browser = await openBrowser();
try {
  for (const colorScheme of folder ? ["light", "dark"] : ["light"]) {
    const { page, problems, openedMs } = await openReport(browser, path, { colorScheme });
    const inside = await page.evaluate(() => Number(document.documentElement.dataset.openMs));
    console.log(`${path}: ready after ${openedMs} ms, ${inside} ms of them from data to picture`);
    if (folder) {
      await mkdir(folder, { recursive: true });
      const name = path.split("/").at(-1).replace(/\.html$/, "");
      await page.keyboard.press("p");
      await page.waitForTimeout(200);
      await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
    }
    if (colorScheme === "light") console.log(await frames(page));
    if (problems.length) console.log("problems:", problems);
    await page.context().close();
  }
} finally {
  await browser.close();
}

// Zooms in and out by the wheel, and takes the time between pictures.
async function frames(page) {
  const box = await page.locator("#timeline").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  const measured = page.evaluate(() => new Promise((resolve) => {
    const times = [];
    const tasks = [];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
    observer.observe({ entryTypes: ["longtask"] });
    let last = performance.now();
    const tick = (now) => {
      times.push(now - last);
      last = now;
      if (times.length < 180) requestAnimationFrame(tick);
      else resolve({ times: times.slice(2), tasks });
    };
    requestAnimationFrame(tick);
  }));
  for (let i = 0; i < 60; i++) {
    await page.mouse.wheel(0, i < 30 ? -120 : 120);
    await page.mouse.move(box.x + box.width * (0.3 + 0.4 * Math.abs(Math.sin(i / 9))), box.y + box.height / 2);
  }
  const { times, tasks } = await measured;
  const drawing = await page.evaluate(() => {
    const view = globalThis.report;
    const costs = [];
    for (let i = 0; i < 40; i++) {
      const start = performance.now();
      view.from = (view.whole * i) / 80;
      view.to = view.from + view.whole / (1 + i);
      view.moment = Math.floor((view.last * i) / 40);
      view.draw(new Set(["charts", "moment", "map"]));
      costs.push(performance.now() - start);
    }
    return costs.sort((a, b) => a - b);
  });
  times.sort((a, b) => a - b);
  const at = (list, share) => list[Math.min(list.length - 1, Math.floor(list.length * share))].toFixed(1);
  return `while zooming, ms between pictures: median ${at(times, 0.5)}, 95 % ${at(times, 0.95)}, worst ${at(times, 1)}; `
    + `long tasks ${tasks.length}; everything drawn anew: median ${at(drawing, 0.5)} ms, worst ${at(drawing, 1)} ms`;
}

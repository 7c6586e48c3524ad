// A browser without a screen, and a report in it.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

// Where a browser is: CHROMIUM says, or it is looked for where systems put it.
export function browserPath() {
  return process.env.CHROMIUM ?? PLACES.find((path) => existsSync(path));
}

export async function openBrowser() {
  const { chromium } = await import("playwright-core");
  return chromium.launch({
    executablePath: browserPath(),
    // It is alone with a file of ours; root has no sandbox.
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

// The report at a path, once it is ready, on the screen of a laptop; with everything that it
// complained of, and every request that it made.
export async function openReport(browser, path, { colorScheme = "light", viewport = { width: 1366, height: 768 } } = {}) {
  const context = await browser.newContext({ viewport, colorScheme });
  const page = await context.newPage();
  const problems = [];
  const url = pathToFileURL(resolve(path)).href;
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    if (request.url() !== url) problems.push(`a request: ${request.url().slice(0, 80)}`);
  });
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  const start = performance.now();
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60_000 });
  return { page, problems, openedMs: Math.round(performance.now() - start) };
}

"use strict";
// How long ago each run started, and what two ticked runs lead to. Without this the page shows when they started.

const MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
/** Units of an age, each used up to so many seconds. */
const AGES = [[MINUTE, "s", 1], [2 * HOUR, "min", MINUTE], [2 * DAY, "h", HOUR], [60 * DAY, "days", DAY]];

function ago(seconds) {
  const [, unit, one] = AGES.find(([end]) => seconds < end) ?? [];
  return seconds >= 0 && unit ? `${Math.floor(seconds / one)} ${unit} ago` : null;
}

for (const time of document.querySelectorAll("time")) {
  const words = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
  if (words) time.textContent = words;
}

const compare = document.querySelector("#compare");

/** Two ticked runs are compared: by the button, or by a command where nobody serves this page. */
function tick() {
  const runs = [...document.querySelectorAll("input[name=run]:checked")].map((one) => one.dataset.word).reverse();
  if (compare.tagName === "BUTTON") compare.disabled = runs.length !== 2;
  else compare.textContent = runs.length === 2 ? `stormproof diff ${runs.join(" ")} --open` : compare.dataset.usual;
}

if (compare) {
  document.querySelector("form").addEventListener("change", tick);
  tick();
}

// A review by keys: the key on a button of the chosen pair presses it.

import { items } from "/static/page.js";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const pair = document.activeElement.closest("[data-item]") ?? document.querySelector("[data-item].here");
  const button = pair?.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  // The place among the pairs is kept, so that the next one is chosen when the page comes back.
  sessionStorage.setItem("review", String(items().indexOf(pair)));
  button.click();
});

const place = sessionStorage.getItem("review");
if (place !== null) {
  sessionStorage.removeItem("review");
  const all = items();
  const next = all[Math.min(Number(place), all.length - 1)];
  next?.classList.add("here");
  // The focus stays on the undo of the choice; the keys of the next pair work from there.
  if (document.querySelector("#said [data-undo]")) next?.scrollIntoView({ block: "nearest" });
  else next?.focus({ preventScroll: false });
}

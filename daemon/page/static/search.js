// Search as one types: the newest question wins, and an older answer never replaces a newer one.

import { move } from "/static/page.js";

const form = document.querySelector("#asking");
const hits = document.querySelector("#hits");
const counted = document.querySelector("#counted");
const PAUSE_MS = 60;
let asked = 0;
let shown = 0;
let timer = 0;

async function ask() {
  const number = ++asked;
  const words = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", `/search?${words}`);
  words.set("part", "1");
  const answer = await fetch(`/search?${words}`).catch(() => null);
  if (answer === null) { counted.textContent = "The page has closed after a quiet while."; return; }
  const text = await answer.text();
  if (number < shown || !answer.ok) return;
  shown = number;
  const walked = hits.contains(document.activeElement);
  hits.innerHTML = text;
  if (walked) move(1);
  counted.textContent = "";
  const line = hits.querySelector("[data-count]");
  // Announced after a rest, so that a screen reader does not speak at every key.
  clearTimeout(timer);
  timer = setTimeout(() => { counted.className = "unseen"; counted.textContent = line?.textContent ?? ""; }, 800);
  hits.dataset.shown = words.get("q");
}

let waiting = 0;
form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, PAUSE_MS); });
// Enter asks and leaves the box for the first hit; so does Down once hits are there: keys then walk the list.
const toHits = () => { if (hits.querySelector("[data-item]")) { box.blur(); move(1); } };
form.addEventListener("submit", async (event) => { event.preventDefault(); clearTimeout(waiting); await ask(); toHits(); });
const box = document.querySelector("#q");
box.addEventListener("keydown", (event) => { if (event.key === "ArrowDown") { event.preventDefault(); toHits(); } });
box.setSelectionRange(box.value.length, box.value.length);

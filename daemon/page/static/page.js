// Keys that work on every page, the message after an act, and the notice that the page has closed.

const QUIET_MS = 605_000;
const places = new Map([...document.querySelectorAll("[data-key]")].map((one) => [one.dataset.key, one.href]));
const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");
let leads = false;

export const items = () => [...document.querySelectorAll("[data-item]")].filter((one) => one.checkVisibility());
let here = -1;

export function move(by) {
  const all = items();
  if (!all.length) return;
  const focused = all.findIndex((one) => one.contains(document.activeElement));
  const marked = all.findIndex((one) => one.classList.contains("here"));
  here = Math.min(Math.max((focused >= 0 ? focused : Math.max(here, marked)) + by, 0), all.length - 1);
  all[marked]?.classList.remove("here");
  const item = all[here];
  item.classList.add("here");
  (item.matches("[tabindex]") ? item : item.querySelector("a, summary, button"))?.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (leads) {
    leads = false;
    if (places.has(event.key)) location.href = places.get(event.key);
    return;
  }
  const does = {
    g: () => { leads = true; setTimeout(() => { leads = false; }, 1500); },
    "/": () => (document.querySelector("#q") ?? document.querySelector("#find"))?.focus(),
    "?": () => document.querySelector("#keys").showModal(),
    j: () => move(1),
    k: () => move(-1),
    u: () => document.querySelector("#said [data-undo]")?.click(),
  }[event.key];
  if (does) { event.preventDefault(); does(); }
});

// The message of an act is shown once: a reload, or a step back, does not repeat it.
const address = new URL(location.href);
if (address.searchParams.has("said")) {
  address.searchParams.delete("said");
  history.replaceState(null, "", address);
  const said = document.querySelector("#said .said");
  // The focus goes to the undo of the act, so that a wrong key is taken back by the next one.
  if (said) {
    const undo = said.querySelector("[data-undo]");
    if (!undo) said.setAttribute("tabindex", "-1");
    const focus = () => (undo ?? said).focus({ preventScroll: true });
    focus();
    // The browser goes to the place after the # once all is loaded, and takes the focus with it.
    if (location.hash) addEventListener("load", () => requestAnimationFrame(focus));
  }
}
// A place in a folded group is shown.
const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (target?.closest("details:not([open])")) { target.closest("details").open = true; target.scrollIntoView({ block: "center" }); }

// What takes its time is fetched when the page is there; what goes on is followed until it is over.
for (const place of document.querySelectorAll("[data-load]")) {
  fetch(place.dataset.load).then((answer) => (answer.ok ? answer.text() : "")).then((text) => {
    place.innerHTML = text;
    const state = document.querySelector("#problems");
    if (text && state) state.textContent = place.querySelector(".sev-error, .sev-warning") ? "Needs a look" : "All is well";
  }).catch(() => {});
}
const FOLLOWED_MS = 1500;
async function follow(place) {
  const answer = await fetch(place.dataset.follow, { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) return;
  place.querySelector("[data-followed]").innerHTML = await answer.text();
  if (place.querySelector("[data-over]")) location.reload();
  else setTimeout(follow, FOLLOWED_MS, place);
}
document.querySelectorAll("[data-follow]").forEach((place) => setTimeout(follow, FOLLOWED_MS, place));

// The daemon closes the page after some quiet: then every link would lead nowhere, and this says so before.
async function look() {
  try {
    await fetch("/alive", { cache: "no-store" });
    setTimeout(look, 60_000);
  } catch {
    document.querySelector("#gone").hidden = false;
  }
}
setTimeout(look, QUIET_MS);

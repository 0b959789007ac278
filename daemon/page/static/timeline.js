// The slider of the timeline: a day for each step, and what held then.

const form = document.querySelector("#when");
if (form) {
  const slide = form.querySelector(".slide");
  const range = slide.querySelector("input");
  const day = form.querySelector("[name=at]");
  const held = document.querySelector("#held");
  const first = Date.parse(form.dataset.first);
  const DAY_MS = 86_400_000;
  const written = (at) => new Date(at).toISOString().slice(0, 10);
  let asked = 0;
  let waiting = 0;

  const toSlider = () => { range.value = Math.round((Date.parse(day.value) - first) / DAY_MS); spell(); };
  const spell = () => range.setAttribute("aria-valuetext", new Date(day.value).toLocaleDateString());
  async function show() {
    const number = ++asked;
    const words = new URLSearchParams(new FormData(form));
    history.replaceState(null, "", `/timeline?${words}`);
    words.set("part", "1");
    const answer = await fetch(`/timeline?${words}`).catch(() => null);
    const text = await answer?.text();
    if (number === asked && answer?.ok) held.innerHTML = text;
  }
  slide.hidden = false;
  toSlider();
  range.addEventListener("input", () => {
    day.value = written(first + Number(range.value) * DAY_MS);
    spell();
    clearTimeout(waiting);
    waiting = setTimeout(show, 60);
  });
  day.addEventListener("change", () => { toSlider(); show(); });
  form.channel.addEventListener("change", () => form.submit());
}

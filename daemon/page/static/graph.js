// The drawing of people and things: a walk from one to the next by pointer or arrows. The list below it has the same.

const walk = document.querySelector("[data-graph]");
const canvas = walk?.querySelector("canvas");
const near = walk?.querySelector(".near");
const COLOURS = {
  person: "--faded", organisation: "--waiting", team: "--waiting", project: "--learned", service: "--learned",
  place: "--contradicted", event: "--contradicted",
};
const ROUNDS = 60;
const FRAME_MS = 16;
const LABELS = 70;
const MOST_DOTS = 400; // beyond, labels keep clear of each other alone

// The places of the nodes: at once on a spiral, those with most relations in the middle; each round of `settle` then
// moves them, by springs along the relations and a push among those in the same or a neighbouring cell of a grid, so that
// a round's cost grows with the number of nodes and not with that of pairs.
function places(nodes, edges) {
  const SPREAD = 26;
  const CELL = 3 * SPREAD;
  const turn = Math.PI * (3 - Math.sqrt(5));
  const x = new Float64Array(nodes.length);
  const y = new Float64Array(nodes.length);
  const degree = new Float64Array(nodes.length);
  for (const [one, other] of edges) { degree[one] += 1; degree[other] += 1; }
  const order = nodes.map((_, i) => i).sort((a, b) => degree[b] - degree[a] || nodes[b][2] - nodes[a][2]);
  order.forEach((node, place) => {
    const far = SPREAD * Math.sqrt(place);
    // The canvas is wider than it is high.
    x[node] = 1.5 * far * Math.cos(place * turn);
    y[node] = far * Math.sin(place * turn);
  });
  function settle(round) {
    const heat = 1 - round / ROUNDS;
    const cells = new Map();
    for (let i = 0; i < nodes.length; i += 1) {
      const cell = Math.floor(x[i] / CELL) * 65_536 + Math.floor(y[i] / CELL);
      const held = cells.get(cell);
      if (held) held.push(i); else cells.set(cell, [i]);
    }
    for (const [cell, held] of cells) {
      for (const by of [0, 1, 65_535, 65_536, 65_537]) {
        const others = by ? cells.get(cell + by) : held;
        if (!others) continue;
        for (const i of held) for (const j of others) {
          if (by === 0 && j <= i) continue;
          const dx = x[i] - x[j] || 0.01;
          const dy = y[i] - y[j] || 0.01;
          const square = dx * dx + dy * dy;
          if (square > CELL * CELL) continue;
          const push = heat * Math.min(9, (2.5 * SPREAD * SPREAD) / square);
          const far = Math.sqrt(square);
          x[i] += (dx / far) * push; y[i] += (dy / far) * push;
          x[j] -= (dx / far) * push; y[j] -= (dy / far) * push;
        }
      }
    }
    for (const [i, j] of edges) {
      const dx = x[j] - x[i];
      const dy = y[j] - y[i];
      const far = Math.hypot(dx, dy) || 1;
      const pull = (heat * 0.1 * (far - 2 * SPREAD)) / far;
      x[i] += (dx * pull) / degree[i]; y[i] += (dy * pull) / degree[i];
      x[j] -= (dx * pull) / degree[j]; y[j] -= (dy * pull) / degree[j];
    }
  }
  return { x, y, settle };
}

// What has no relation is in the list alone: there is nowhere to walk from it.
function related({ nodes, edges }) {
  const there = [...new Set(edges.flatMap(([one, other]) => [one, other]))].sort((a, b) => a - b);
  const place = new Map(there.map((node, i) => [node, i]));
  return { nodes: there.map((node) => nodes[node]), edges: edges.map(([one, other, ...rest]) => [place.get(one), place.get(other), ...rest]) };
}

function begin({ nodes, edges }) {
  const { x, y, settle } = places(nodes, edges);
  const beside = nodes.map(() => []);
  for (const [one, other, name, holds] of edges) {
    beside[one].push([other, name, holds, true]);
    beside[other].push([one, name, holds, false]);
  }
  const size = nodes.map(([, , mentions]) => 3 + Math.min(9, Math.sqrt(mentions)));
  const weight = (i) => nodes[i][2] + 2 * beside[i].length;
  const labelled = nodes.map((_, i) => i).sort((a, b) => weight(b) - weight(a)).slice(0, LABELS);
  const pen = canvas.getContext("2d");
  const view = { x: 0, y: 0, scale: 1 };
  let chosen = -1;
  let waits = false;
  let isTouched = false;

  const px = new Float64Array(nodes.length);
  const py = new Float64Array(nodes.length);
  const byType = new Map();
  nodes.forEach(([, type], i) => { if (byType.has(type)) byType.get(type).push(i); else byType.set(type, [i]); });
  let width = canvas.clientWidth;
  let height = canvas.clientHeight;
  const toScreen = (i) => [(x[i] - view.x) * view.scale + width / 2, (y[i] - view.y) * view.scale + height / 2];
  // Colours are asked for once for each scheme: a question to the browser costs more than a node.
  let styles = new Map();
  const style = (name) => {
    if (!styles.has(name)) styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    return styles.get(name);
  };

  function fit() {
    const reach = (values) => values.reduce((most, one) => Math.max(most, Math.abs(one)), 60);
    view.scale = Math.min(1.6, width / (2.4 * reach(x)), height / (2.15 * reach(y)));
  }

  function draw() {
    waits = false;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) { canvas.width = width * ratio; canvas.height = height * ratio; }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const [line, ink, soft, paper] = ["--line", "--ink", "--soft", "--card"].map(style);
    const around = new Set(chosen < 0 ? [] : [chosen, ...beside[chosen].map(([other]) => other)]);
    for (let i = 0; i < nodes.length; i += 1) {
      px[i] = (x[i] - view.x) * view.scale + width / 2;
      py[i] = (y[i] - view.y) * view.scale + height / 2;
    }
    // One path for all lines of a look: a stroke for each would cost more than all else.
    const paths = { far: new Path2D(), was: new Path2D(), near: new Path2D(), nearWas: new Path2D() };
    for (const [one, other, , holds] of edges) {
      const isNear = one === chosen || other === chosen;
      const path = paths[isNear ? (holds ? "near" : "nearWas") : (holds ? "far" : "was")];
      path.moveTo(px[one], py[one]); path.lineTo(px[other], py[other]);
    }
    pen.lineWidth = 1;
    for (const [name, path] of Object.entries(paths)) {
      pen.strokeStyle = name.startsWith("near") ? soft : line;
      pen.setLineDash(name.endsWith("as") ? [3, 4] : []);
      pen.stroke(path);
    }
    pen.setLineDash([]);
    const grow = Math.min(1.4, Math.max(0.35, view.scale));
    for (const [type, members] of byType) {
      pen.fillStyle = style(COLOURS[type] ?? "--plain");
      for (const isNear of chosen < 0 ? [true] : [false, true]) {
        pen.globalAlpha = isNear ? 1 : 0.3;
        pen.beginPath();
        for (const i of members) {
          if (chosen >= 0 && around.has(i) !== isNear) continue;
          if (px[i] < -20 || py[i] < -20 || px[i] > width + 20 || py[i] > height + 20) continue;
          pen.moveTo(px[i] + size[i] * grow, py[i]);
          pen.arc(px[i], py[i], size[i] * grow, 0, 2 * Math.PI);
        }
        pen.fill();
      }
    }
    if (chosen >= 0) {
      pen.strokeStyle = ink; pen.lineWidth = 2;
      pen.beginPath(); pen.arc(px[chosen], py[chosen], size[chosen] * grow, 0, 2 * Math.PI); pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.font = `${width < 500 ? 11 : 13}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    // Labels lie on no dot and on no other label: each takes the first free side of its dot.
    const taken = nodes.length > MOST_DOTS ? [] : nodes.map((_, i) => { const r = size[i] * grow; return [px[i] - r, py[i] - r, px[i] + r, py[i] + r]; });
    const free = (box) => !taken.some((one) => one[0] < box[2] && box[0] < one[2] && one[1] < box[3] && box[1] < one[3]);
    const named = [...new Set([...(chosen < 0 ? [] : [chosen]), ...[...around].slice(0, 40), ...(chosen < 0 ? labelled : [])])];
    for (const i of named) {
      const words = nodes[i][0].length > 28 ? `${nodes[i][0].slice(0, 27)}…` : nodes[i][0];
      const long = pen.measureText(words).width;
      const off = size[i] * grow + 3;
      const sides = [[off, -8], [-off - long, -8], [-long / 2, -off - 15], [-long / 2, off], [off, -off - 12], [off, off - 3], [-off - long, -off - 12], [-off - long, off - 3]];
      const boxes = sides.map(([dx, dy]) => [px[i] + dx, py[i] + dy, px[i] + dx + long, py[i] + dy + 15]).filter((box) => box[0] > 0 && box[2] < width && box[1] > 0 && box[3] < height);
      // A label without a free side is left out, but for the chosen one's: a person zooms, or walks there.
      const box = boxes.find(free) ?? (i === chosen ? boxes[0] : undefined);
      if (!box) continue;
      taken.push(box);
      pen.lineWidth = 3; pen.strokeStyle = paper; pen.strokeText(words, box[0], box[1] + 8);
      pen.fillStyle = i === chosen ? ink : soft; pen.fillText(words, box[0], box[1] + 8);
    }
  }
  const redraw = () => { if (!waits) { waits = true; requestAnimationFrame(draw); } };

  function button(words, act) {
    const one = document.createElement("button");
    one.type = "button"; one.textContent = words; one.addEventListener("click", act);
    return one;
  }
  function choose(i, moves = true) {
    chosen = i;
    near.replaceChildren();
    if (i >= 0) {
      const [name, type, mentions] = nodes[i];
      const head = document.createElement("h2");
      const link = document.createElement("a");
      link.href = `/thing/${encodeURIComponent(name)}`; link.textContent = name; head.append(link);
      const kind = document.createElement("span");
      kind.className = "soft"; kind.textContent = `${type}, ${mentions} mentions`;
      const list = document.createElement("ul");
      for (const [other, words, holds, leads] of beside[i].slice(0, 30)) {
        const item = document.createElement("li");
        item.append(`${leads ? words : `← ${words}`} `, button(nodes[other][0], () => { choose(other); }));
        if (!holds) { const over = document.createElement("span"); over.className = "soft"; over.textContent = " (was)"; item.append(over); }
        list.append(item);
      }
      near.append(head, kind, list);
      if (moves) { view.x = x[i]; view.y = y[i]; view.scale = Math.max(view.scale, 0.9); }
    }
    redraw();
  }
  function at(px, py) {
    let best = -1;
    let least = 18 * 18;
    for (let i = 0; i < nodes.length; i += 1) {
      const [ax, ay] = toScreen(i);
      const far = (ax - px) ** 2 + (ay - py) ** 2;
      if (far < least) { least = far; best = i; }
    }
    return best;
  }
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); held = { x: event.offsetX, y: event.offsetY, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { canvas.style.cursor = at(event.offsetX, event.offsetY) >= 0 ? "pointer" : ""; return; }
    const [dx, dy] = [event.offsetX - held.x, event.offsetY - held.y];
    if (Math.hypot(dx, dy) > 3) held.moved = true;
    if (held.moved) { view.x -= dx / view.scale; view.y -= dy / view.scale; held.x = event.offsetX; held.y = event.offsetY; redraw(); }
  });
  canvas.addEventListener("pointerup", (event) => { if (held && !held.moved) choose(at(event.offsetX, event.offsetY), false); held = null; });
  canvas.addEventListener("dblclick", () => { if (chosen >= 0) location.href = `/thing/${encodeURIComponent(nodes[chosen][0])}`; });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    isTouched = true;
    view.scale = Math.min(6, Math.max(0.05, view.scale * Math.exp(-event.deltaY / 400)));
    redraw();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way) {
      event.preventDefault();
      if (chosen < 0) { choose(labelled[0] ?? 0); return; }
      const known = beside[chosen].map(([other]) => other);
      const from = known.length ? known : nodes.map((_, i) => i);
      const ahead = from.filter((i) => i !== chosen && (x[i] - x[chosen]) * way[0] + (y[i] - y[chosen]) * way[1] > 0);
      const far = (i) => Math.hypot(x[i] - x[chosen], y[i] - y[chosen]) + 2 * Math.abs((x[i] - x[chosen]) * way[1] + (y[i] - y[chosen]) * way[0]);
      if (ahead.length) choose(ahead.reduce((best, i) => (far(i) < far(best) ? i : best)));
    } else if (event.key === "Enter" && chosen >= 0) location.href = `/thing/${encodeURIComponent(nodes[chosen][0])}`;
    else if (event.key === "+" || event.key === "-") { view.scale *= event.key === "+" ? 1.25 : 0.8; redraw(); }
    else if (event.key === "Escape") { choose(-1); fit(); view.x = view.y = 0; redraw(); }
  });
  new ResizeObserver(() => { width = canvas.clientWidth; height = canvas.clientHeight; redraw(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { styles = new Map(); redraw(); });
  // A few rounds a frame: a person drags, zooms and walks from the first one on.
  let round = 0;
  function move() {
    const until = performance.now() + FRAME_MS;
    while (round < ROUNDS && performance.now() < until) settle(round++);
    if (!isTouched) fit();
    redraw();
    if (round < ROUNDS) requestAnimationFrame(move);
  }
  canvas.addEventListener("pointerdown", () => { isTouched = true; });
  canvas.addEventListener("keydown", () => { isTouched = true; });
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) while (round < ROUNDS) settle(round++);
  fit();
  draw();
  if (round < ROUNDS) requestAnimationFrame(move);
}

if (walk) {
  const answer = await fetch(walk.dataset.graph).catch(() => null);
  const drawn = answer?.ok ? await answer.json() : { nodes: [] };
  if (drawn.edges?.length) {
    walk.hidden = false;
    begin(related(drawn));
    walk.dataset.drawn = String(Math.round(performance.now()));
  }
}

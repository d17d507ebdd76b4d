// Plays what panels.js has drawn, step by step.
(() => {
const $ = (id) => document.getElementById(id);
const last = data.stops.length - 1;
if (data.sides.length === 0) return;

const seconds = (stop) => data.stops[Math.min(stop, last)];

// Coloured fields, a place for each rank.
const fields = (times) => {
  const width = 100 / times.length;
  const parts = [];
  for (let r = 0; r < times.length; ++r) {
    const colour = times[r] === "0" ? "transparent" : "var(--r" + r + ")";
    parts.push(colour + " " + r * width + "% " + (r + 1) * width + "%");
  }
  return "linear-gradient(to right," + parts.join(",") + ")";
};

const makeCell = () => {
  const element = make("span", "cell");
  const value = make("b"), who = make("i"), bar = make("u");
  element.append(value, who, bar);
  element.show = (cell) => {
    if (element.cell === cell) return;
    element.cell = cell;
    const [text, contributors, times] = cell < 0 ? ["?", "", ""] : data.cells[cell];
    value.textContent = text;
    who.textContent = contributors === "nobody" ? "\u2013" : contributors;
    who.hidden = contributors === "";
    bar.style.background = times === "" ? "none" : fields(times);
    element.title = text + (times ? ", contributions of " + contributors : ", " + contributors);
  };
  return element;
};

class Side {
  constructor(source, index) {
    this.source = source;
    this.index = index;
    this.section = $("side" + index);
    this.stage = this.section.querySelector(".stage");
    this.arcs = draw("svg", {"class": "arcs", "aria-hidden": "true"});
    this.stage.append(this.arcs);
    this.rows = [];
    for (let r = 0; r < source.ranks.length; ++r) this.rows.push(this.makeRow(r));
    this.cursor = this.section.querySelector(".cursor");
    this.list = [...this.section.querySelectorAll(".messages tr[data-first]")];
    this.counts = {};
    for (const count of this.section.querySelectorAll("[data-count]")) this.counts[count.dataset.count] = count;
    this.sent = source.events.filter((event) => event.kind === "s");
    this.allBytes = this.sent.reduce((sum, event) => sum + event.bytes, 0);
    this.totalTime = this.counts.time.textContent;
    const wrong = source.is_library ? [] : data.wrong;
    this.wrong = new Map(wrong.map(([buffer, rank, place, expected]) => [[buffer, rank, place].join(), expected]));
  }

  makeRow(rank) {
    const row = make("div", "rank");
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "rank " + rank);
    const name = make("div", "name", "rank " + rank);
    if (rank === this.source.root) name.append(make("small", "", "root"));
    const memory = make("div", "memory");
    const buffers = this.source.buffers.map((buffer) => {
      const line = make("div", "buffer");
      line.place = make("div");
      line.append(make("em", "", buffer.name), line.place);
      line.cells = [];
      memory.append(line);
      return line;
    });
    const state = make("div", "state");
    row.append(name, memory, state);
    this.stage.append(row);
    return {row, state, buffers};
  }

  // What every buffer holds at `step`, and what has just changed.
  memoryAt(step) {
    const held = this.source.buffers.map((buffer) => buffer.initial.map((cells) => [...cells]));
    const fresh = new Set();
    for (const [at, rank, buffer, offset, replaces, cells] of this.source.changes) {
      if (at > step) break;
      const line = held[buffer][rank];
      if (replaces) line.length = 0;
      while (line.length < offset) line.push(-1);
      cells.forEach((cell, i) => {
        if (at === step && (line[offset + i] !== cell || replaces)) fresh.add([buffer, rank, offset + i].join());
        line[offset + i] = cell;
      });
    }
    return {held, fresh};
  }

  showMemory(step) {
    const {held, fresh} = this.memoryAt(step);
    held.forEach((ranks, buffer) => ranks.forEach((cells, rank) => {
      const line = this.rows[rank].buffers[buffer];
      line.hidden = cells.length === 0;
      while (line.cells.length < cells.length) {
        const cell = makeCell();
        line.cells.push(cell);
        line.place.append(cell);
      }
      line.cells.forEach((element, i) => {
        element.hidden = i >= cells.length;
        element.style.display = element.hidden ? "none" : "";
        if (element.hidden) return;
        const key = [buffer, rank, i].join();
        element.show(cells[i]);
        element.classList.toggle("new", fresh.has(key));
        const expected = step === last ? this.wrong.get(key) : undefined;
        element.classList.toggle("bad", expected !== undefined);
        if (expected !== undefined) element.title += "; should be " + data.cells[expected][0] + " of " + data.cells[expected][1];
      });
    }));
  }

  isNow(event, step) { return event.first <= step && step < event.last; }

  // Each rank's state, in words; returns them for those who listen.
  showStates(step) {
    const words = this.rows.map(() => []);
    for (const event of this.source.events) {
      if (event.first > step) break;
      if (!this.isNow(event, step)) continue;
      const {kind, rank} = event;
      const whom = nameOf(event.peer);
      if (kind === "s") words[rank].push(["s", "sends to " + whom + (event.text ? " (" + event.text + ")" : "")]);
      if (kind === "r") words[rank].push(["r", "receives from " + whom]);
      if (kind === "a") words[rank].push(["a", "adds"]);
      if (kind === "w") words[rank].push(["w", "waits for " + whom + (event.end === Infinity ? ", for ever" : "") +
                                          (event.text ? " (" + event.text + ")" : "")]);
    }
    const now = seconds(step);
    words.forEach((list, rank) => {
      const {finish} = this.source.ranks[rank];
      const moves = list.some(([kind]) => kind !== "w");
      let shown = moves ? list.filter(([kind]) => kind !== "w") : list;
      if (shown.length === 0 && finish <= now * (1 + 1e-9)) shown = [["d", "done"]];
      const state = this.rows[rank].state;
      state.replaceChildren(...shown.map(([kind, text]) => make("span", kind, text)));
    });
    return words.map((list, rank) => list.length ? rank + " " + list.map(([, text]) => text).join(" and ") : "")
        .filter((text) => text).join("; ");
  }

  showCounts(step) {
    const under = this.sent.filter((event) => event.first <= step);
    const bytes = under.reduce((sum, event) => sum + event.bytes, 0);
    this.counts.messages.textContent = under.length + " of " + this.sent.length;
    this.counts.bytes.textContent = bytesText(bytes) + (bytes < this.allBytes ? " of " + bytesText(this.allBytes) : "");
    const end = Math.max(0, ...this.source.ranks.map((rank) => rank.finish));
    const now = Math.min(seconds(step), end);
    this.counts.time.textContent = end === Infinity && step < last ? timeText(now)
        : now < end && end !== Infinity ? timeText(now) + " of " + this.totalTime : this.totalTime;
    for (const row of this.list) {
      row.classList.toggle("now", Number(row.dataset.first) <= step && step < Number(row.dataset.last));
    }
  }

  // Arrows of what is under way, and of waits that never end.
  showArcs(step) {
    const width = this.arcs.clientWidth || 74;
    this.arcs.replaceChildren();
    this.parcels = [];
    const middle = (rank) => this.rows[rank].row.offsetTop + this.rows[rank].row.offsetHeight / 2;
    for (const event of this.source.events) {
      if (event.first > step) break;
      const isStuck = event.kind === "w" && event.end === Infinity && event.peer >= 0;
      if (!this.isNow(event, step) || (event.kind !== "s" && !isStuck)) continue;
      const {rank: from, peer: to} = event;
      const down = to > from;
      const shift = down ? 5 : -5;
      const share = Math.abs(to - from) / Math.max(1, this.source.ranks.length - 1);
      const bend = (width - 8) * (0.35 + 0.85 * share) * (down ? 1 : 0.85) * 1.25;
      const right = width - 2, y1 = middle(from) + shift, y2 = middle(to) - shift;
      const path = draw("path", {
        "class": isStuck ? "arc stuck" : "arc",
        d: `M${right - 4} ${y1}C${right - bend} ${y1} ${right - bend} ${y2} ${right - 2} ${y2}`,
        "marker-end": isStuck ? "url(#stuck)" : "url(#go)"});
      this.arcs.append(path);
      if (isStuck || event.end === Infinity) continue;
      const parcel = draw("circle", {"class": "parcel", r: 5});
      this.arcs.append(parcel);
      this.parcels.push({parcel, path, length: path.getTotalLength(), begin: event.begin, end: event.end});
    }
  }

  // `time` is virtual, in seconds, and may lie between two stops.
  move(time) {
    for (const {parcel, path, length, begin, end} of this.parcels) {
      const share = end > begin ? Math.min(1, Math.max(0, (time - begin) / (end - begin))) : 1;
      const point = path.getPointAtLength(share * length);
      parcel.setAttribute("cx", point.x);
      parcel.setAttribute("cy", point.y);
    }
    set(this.cursor, {x1: xOf(time), x2: xOf(time)});
  }

  show(step) {
    this.showMemory(step);
    this.showCounts(step);
    const words = this.showStates(step);
    this.showArcs(step);
    this.move(seconds(step));
    return this.source.title + ": " + (words || "nothing under way");
  }
}

const sides = data.sides.map((source, index) => new Side(source, index));
const slider = $("slider");
let step = 0, timer = 0, since = 0;

const show = (wanted, isQuiet) => {
  step = Math.max(0, Math.min(last, wanted));
  slider.value = step;
  const text = "step " + step + " of " + last + ", " + timeText(seconds(step));
  $("where").textContent = text;
  slider.setAttribute("aria-valuetext", text);
  const said = sides.map((side) => side.show(step)).join(". ");
  if (!isQuiet) $("said").textContent = text + ". " + said;
};

const stop = () => {
  cancelAnimationFrame(timer);
  timer = 0;
  $("run").textContent = "Play";
  $("run").setAttribute("aria-label", "play");
};
const stepTo = (wanted) => {
  stop();
  show(wanted);
};
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const frame = (now) => {
  const share = (now - since) * Number($("speed").value) / 1100;
  if (share >= 1) {
    since = now;
    show(step + 1, step + 1 < last);
    if (step === last) return stop();
  } else if (!isStill.matches) {
    const time = seconds(step) + share * (seconds(step + 1) - seconds(step));
    for (const side of sides) side.move(time);
  }
  timer = requestAnimationFrame(frame);
};
const play = () => {
  if (timer) return stop();
  if (step === last) show(0, true);
  since = performance.now();
  $("run").textContent = "Stop";
  $("run").setAttribute("aria-label", "stop");
  timer = requestAnimationFrame(frame);
};

slider.max = last;
slider.addEventListener("input", () => stepTo(Number(slider.value)));
$("first").addEventListener("click", () => stepTo(0));
$("back").addEventListener("click", () => stepTo(step - 1));
$("next").addEventListener("click", () => stepTo(step + 1));
$("end").addEventListener("click", () => stepTo(last));
$("run").addEventListener("click", play);
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const target = event.target;
  const moves = {ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: last};
  if (event.key === " " && !target.closest("button,select,summary")) {
    play();
  } else if (event.key in moves && !target.closest("input,select")) {
    stepTo(moves[event.key]);
  } else {
    return;
  }
  event.preventDefault();
});
new ResizeObserver(() => {
  for (const side of sides) {
    side.showArcs(step);
    side.move(seconds(step));
  }
}).observe(document.querySelector(".sides"));

$("controls").hidden = false;
const asked = /^#step=(\d+)$/.exec(location.hash);
show(asked ? Number(asked[1]) : 0, true);
})();

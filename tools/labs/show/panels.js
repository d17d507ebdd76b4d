// Draws the panel of each side from what stands in #data: the verdict, figures, ranks over time, and tables. script.js
// plays them. Texts of a submission go to the page as text nodes only.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

const set = (element, attributes) => {
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return element;
};
const make = (tag, name, ...content) => {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...content);
  return element;
};
const draw = (tag, attributes, ...content) => {
  const element = set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
  element.append(...content);
  return element;
};
const three = (value) => String(Number(value.toPrecision(3)));
const timeText = (s) => s === Infinity ? "never" : s === 0 ? "0"
    : s < 1e-3 ? three(s * 1e6) + " us" : s < 1 ? three(s * 1e3) + " ms" : three(s) + " s";
const bytesText = (n) => n < 1024 ? three(n) + " B" : n < 1048576 ? three(n / 1024) + " KiB" : three(n / 1048576) + " MiB";
const nameOf = (peer) => peer < 0 ? "anybody" : String(peer);
const cellText = (cell) => {
  if (cell < 0) return "nothing";
  const [value, who] = data.cells[cell];
  return who ? value + " (of " + who + ")" : value;
};

// JSON has no infinity: a time that is null never comes.
for (const side of data.sides) {
  side.events = side.events.map(([kind, rank, peer, bytes, first, last, begin, end, text, tag, carries]) =>
    ({kind, rank, peer, bytes, first, last, begin, end: end ?? Infinity, text, tag, carries}));
  for (const rank of side.ranks) rank.finish = rank.finish ?? Infinity;
}

// --- The verdict: what is wrong with a run. ---

const warning = (sentence, why) => make("p", "warning", make("b", "", sentence), why ? " " + why : "");

// How many of the waits, which begin with the cycle's in its order, are the cycle; 0 if there is none.
const cycleLength = (waits) => {
  for (let i = 0; i < waits.length; ++i) {
    if (waits[i].peer === waits[0].rank) return i + 1;
    if (i + 1 < waits.length && waits[i].peer !== waits[i + 1].rank) return 0;
  }
  return 0;
};

// The ranks of the cycle on a circle, each with an arrow to the one it waits for.
const cyclePicture = (cycle) => {
  const middle = 100, radius = 70, ball = 17;
  const points = cycle.map((_, i) => {
    const angle = 2 * Math.PI * i / cycle.length - Math.PI / 2;
    return [middle + radius * Math.cos(angle), middle + radius * Math.sin(angle)];
  });
  const arrows = points.map(([ax, ay], i) => {
    const [bx, by] = points[(i + 1) % points.length];
    const length = Math.hypot(bx - ax, by - ay);
    const ux = (bx - ax) / length, uy = (by - ay) / length;
    const bend = 0.22 * length;  // to the right, so that there and back do not lie on each other
    return draw("path", {
      "class": "stuck-line", "marker-end": "url(#stuck)",
      d: `M${ax + ux * ball - uy * 6} ${ay + uy * ball + ux * 6}` +
         `Q${(ax + bx) / 2 - uy * bend} ${(ay + by) / 2 + ux * bend} ` +
         `${bx - ux * (ball + 3) - uy * 6} ${by - uy * (ball + 3) + ux * 6}`});
  });
  const balls = points.flatMap(([x, y], i) => [
    draw("circle", {"class": "ball", cx: x, cy: y, r: ball}),
    draw("text", {"class": "tick mid", x, y: y + 4}, String(cycle[i].rank))]);
  return draw("svg", {"class": "cycle", viewBox: "0 0 200 200", role: "img",
                      "aria-label": "the cycle of ranks that wait for each other"}, ...arrows, ...balls);
};

const deadlockBox = (side) => {
  const size = cycleLength(side.deadlock);
  const why = size > 0 ? "These ranks wait for each other, and none of them can go on:"
      : "These ranks wait for what no rank will do:";
  const list = make("ol", "", ...side.deadlock.map((wait, i) => make(
    "li", "", make("b", "", wait.rank + " waits for " + nameOf(wait.peer)),
    wait.text ? make("span", "", " in " + wait.text) : "",
    size === 0 || i < size ? "" : make("span", "", " (not in the cycle)"))));
  const words = make("div", "", make("p", "", make("b", "", "Deadlock."), " " + why));
  // Without a cycle the referee's own sentence knows more: which ranks have returned already.
  if (size === 0) words.append(make("p", "", side.explanation));
  words.append(list);
  const box = make("div", "warning deadlock", words);
  if (size >= 2 && size <= side.ranks.length) box.append(cyclePicture(side.deadlock.slice(0, size)));
  return box;
};

const mostDifferences = 8;
const differenceBox = (side) => {
  const items = data.wrong.slice(0, mostDifferences).map(([buffer, rank, place, expected, found]) => make(
    "li", "", `rank ${rank}, ${side.buffers[buffer].name}[${place}]: ${cellText(found)}, and should be ${cellText(expected)}`));
  if (data.wrong.length > mostDifferences) items.push(make("li", "", `and ${data.wrong.length - mostDifferences} more`));
  return make("div", "warning",
    make("p", "", "At the end these elements are not what they should be; the player marks them with \u201c\u2260\u201d:"),
    make("ul", "", ...items));
};

const verdict = (side, isCompared) => {
  if (side.outcome === "deadlock") return [deadlockBox(side)];
  if (side.outcome === "failed") return [warning("The run did not come to its end.", side.explanation)];
  const differs = isCompared && data.wrong.length > 0;
  if (side.outcome === "right" && !differs) return [];
  return [warning(differs ? "The result is wrong." : "The elements are right, and yet it is wrong:", side.explanation),
          ...(differs ? [differenceBox(side)] : [])];
};

// --- Figures of the whole run. ---

const tile = (name, value, what) => {
  const figure = make("b", "", value);
  if (name) figure.dataset.count = name;
  return make("div", "tile", figure, make("span", "", what));
};

const tiles = (side) => {
  const isStuck = side.outcome === "deadlock";
  const sent = side.events.filter((event) => event.kind === "s");
  const list = [tile("messages", String(sent.length), "messages"),
                tile("bytes", bytesText(sent.reduce((sum, event) => sum + event.bytes, 0)), "sent by all ranks"),
                tile("time", isStuck ? "never done" : timeText(side.end), "of virtual time")];
  if (side.bound > 0 && side.end > 0) {
    const ratio = side.end / side.bound;
    const times = isStuck ? "" : ratio < 1.005 ? "; this run is as fast" : `; this run takes ${three(ratio)} times that`;
    list.push(tile("", timeText(side.bound), "no algorithm beats this" + times));
  }
  return make("div", "tiles small", ...list);
};

// --- Ranks as lanes, time to the right, messages as lines. ---

const until = (() => {
  const end = Math.max(0, ...data.sides.map((side) => side.end));
  const isEndless = data.sides.some((side) => side.events.some((event) => event.end === Infinity));
  return isEndless ? 1.2 * end || 1e-6 : end || 1;  // room for what goes on for ever
})();
const width = 640, left = 34, right = 614, lane = 26, upper = 6;
const xOf = (seconds) => left + Math.min(seconds, until) / until * (right - left);
const yOf = (rank) => upper + rank * lane;
const spanText = (event) => timeText(event.begin) + " to " + timeText(event.end);

// Sending is the upper part of a lane, receiving the lower one, adding the middle, waiting all of it.
const bars = {
  w: {name: "b-wait", y: 3, height: 20, says: (event) => "waits for " + nameOf(event.peer)},
  s: {name: "b-send", y: 3, height: 6, says: (event) => "sends to " + event.peer},
  r: {name: "b-recv", y: 17, height: 6, says: (event) => "receives from " + event.peer},
  a: {name: "b-add", y: 10, height: 6, says: () => "adds"},
};
const bar = (event) => {
  const {name, y, height, says} = bars[event.kind];
  const x = xOf(event.begin);
  const text = `rank ${event.rank} ${says(event)}, ${spanText(event)}` + (event.text ? ` (${event.text})` : "");
  return draw("rect", {"class": event.kind === "w" && event.end === Infinity ? name + " never" : name,
                       x, y: yOf(event.rank) + y, width: Math.max(xOf(event.end) - x, 0.5), height},
              draw("title", {}, text));
};
const flight = (event) => draw("line", {"class": "flight", x1: xOf(event.begin), y1: yOf(event.rank) + lane / 2,
                                        x2: xOf(event.end), y2: yOf(event.peer) + lane / 2});

// A mark at each 1, 2 or 5 times a power of ten, about five of them.
const timeAxis = (bottom) => {
  const power = 10 ** Math.floor(Math.log10(until / 5));
  const step = power * [1, 2, 5, 10].find((times) => until / 5 <= times * power * 1.0000001);
  const marks = [];
  for (let mark = 0; mark <= until * 1.0001; mark += step) {
    const x = xOf(mark);
    marks.push(draw("line", {"class": "grid", x1: x, x2: x, y1: upper, y2: bottom}),
               draw("text", {"class": "tick mid", x, y: bottom + 16}, timeText(mark)));
  }
  return marks;
};

const scrolling = (label, body) =>
  set(make("div", "scroll", body), {tabindex: 0, role: "region", "aria-label": label});
const figure = (caption, ...content) => make("figure", "", make("figcaption", "", caption), ...content);

const spaceTime = (side) => {
  const bottom = yOf(side.ranks.length);
  const svg = draw("svg", {
    "class": "spacetime", viewBox: `0 0 ${width} ${bottom + 24}`, role: "img",
    "aria-label": `What each rank of ${side.title} does over time; the table of messages says the same`});
  svg.append(...timeAxis(bottom));
  side.ranks.forEach((_, rank) => svg.append(
    draw("rect", {"class": "lane", x: left, y: yOf(rank) + 3, width: right - left, height: 20}),
    draw("text", {"class": "tick end", x: left - 8, y: yOf(rank) + lane / 2 + 4}, String(rank))));
  const waits = side.events.filter((event) => event.kind === "w");
  const others = side.events.filter((event) => event.kind !== "w");
  const arrived = side.events.filter((event) => event.kind === "s" && event.end < Infinity);
  svg.append(...waits.map(bar), ...others.map(bar), ...arrived.map(flight),
             draw("line", {"class": "cursor", x1: left, x2: left, y1: 0, y2: bottom}));
  const legend = [["k-send", "sends (upper)"], ["k-add", "adds (middle)"], ["k-recv", "receives (lower)"],
                  ["k-wait", "waits (hatched)"]];
  return figure("Ranks over time",
    make("ul", "legend", ...legend.map(([key, text]) => make("li", "", make("span", "key box " + key), text))),
    scrolling("ranks over time", svg));
};

// --- Tables. ---

const table = (name, heads, rows) => make("table", name,
  make("tr", "", ...heads.map((head) => head ? set(make("th", "", head), {scope: "col"}) : make("th", "wide"))), ...rows);
const cells = (texts) => texts.map((text) => make("td", "", text));

const rankTable = (side) => {
  const longest = Math.max(...side.ranks.map((rank) => rank.waiting));
  const rows = side.ranks.map((rank, number) => {
    const isStuck = rank.finish === Infinity;
    const length = make("span", "bar w-bar");
    length.style.width = (isStuck ? 100 : longest > 0 ? 100 * rank.waiting / longest : 0) + "%";
    return make("tr", "", set(make("th", "", String(number)), {scope: "row"}),
      ...cells([isStuck ? "for ever" : timeText(rank.waiting), timeText(rank.finish), String(rank.sent),
                String(rank.received), bytesText(rank.bytes)]),
      make("td", "wide", length));
  });
  return figure("Each rank: how long it waits, and its messages", scrolling("figures of each rank",
    table("plain bars", ["rank", "waits", "done after", "sent", "received", "bytes sent", ""], rows)));
};

const mostRows = 400;
const carried = (event) => {
  if (event.carries.length === 0) return event.bytes === 0 ? "nothing" : "not known";
  return event.carries.map(cellText).join(", ") + (event.bytes > event.carries.length * 8 ? ", ..." : "");
};
const messageList = (side) => {
  const sent = side.events.filter((event) => event.kind === "s");
  if (sent.length === 0) return make("p", "absent", "No message was sent.");
  const rows = sent.slice(0, mostRows).map((event) => {
    const row = make("tr", "", ...cells([spanText(event), `${event.rank} \u2192 ${event.peer}`,
      event.tag === 0 ? "" : String(event.tag), bytesText(event.bytes),
      carried(event) + (event.text ? "; " + event.text : "")]));
    row.dataset.first = event.first;
    row.dataset.last = event.last;
    return row;
  });
  const list = make("details", "messages",
    make("summary", "", `All ${sent.length} ${sent.length === 1 ? "message" : "messages"} as a list`),
    scrolling("list of messages", table("plain", ["time", "from, to", "tag", "bytes", "carries"], rows)));
  if (sent.length > mostRows) list.append(make("p", "small-text", `and ${sent.length - mostRows} more`));
  return list;
};

data.sides.forEach((side, index) => {
  const title = make("h2", "", side.title);
  title.id = `side${index}-title`;
  const panel = set(make("section", "",
    make("p", "kicker", side.is_library ? "The library" : "Your submission"), title, ...verdict(side, !side.is_library),
    tiles(side), ...side.remarks.map((remark) => make("p", "small-text", remark)),
    make("div", "stage"), spaceTime(side), rankTable(side), messageList(side)), {"aria-labelledby": title.id});
  panel.id = "side" + index;
  document.querySelector(".sides").append(panel);
});

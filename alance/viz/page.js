
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("records").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = {
    listing: "listing", manifest: "manifest", footers: "footers", "page tables": "pages",
    rows: "rows", scan: "scan", "late columns": "late", deletions: "deletions", "row ids": "deletions",
    blobs: "listing", writes: "late", decode: "cpu",
  };
  const PAD = 5, MIN = 2;
  // Height of a lane and of its bar: many requests at once are drawn thinner.
  const sizes = (lanes) => (lanes > 90 ? [5, 4] : lanes > 24 ? [9, 6] : [14, 10]);

  // Texts are users' data: they become text nodes and attributes, never markup.
  function make(tag, attributes, ...children) {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) found.setAttribute(name, value);
    found.append(...children.map(String)); // strings become text nodes
    return found;
  }
  function shape(tag, attributes, parent) {
    const found = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    parent.append(found);
    return found;
  }
  const colour = (group) => `--c: var(--${COLOURS[group] || "other"})`;
  const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  const ms = (n) => (n >= 1000 ? `${(n / 1000).toFixed(2)} s` : `${n.toFixed(n < 10 ? 2 : 1)} ms`);
  function bytes(n) {
    for (const unit of ["B", "KB", "MB", "GB"]) {
      if (n < 1000 || unit === "GB") return `${n.toFixed(n < 10 && unit !== "B" ? 1 : 0)} ${unit}`;
      n /= 1000;
    }
  }
  const share = (part, all) => (all ? `${Math.round((100 * part) / all)} %` : "0 %");

  // Header
  const totals = data.totals;
  document.title = data.title;
  $("title").textContent = data.title;
  $("made").textContent = `Written ${data.made}`;
  function tile(name, value, small, bad) {
    const box = make("div", bad ? { class: "bad" } : {});
    const number = make("dd", {}, value);
    if (small) number.append(make("small", {}, small));
    box.append(make("dt", {}, name), number);
    $("totals").append(box);
  }
  tile("Requests", totals.requests.toLocaleString("en"), `to ${count(totals.objects, "object")}`);
  tile("Rounds", totals.rounds, "one after the other");
  tile("Time", ms(totals.ms), "first request to last byte");
  tile("Bytes", bytes(totals.bytes), `${share(totals.wasted, totals.bytes)} nobody asked for`);
  if (totals.hops) tile("Decoding", ms(totals.hop_ms), `processor time, ${count(totals.hops, "piece")}`);
  for (const [name, hits, looks] of totals.looks) {
    if (!hits && name !== "search cache") continue;
    tile(name[0].toUpperCase() + name.slice(1), share(hits, looks), `found ${hits.toLocaleString("en")} of ${looks.toLocaleString("en")}`);
  }
  if (totals.failed || totals.retries) tile("Failed", totals.failed, count(totals.retries, "retry").replace("retrys", "retries"), true);

  // Bars: grouped by object, in lanes so that none covers another
  const bars = data.bars.map((one, number) => ({ ...one, number, isHop: false }));
  for (const hop of data.hops) {
    bars.push({ ...hop, kind: "cpu", group: "decode", isHop: true, bytes: 0, wasted: 0, columns: [], callers: [], head: null });
  }
  const groups = new Map();
  for (const bar of bars) {
    const key = bar.isHop ? "cpu " + bar.object : "get " + bar.object;
    if (!groups.has(key)) groups.set(key, { name: bar.object, isHop: bar.isHop, bars: [], lanes: [] });
    groups.get(key).bars.push(bar);
  }
  const last = Math.max(1e-3, ...bars.map((bar) => bar.ended));
  let view = [0, last];
  const shown = [];

  function short(name, isHop) {
    if (isHop) return name;
    const parts = name.split("/").filter(Boolean);
    const file = parts.pop() || name;
    return file.length > 28 ? `${file.slice(0, 11)}…${file.slice(-15)}` : file;
  }

  function hatch() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("style", "position:absolute;width:0;height:0");
    svg.setAttribute("aria-hidden", "true");
    const defs = shape("defs", {}, svg);
    const pattern = shape("pattern", { id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, defs);
    shape("rect", { width: 1.6, height: 4, fill: "rgb(255 255 255 / .55)" }, pattern);
    document.body.append(svg);
  }

  function label(bar) {
    const what = bar.isHop ? bar.for : `${bar.kind} ${bar.for}, ${bytes(bar.bytes)}`;
    return `${what}, ${bar.object}, from ${ms(bar.sent)} to ${ms(bar.ended)}${bar.ok ? "" : ", failed"}`;
  }

  function build() {
    hatch();
    for (const group of groups.values()) {
      for (const bar of group.bars) {
        let lane = group.lanes.findIndex((free) => free <= bar.queued);
        if (lane < 0) lane = group.lanes.length;
        group.lanes[lane] = bar.ended;
        bar.lane = lane;
      }
      const row = make("div", { class: "group" });
      const name = make("div", { class: "name", title: group.name });
      const sum = group.bars.reduce((all, bar) => all + bar.bytes, 0);
      const words = make("div");
      words.append(
        make("span", {}, short(group.name, group.isHop)),
        make("small", {}, group.isHop ? count(group.bars.length, "piece") : `${count(group.bars.length, "request")}, ${bytes(sum)}`),
      );
      name.append(words);
      const track = make("div", { class: "track" });
      const svg = document.createElementNS(SVG, "svg");
      const [lane, thick] = sizes(group.lanes.length);
      const height = Math.max(group.lanes.length * lane + 2 * PAD, 42);
      svg.setAttribute("height", height);
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", group.name);
      track.append(svg);
      row.append(name, track);
      $("rows").append(row);
      for (const bar of group.bars) {
        const y = PAD + bar.lane * lane;
        const found = shape("g", { class: bar.ok ? "bar" : "bar failed", style: colour(bar.group), tabindex: -1, role: "img", "aria-label": label(bar) }, svg);
        bar.parts = {};
        if (bar.sent > bar.queued) bar.parts.wait = shape("rect", { class: "wait", y, height: thick }, found);
        bar.parts.run = shape("rect", { class: "run", y, height: thick, rx: 1.5 }, found);
        if (bar.head !== null) bar.parts.head = shape("rect", { class: "head", y, height: thick }, found);
        if (bar.wasted) bar.parts.waste = shape("rect", { class: "waste", y: y + thick - (lane < 9 ? 1 : 0), height: lane < 14 ? 1 : 2 }, found);
        bar.parts.ring = shape("rect", { class: "ring", y: y - 1, height: thick + 2, rx: 2 }, found);
        bar.element = found;
        found.bar = bar;
        if (!bar.isHop) found.setAttribute("data-request", bar.number);
        bar.text = [bar.object, bar.kind, bar.for, bar.group, ...bar.columns, ...bar.callers].join("\n").toLowerCase();
        shown.push(bar);
      }
    }
    if (shown.length) shown[0].element.setAttribute("tabindex", 0);
    else $("rows").append(make("p", { style: "padding: 0 14px" }, "No requests."));
    data.waves.forEach(() => $("waves").append(make("i")));
  }

  function place(part, begin, end, scale, least) {
    part.setAttribute("x", Math.max(-4, (begin - view[0]) * scale));
    const from = Math.max(begin, view[0] - 4 / scale);
    part.setAttribute("width", Math.max(least, (Math.min(end, view[1] + 4 / scale) - from) * scale));
  }

  function draw() {
    const width = Math.max(50, $("ticks").clientWidth);
    const scale = width / (view[1] - view[0]);
    for (const bar of shown) {
      const inside = bar.ended >= view[0] && bar.queued <= view[1];
      bar.element.style.display = inside ? "" : "none";
      if (!inside) continue;
      const { run, wait, head, waste, ring } = bar.parts;
      place(run, bar.sent, bar.ended, scale, MIN);
      if (wait) place(wait, bar.queued, bar.sent, scale, 0);
      if (head) place(head, bar.sent, bar.head, scale, 0);
      if (waste) place(waste, bar.sent, bar.sent + ((bar.ended - bar.sent) * bar.wasted) / Math.max(1, bar.bytes), scale, 0);
      place(ring, bar.queued, bar.ended, scale, MIN + 2);
    }
    const bands = $("waves").children;
    const ticks = $("ticks");
    ticks.replaceChildren();
    data.waves.forEach(([begin, end], number) => {
      const left = (begin - view[0]) * scale, size = (end - begin) * scale;
      bands[number].setAttribute("style", `left:${left}px;width:${size}px`);
      if (left + size < 0 || left > width || size < 24) return;
      const name = size > 60 ? `round ${number + 1}` : number + 1;
      ticks.append(make("b", { style: `left:${Math.max(0, left)}px;max-width:${size}px` }, name));
    });
    const wanted = ((view[1] - view[0]) * 90) / width;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
    for (let at = Math.ceil(view[0] / step) * step; (at - view[0]) * scale < width - 48; at += step) {
      const digits = step < 1 ? Math.ceil(-Math.log10(step)) : 0;
      ticks.append(make("span", { style: `left:${(at - view[0]) * scale}px` }, `${at.toFixed(digits)} ms`));
    }
  }

  function zoom(factor, middle) {
    const centre = middle === undefined ? (view[0] + view[1]) / 2 : middle;
    look(centre - (centre - view[0]) * factor, centre + (view[1] - centre) * factor);
  }
  function look(from, to) {
    const size = Math.min(last, Math.max(to - from, last / 1e5));
    from = Math.min(Math.max(0, from), last - size);
    view = [from, from + size];
    draw();
  }

  // Details of a bar
  const tip = $("tip");
  function details(bar) {
    const rows = bar.isHop
      ? [["waited", ms(bar.sent - bar.queued)], ["ran", ms(bar.ended - bar.sent)], ["at", ms(bar.sent)]]
      : [
          ["for", bar.for || "-"],
          ["request", bar.span[1] > bar.span[0] ? `${bar.kind}, bytes ${bar.span[0].toLocaleString("en")} to ${bar.span[1].toLocaleString("en")}` : bar.kind],
          ["received", `${bytes(bar.bytes)}${bar.wasted ? `, ${bytes(bar.wasted)} (${share(bar.wasted, bar.bytes)}) nobody asked for` : ""}`],
          ["sent at", ms(bar.sent)],
          ["waited before", bar.sent > bar.queued ? ms(bar.sent - bar.queued) : ""],
          ["first byte after", bar.head === null ? "" : ms(bar.head - bar.sent)],
          ["took", ms(bar.ended - bar.sent)],
          ["columns", bar.columns.join(", ")],
          ["callers", bar.shared > 1 ? `${bar.shared}: ${bar.callers.join(", ")}` : bar.callers.join("")],
          ["retries", bar.retries || ""],
        ];
    tip.replaceChildren(make("strong", {}, bar.object));
    const table = make("table");
    if (!bar.ok) rows.unshift(["failed", "nothing of it was used"]);
    for (const [name, value] of rows) {
      if (value === "") continue;
      const row = make("tr");
      row.append(make("th", {}, name), make("td", {}, value));
      table.append(row);
    }
    tip.append(table);
  }
  function show(bar, x, y) {
    details(bar);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 12) : y + 18}px`;
  }
  const hide = () => { tip.hidden = true; };
  const barOf = (event) => event.target.closest && event.target.closest(".bar");

  function listen() {
    const rows = $("rows");
    rows.addEventListener("pointermove", (event) => {
      const found = barOf(event);
      if (found && !picking) show(found.bar, event.clientX, event.clientY);
      else hide();
    });
    rows.addEventListener("pointerleave", hide);
    rows.addEventListener("focusin", (event) => {
      const found = barOf(event);
      if (!found) return;
      for (const bar of shown) bar.element.setAttribute("tabindex", -1);
      found.setAttribute("tabindex", 0);
      const box = found.getBoundingClientRect();
      show(found.bar, box.left, box.bottom - 12);
    });
    rows.addEventListener("focusout", hide);
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("input")) return;
      if (event.key === "Escape") hide();
      else if (event.key === "+" || event.key === "=") zoom(0.5);
      else if (event.key === "-") zoom(2);
      else if (event.key === "0") look(0, last);
      else step(event);
    });
    // Drag: zoom into what was picked
    let picking = null;
    const body = $("body"), mark = make("div", { id: "pick" });
    const at = (event) => {
      const box = $("ticks").getBoundingClientRect();
      const x = Math.min(Math.max(event.clientX, box.left), box.right) - box.left;
      return [x, view[0] + (x / box.width) * (view[1] - view[0])];
    };
    body.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.clientX >= $("ticks").getBoundingClientRect().left) picking = at(event);
    });
    addEventListener("pointermove", (event) => {
      if (!picking) return;
      const [x] = at(event), [from] = picking;
      if (Math.abs(x - from) < 4) return;
      $("waves").append(mark);
      mark.setAttribute("style", `left:${Math.min(x, from)}px;width:${Math.abs(x - from)}px`);
      event.preventDefault();
    });
    addEventListener("pointerup", (event) => {
      if (!picking) return;
      const [x, time] = at(event), [from, begin] = picking;
      picking = null;
      mark.remove();
      if (Math.abs(x - from) >= 4) look(Math.min(begin, time), Math.max(begin, time));
    });
    body.addEventListener("dblclick", () => look(0, last));
    $("chart").addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event)[1]);
    }, { passive: false });
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => {
        if (button.dataset.zoom === "all") look(0, last);
        else zoom(button.dataset.zoom === "in" ? 0.5 : 2);
      });
    }
    $("search").addEventListener("input", filter);
    addEventListener("resize", draw);
    $("list").addEventListener("toggle", list, { once: true });
  }

  // Arrow keys: left and right in time, up and down by object
  function step(event) {
    const found = barOf(event);
    const to = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!found || to === undefined) return;
    event.preventDefault();
    const near = shown.filter((bar) => bar.element.style.display !== "none" && !bar.element.classList.contains("gone"));
    let at = near.indexOf(found.bar);
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const own = found.parentNode;
      while (near[at + to] && near[at].element.parentNode === own) at += to;
    } else at += to;
    near[Math.min(Math.max(at, 0), near.length - 1)].element.focus();
  }

  const hidden = new Set();
  function filter() {
    const wanted = $("search").value.trim().toLowerCase();
    let matches = 0;
    for (const bar of shown) {
      const fits = !wanted || bar.text.includes(wanted);
      bar.element.classList.toggle("faint", !fits);
      bar.element.classList.toggle("gone", hidden.has(bar.group));
      if (fits && !bar.isHop && !hidden.has(bar.group)) matches += 1;
    }
    $("found").textContent = wanted ? `${matches} of ${totals.requests}` : "";
  }

  function legend() {
    const counts = new Map();
    for (const bar of shown) counts.set(bar.group, (counts.get(bar.group) || 0) + 1);
    for (const [group, number] of counts) {
      const button = make("button", { type: "button", "aria-pressed": "true", style: colour(group) }, `${group} ${number}`);
      button.addEventListener("click", () => {
        const off = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!off));
        if (off) hidden.add(group);
        else hidden.delete(group);
        filter();
      });
      $("legend").append(button);
    }
  }

  function list() {
    const head = ["sent", "took", "kind", "for", "object", "first byte", "bytes", "not asked for", "columns", "callers"];
    const table = make("table"), top = make("tr"), lines = make("tbody");
    for (const name of head) top.append(make("th", { scope: "col" }, name));
    const heading = make("thead");
    heading.append(top);
    for (const bar of bars) {
      if (bar.isHop) continue;
      const row = make("tr");
      const cells = [ms(bar.sent), ms(bar.ended - bar.sent), bar.kind, bar.for, bar.object, bar.span[0].toLocaleString("en"), bar.bytes.toLocaleString("en"), bar.wasted.toLocaleString("en"), bar.columns.join(", "), bar.callers.join(", ")];
      cells.forEach((cell, n) => row.append(make("td", [0, 1, 5, 6, 7].includes(n) ? { class: "n" } : {}, cell)));
      lines.append(row);
    }
    table.append(heading, lines);
    $("list").lastElementChild.append(table);
  }

  build();
  legend();
  listen();
  draw();
  document.body.setAttribute("data-drawn", "true");
})();

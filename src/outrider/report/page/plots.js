// Draws each plot when the page or the plot's fold opens, and again when its colours, legend or data change.
let plots = JSON.parse(document.getElementById("plots").textContent);
const coarse = matchMedia("(pointer: coarse)").matches;
const hiddenSeries = new Map(); // figure -> names of the series that the reader has hidden

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const finite = (value) => value !== null && value !== undefined;

// Escape HTML, since Plotly interprets some HTML tags in every text.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function digits(value) {
  if (typeof value !== "number") return plain(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

// Format a number of an axis; inPercent has already scaled shares to percent.
const along = (plot, axis, value) =>
  plot.percent.includes(axis) && typeof value === "number" ? `${digits(value)} %` : digits(value);

// Wrap a tooltip's text to at most six lines of 64 characters.
function folded(text) {
  const lines = String(text).split("\n").flatMap((line) => line.match(/.{1,64}(?=\s|$)|.{1,64}/gu) ?? [""]);
  if (lines.length > 6) lines.splice(6, lines.length, "…");
  return lines.map((line) => plain(line.trim())).join("<br>");
}

function tooltips(plot, series) {
  return series.y.map((y, i) => {
    if (!finite(y)) return "";
    const interval = finite(series.low?.[i]) && finite(series.high?.[i]);
    const name = plot.series.length > 1 || plot.kind === "points" ? `<b>${plain(series.name)}</b> ` : "";
    const at = plot.kind === "points" || plot.kind === "bars" ? `${along(plot, "x", series.x[i])}: ` : "";
    const range = interval ? ` (${along(plot, "y", series.low[i])} to ${along(plot, "y", series.high[i])})` : "";
    const more = series.hover?.[i] ? `<br>${folded(series.hover[i])}` : "";
    return `${name}${at}${along(plot, "y", y)}${range}${more}`;
  });
}

const dashes = ["solid", "dash", "dot", "dashdot"];
const symbols = ["circle", "diamond", "square", "triangle-up"];

function common(plot, series) {
  return {
    name: plain(series.name),
    x: series.x.map((x) => (typeof x === "string" ? plain(x) : x)),
    y: series.y,
    hovertext: tooltips(plot, series),
    hovertemplate: "%{hovertext}<extra></extra>",
  };
}

function errors(series, colour) {
  if (!series.low) return undefined;
  const { y, low, high } = series;
  const above = y.map((value, i) => (finite(value) && finite(high[i]) ? high[i] - value : null));
  const below = y.map((value, i) => (finite(value) && finite(low[i]) ? value - low[i] : null));
  const bars = { array: above, arrayminus: below };
  return { type: "data", symmetric: false, ...bars, color: colour, thickness: 1, width: 2 };
}

// Return a line's interval band as closed shapes, one for each range of points without a gap.
function band(series, colour) {
  const x = [], y = [];
  let start = 0;
  for (let i = 0; i <= series.x.length; i++) {
    if (i < series.x.length && finite(series.low[i]) && finite(series.high[i])) continue;
    if (i > start) {
      const backwards = (values) => values.slice(start, i).reverse();
      x.push(...series.x.slice(start, i), ...backwards(series.x), null);
      y.push(...series.high.slice(start, i), ...backwards(series.low), null);
    }
    start = i + 1;
  }
  const look = { mode: "lines", line: { width: 0, color: colour }, fill: "toself", fillcolor: `${colour}26` };
  return { type: "scatter", x, y, ...look, hoverinfo: "skip" };
}

// Half the window of the centred running mean. The window is a 20th of the series, or a 10th if the plot has more than
// two series. It is shorter at the ends, as in the picture of a run, and gaps stay gaps.
const half = (plot, points) => Math.floor(points / (plot.series.length > 2 ? 20 : 40));

function smooth(y, half) {
  const totals = [0], counts = [0];
  y.forEach((value, i) => {
    totals.push(totals[i] + (value ?? 0));
    counts.push(counts[i] + Number(finite(value)));
  });
  return y.map((value, i) => {
    const low = Math.max(i - half, 0), high = Math.min(i + half + 1, y.length);
    return finite(value) ? (totals[high] - totals[low]) / (counts[high] - counts[low]) : null;
  });
}

// A line of many points without intervals shows the steps of a run, whose noise hides the trend.
const noisy = (plot, series) => plot.kind === "line" && !series.low && series.y.filter(finite).length >= 60;

function lineTraces(plot, series, colour) {
  const dash = dashes[series.again % dashes.length];
  if (noisy(plot, series)) {
    const thin = { type: "scatter", mode: "lines", opacity: 0.35, line: { color: colour, width: 1 } };
    const thick = { type: "scatter", mode: "lines", line: { color: colour, width: 2, dash }, hoverinfo: "skip" };
    const steps = common(plot, series);
    return [{ ...steps, ...thin }, { x: steps.x, y: smooth(series.y, half(plot, series.y.length)), ...thick }];
  }
  const few = series.y.filter(finite).length <= 20;
  const alone = series.y.map((y, i) => finite(y) && !finite(series.y[i - 1]) && !finite(series.y[i + 1]));
  const size = few ? 6 : alone.map((is) => (is ? 5 : 0)); // a point between gaps is visible only as a marker
  const line = { color: colour, width: 2, dash };
  const marker = { color: colour, size, line: { width: 0 } };
  const mode = few || alone.some(Boolean) ? "lines+markers" : "lines";
  const trace = { ...common(plot, series), type: "scatter", mode, line, marker };
  return series.low ? [band(series, colour), trace] : [trace];
}

function pointTraces(plot, series, colour) {
  const marker = { color: colour, size: 8, opacity: 0.85, symbol: symbols[series.again % symbols.length] };
  return [{ ...common(plot, series), type: "scatter", mode: "markers", marker, error_y: errors(series, colour) }];
}

function barTraces(plot, series, colour) {
  const shared = common(plot, series);
  const bars = { ...shared, type: "bar", marker: { color: colour } };
  if (!lying(plot)) return [{ ...bars, error_y: errors(series, css("--muted")) }];
  return [{ ...bars, x: shared.y, y: shared.x, orientation: "h", error_x: errors(series, css("--muted")) }];
}

function stackTraces(plot, series, colour) {
  const shared = common(plot, series);
  if (shared.x.some((x) => typeof x === "string")) return [{ ...shared, type: "bar", marker: { color: colour } }];
  const line = { color: colour, width: 0.5 };
  return [{ ...shared, type: "scatter", mode: "lines", stackgroup: "all", line, fillcolor: `${colour}d9` }];
}

// Keep only points at which all shares of a stack are known, since shares with a missing part do not add up to 1.
function whole(plot) {
  if (plot.kind !== "stack") return plot;
  const known = plot.series[0].x.map((_, i) => plot.series.every((series) => finite(series.y[i])));
  const kept = (values) => values?.filter((_, i) => known[i]);
  return { ...plot, series: plot.series.map((s) => ({ ...s, x: kept(s.x), y: kept(s.y), hover: kept(s.hover) })) };
}

// Scale shares to percent, so that axes show "12 %" like the tables. Plotly's percent format would show "12%".
function inPercent(plot) {
  const scaled = (values, axis) =>
    plot.percent.includes(axis) ? values?.map((value) => (typeof value === "number" ? 100 * value : value)) : values;
  const series = plot.series.map((s) => {
    const [y, low, high] = [s.y, s.low, s.high].map((values) => scaled(values, "y"));
    return { ...s, x: scaled(s.x, "x"), y, low, high };
  });
  return { ...plot, series, yRange: scaled(plot.yRange, "y") };
}

const drawings = { line: lineTraces, points: pointTraces, bars: barTraces, stack: stackTraces };

function traces(plot, figure) {
  return plot.series.flatMap((series) => {
    const hidden = hiddenSeries.get(figure)?.has(series.name);
    const made = drawings[plot.kind](plot, series, css(`--${series.colour}`));
    return made.map((trace) => ({ ...trace, visible: !hidden, showlegend: false }));
  });
}

// Plots with many bars or long names have horizontal bars.
const names = (plot) => [...new Set(plot.series.flatMap((series) => series.x.map(String)))];
const long = (plot) => names(plot).length > 12 || names(plot).some((name) => name.length > 12);
const lying = (plot) => plot.kind === "bars" && long(plot);

function height(plot) {
  return lying(plot) ? Math.max(200, 70 + names(plot).length * (14 + 12 * plot.series.length)) : 300;
}

function axis(title) {
  return {
    title: { text: plain(title), standoff: 8, font: { size: 12, color: css("--muted") } },
    automargin: true,
    fixedrange: coarse,
    exponentformat: "power",
    gridcolor: css("--grid"),
    linecolor: css("--rule"),
    zerolinecolor: css("--rule"),
    tickfont: { size: 12, color: css("--muted") },
    nticks: 8,
  };
}

function axes(plot) {
  const ticks = { showgrid: false, showline: true, ticks: "outside", ticklen: 4, tickcolor: css("--rule") };
  const pointer = { spikecolor: css("--muted"), spikethickness: 1, spikedash: "solid" };
  const unit = plot.percent.includes("x") ? " %" : "";
  const title = { unifiedhovertitle: { text: `${plain(plot.x)} %{x:${unit ? ".3~r" : ",.6~r"}}${unit}` } };
  const x = { ...axis(plot.x), ...ticks, ...pointer, ...title, zeroline: false };
  const y = { ...axis(""), rangemode: plot.kind === "bars" ? "tozero" : "normal" };
  if (plot.yRange) y.range = plot.yRange;
  else if (plot.series.every((s) => !s.low && s.y.every((value) => !value))) y.range = [0, plot.percent.includes("y") ? 100 : 1]; // otherwise the axis would start at -1
  const values = [...new Set(plot.series.flatMap((series) => series.x))];
  if (values.some((value) => typeof value === "string")) Object.assign(x, { type: "category", ticks: "" });
  else if (Math.max(...values) >= 1e4) x.exponentformat = "SI"; // tokens: 20k, 0.4M
  else if (values.every(Number.isInteger) && Math.max(...values) - Math.min(...values) < 8) x.dtick = 1; // no tick at step 1.5
  if (plot.xLog) {
    x.type = "log";
    if (values.length <= 12) Object.assign(x, { tickvals: values, ticktext: values.map(digits) });
  }
  if (plot.percent.includes("x")) Object.assign(x, { ticksuffix: " %", nticks: 6 });
  if (plot.percent.includes("y")) y.ticksuffix = " %";
  if (!lying(plot)) return { xaxis: x, yaxis: y };
  const down = { autorange: "reversed", type: "category", showgrid: false, nticks: 0, ticklabelstandoff: 4 };
  const across = { ...axis(plot.y), range: plot.yRange ?? undefined, rangemode: "tozero" };
  if (plot.percent.includes("y")) across.ticksuffix = " %";
  return { xaxis: across, yaxis: { ...axis(""), ...down } };
}

function layout(plot) {
  const surface = css("--surface");
  const font = { family: css("--sans"), size: 12, color: css("--text") };
  const hover = { bgcolor: css("--raised"), bordercolor: css("--rule"), font, align: "left", namelength: -1 };
  return {
    ...axes(plot),
    height: height(plot),
    margin: { l: 12, r: 12, t: 10, b: 12 },
    paper_bgcolor: surface,
    plot_bgcolor: surface,
    font,
    hoverlabel: hover,
    hovermode: plot.kind === "line" || plot.kind === "stack" ? "x unified" : "closest",
    barmode: plot.kind === "stack" ? "stack" : "group",
    bargap: 0.35,
    dragmode: coarse ? false : "zoom", // on a touch screen, dragging scrolls the page
    uirevision: "kept", // keep the reader's zoom after an update
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--muted"), activecolor: css("--blue") },
  };
}

// The buttons are listed explicitly, since Plotly's default list has a button that uploads the data to Plotly's cloud.
function options(figure) {
  return {
    responsive: true,
    displaylogo: false,
    displayModeBar: coarse ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
    toImageButtonOptions: { filename: figure, scale: 2 },
  };
}

// Load Plotly's script (about 5 MB) only when the first plot is drawn, so that the findings are visible before.
function library() {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = document.getElementById("plotly").textContent;
  document.head.append(script);
}

function draw(element, width) {
  library();
  const figure = element.dataset.figure;
  const plot = inPercent(whole(plots[figure]));
  const drawing = plot.kind === "sets" ? sets(plot, figure) : { data: traces(plot, figure), layout: layout(plot) };
  Plotly.react(element, drawing.data, { ...drawing.layout, width }, options(figure));
  element.classList.add("drawn");
  element.dispatchEvent(new Event("drawn", { bubbles: true }));
}

const drawn = () => document.querySelectorAll(".plot.drawn");

// Add one legend button per series. A click hides or shows the series. A double click shows only this series or, if it
// is already the only one, all series.
function legend(element) {
  const figure = element.dataset.figure;
  const box = element.parentElement.querySelector(".legend");
  const series = plots[figure].series;
  box.replaceChildren();
  if (series.length < 2) return;
  const out = hiddenSeries.get(figure) ?? new Set();
  hiddenSeries.set(figure, out);
  const buttons = series.map((one) => {
    const swatch = document.createElement("i");
    swatch.className = `swatch ${one.colour} ${dashes[one.again % dashes.length]} ${plots[figure].kind}`;
    const button = document.createElement("button");
    button.type = "button";
    button.append(swatch, one.name);
    return button;
  });
  const show = () => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(!out.has(series[i].name))));
    if (element.classList.contains("drawn")) draw(element);
  };
  buttons.forEach((button, i) => {
    const name = series[i].name;
    button.addEventListener("click", () => {
      if (!out.delete(name)) out.add(name);
      show();
    });
    button.addEventListener("dblclick", () => {
      const alone = series.every((other) => (other.name === name) !== out.has(other.name));
      out.clear();
      if (!alone) series.forEach((other) => other.name !== name && out.add(other.name));
      show();
    });
  });
  box.append(...buttons);
  show();
}

// A plot in a closed fold has no size, so it is not drawn.
const inFold = (element) => element.closest("details:not([open])") !== null;
const waiting = new Set();

function drawNext() {
  const [element] = waiting;
  if (!element) return;
  waiting.delete(element);
  if (element.isConnected && !inFold(element) && !element.classList.contains("drawn")) draw(element);
  setTimeout(drawNext);
}

// Draw all plots outside closed folds, one after the other, so that the page stays responsive.
function drawOpen(part = document) {
  const idle = waiting.size === 0;
  part.querySelectorAll(".plot:not(.drawn)").forEach((element) => inFold(element) || waiting.add(element));
  if (idle) setTimeout(drawNext);
}

// Set the height of every plot, so that nothing moves when the plot is drawn, and add the legend.
function preparePlots() {
  for (const element of document.querySelectorAll(".plot")) {
    const plot = plots[element.dataset.figure];
    element.style.height = `${height(plot)}px`;
    const many = plot.series.filter((series) => noisy(plot, series)).map((series) => series.y.length);
    const window = 2 * half(plot, Math.max(...many)) + 1;
    if (many.length) element.parentElement.querySelector(".unit").append(` (thick: running mean of ${window})`);
    legend(element);
    if (element.classList.contains("drawn")) draw(element);
  }
  drawOpen();
}

// Redraw the plots after a change of colours. A plot in a closed fold is redrawn when the fold opens.
function redraw() {
  drawn().forEach((element) => (inFold(element) ? element.classList.remove("drawn") : draw(element)));
}

// Prepare for printing: light colours, all folds open except those of single rollouts, all plots drawn in the width of
// the sheet. If `on` is false, undo this.
function paper(on) {
  document.documentElement.classList.toggle("printing", on);
  document.querySelectorAll("details.fold, details.example, .finding details").forEach((details) => {
    if (on) details.dataset.was = String(details.open);
    details.open = on || details.dataset.was === "true";
  });
  document.documentElement.dataset.theme = on ? "light" : theme.now();
  document.querySelectorAll(on ? ".plot" : ".plot.drawn").forEach((element) => {
    if (!on && inFold(element)) {
      Plotly.purge(element); // the plot still has the width of the sheet
      element.classList.remove("drawn");
      return;
    }
    draw(element, on ? element.clientWidth : undefined); // an automatic resize would come after printing
    if (!on) Plotly.relayout(element, { autosize: true });
  });
}

preparePlots();
document.addEventListener("theme", redraw);
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));

// Draws overlapping sets: circles for up to three sets, otherwise an UpSet plot (bars of region sizes above dots that
// mark each region's sets). A finite y means that the region lies in the set.

// Return the regions of the visible sets, each with the indices of its sets. Regions that differ only in hidden sets
// are merged.
function regions(series) {
  const found = new Map();
  for (let i = 0; i < (series[0]?.x.length ?? 0); i++) {
    const members = series.flatMap((set, place) => (finite(set.y[i]) ? [place] : []));
    const key = members.join();
    const size = members.length ? series[members[0]].y[i] : 0;
    if (members.length) found.set(key, { members, size: size + (found.get(key)?.size ?? 0) });
  }
  return [...found.values()];
}

const bare = { showgrid: false, zeroline: false, showticklabels: false, fixedrange: true };

function named(series, { members, size }) {
  const names = members.map((place) => `<b>${plain(series[place].name)}</b>`).join(" and ");
  const others = series.length - members.length;
  return `${digits(size)} of ${names}${others ? " alone" : ""}`;
}

// Draw circles of radius 1. Their centres are so far from the middle that every region has room for its number.
function circles(series, all) {
  const away = [0, 0, 0.6, 0.62][series.length];
  const turn = series.length === 3 ? Math.PI / 2 : Math.PI;
  const angles = series.map((_, i) => turn - (2 * Math.PI * i) / series.length);
  const shapes = series.map((set, i) => {
    const [x, y] = [away * Math.cos(angles[i]), away * Math.sin(angles[i])];
    const colour = css(`--${set.colour}`);
    const place = { type: "circle", x0: x - 1, x1: x + 1, y0: y - 1, y1: y + 1, layer: "below" };
    return { ...place, fillcolor: `${colour}33`, line: { color: colour, width: 2 } };
  });
  const far = [0, series.length === 2 ? 1 : 1.12, series.length === 2 ? 0 : 0.77, 0]; // by number of sets
  const centre = ({ members }) => {
    const x = members.reduce((sum, i) => sum + Math.cos(angles[i]), 0);
    const y = members.reduce((sum, i) => sum + Math.sin(angles[i]), 0);
    const size = members.length === series.length ? 1 : Math.hypot(x, y);
    return [(far[members.length] * x) / size, (far[members.length] * y) / size];
  };
  const points = all.map(centre);
  const numbers = {
    type: "scatter",
    mode: "text",
    x: points.map(([x]) => x),
    y: points.map(([, y]) => y),
    text: all.map(({ size }) => digits(size)),
    textfont: { size: 16, color: css("--text") },
    hovertext: all.map((region) => named(series, region)),
    hovertemplate: "%{hovertext}<extra></extra>",
    showlegend: false,
  };
  const high = series.length === 3 ? [-1.45, 1.75] : [-1.15, 1.15];
  const axes = { xaxis: { ...bare, range: [-1.8, 1.8] }, yaxis: { ...bare, range: high, scaleanchor: "x" } };
  return { data: [numbers], axes: { ...axes, shapes } };
}

// Draw an UpSet plot, largest region first. Only the table shows empty regions.
function upset(series, all) {
  const shown = all.filter(({ size }) => size).sort((a, b) => b.size - a.size);
  const places = shown.map((_, i) => i);
  const hover = { hovertext: shown.map((region) => named(series, region)), hovertemplate: "%{hovertext}<extra></extra>" };
  const bars = {
    ...hover,
    type: "bar",
    x: places,
    y: shown.map(({ size }) => size),
    text: shown.map(({ size }) => digits(size)),
    textposition: "outside",
    textangle: 0,
    cliponaxis: false,
    marker: { color: css("--muted") },
  };
  const ties = shown.map(({ members }, i) => {
    const ends = { x0: i, x1: i, y0: Math.min(...members), y1: Math.max(...members), yref: "y2", layer: "below" };
    return { type: "line", ...ends, line: { color: css("--muted"), width: 2 } };
  });
  const dots = series.map((set, place) => {
    const colours = shown.map(({ members }) => css(members.includes(place) ? `--${set.colour}` : "--rule"));
    const marker = { size: 11, color: colours, opacity: 1 };
    return { ...hover, type: "scatter", mode: "markers", x: places, y: places.map(() => place), yaxis: "y2", marker };
  });
  const top = { ...axis(""), fixedrange: true, domain: [0.42, 1], rangemode: "tozero" };
  const rows = { ...bare, domain: [0, 0.34], range: [series.length - 0.5, -0.5] };
  const across = { ...bare, range: [-0.6, shown.length - 0.4] };
  const data = [bars, ...dots].map((trace) => ({ ...trace, showlegend: false }));
  return { data, axes: { xaxis: across, yaxis: top, yaxis2: rows, shapes: ties } };
}

function sets(plot, figure) {
  const series = plot.series.filter(({ name }) => !hiddenSeries.get(figure)?.has(name));
  const all = regions(series);
  const { data, axes } = (series.length <= 3 ? circles : upset)(series, all);
  return { data, layout: { ...layout(plot), ...axes, hovermode: "closest", dragmode: false } };
}

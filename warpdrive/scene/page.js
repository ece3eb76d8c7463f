// Parts of pages that draw scenes: elements, colours of the theme, and sceneries and shapes on a canvas.

const data = JSON.parse(document.getElementById("data").textContent);
const element = id => document.getElementById(id);
const make = (name, parent, text = "") => {
  const made = parent.appendChild(document.createElement(name));
  made.textContent = text;
  return made;
};
const loadedImage = async source => {
  const image = Object.assign(new Image(), { src: source });
  await image.decode().catch(() => {});
  return image;
};

const [KIND, X, Y, WIDTH, HEIGHT, ANGLE, COLOUR, OPACITY, EDGE, LINE, LAYER, TRAIL] = data.fields.map((_, at) => at);
const { CIRCLE, RECTANGLE, TRIANGLE, SECTOR, SEGMENT, NUMBER } = data.kinds;
const [GREY, INK, PAPER, GROUND] = ["grey", "ink", "paper", "ground"].map(name => data.colourNames.indexOf(name));
const ARROW = [[1, 0], [-1, 0.7], [-0.55, 0], [-1, -0.7]], BOX = [[-1, -1], [1, -1], [1, 1], [-1, 1]]; // see geometry.py

// ---- colours ----
const dark = matchMedia("(prefers-color-scheme: dark)"), mixtures = new Map();
let theme = "light";
function setTheme(name) {
  theme = name;
  document.documentElement.classList.toggle("dark", theme === "dark");
}
setTheme(dark.matches ? "dark" : "light");
const otherTheme = () => theme === "dark" ? "light" : "dark";
const rgb = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
const colourOf = number => data.palettes[theme][number] ?? data.palettes[theme][INK];
function mixed(number, opacity) {
  if (opacity >= 1) return colourOf(number);
  const key = `${theme} ${number} ${Math.round(32 * opacity)}`;
  if (!mixtures.has(key)) {
    const [front, back] = [rgb(colourOf(number)), rgb(colourOf(GROUND))];
    mixtures.set(key, `rgb(${front.map((value, at) => Math.round(opacity * value + (1 - opacity) * back[at]))})`);
  }
  return mixtures.get(key);
}

// ---- drawing: positions of the world become pixels by toX, toY and scale ----
function drawScenery(pen, { view, images, polygons }, toX, toY, scale) {
  pen.fillStyle = colourOf(GROUND);
  pen.fillRect(toX(view[0]), toY(view[3]), (view[1] - view[0]) * scale, (view[3] - view[2]) * scale);
  for (const { place: [lowX, highX, lowY, highY], image } of images) {
    pen.imageSmoothingEnabled = (highX - lowX) * scale < image.naturalWidth; // pixels stay sharp if enlarged
    pen.drawImage(image, toX(lowX), toY(highY), (highX - lowX) * scale, (highY - lowY) * scale);
  }
  pen.lineJoin = pen.lineCap = "round";
  for (const { points, colour, edge, line } of polygons) {
    pen.beginPath();
    for (let at = 0; at < points.length; at += 2) pen.lineTo(toX(points[at]), toY(points[at + 1]));
    if (colour >= 0) pen.closePath();
    paint(pen, colour >= 0 ? colourOf(colour) : null, edge, Math.max(1, line * scale));
  }
}

function drawTexts(pen, { texts }, toX, toY, scale) {
  for (const { x, y, text, size, colour } of texts) write(pen, text, toX(x), toY(y), size * scale, colourOf(colour));
}

function write(pen, text, x, y, size, colour) {
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = `${Math.max(5, size)}px "DejaVu Sans", system-ui, sans-serif`;
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

/** Fill the path in a colour, unless it is null, and draw its outline, unless that is negative. */
function paint(pen, colour, edge, width) {
  if (colour) {
    pen.fillStyle = colour;
    pen.fill();
  }
  if (edge >= 0) {
    pen.lineWidth = width;
    pen.strokeStyle = colourOf(edge);
    pen.stroke();
  }
}

/** Draw a shape at pixels (x, y); `of` returns its fields. */
function drawShape(pen, of, x, y, angle, scale) {
  const kind = of(KIND), high = of(HEIGHT), a = 0.5 * scale * of(WIDTH), b = 0.5 * scale * high;
  const colour = mixed(of(COLOUR), of(OPACITY));
  if (kind === NUMBER) return write(pen, String(Math.round(of(LINE))), x, y, 2 * b, colour);
  pen.beginPath();
  if (kind === SEGMENT) {
    pen.moveTo(x, y);
    pen.lineTo(x + 2 * a, y - 2 * b);
    pen.lineWidth = Math.max(1, of(LINE) * scale);
    pen.strokeStyle = colour;
    return pen.stroke();
  }
  if (kind === CIRCLE) pen.ellipse(x, y, Math.abs(a), Math.abs(b), 0, 0, 2 * Math.PI);
  else if (kind === SECTOR) {
    pen.moveTo(x, y);
    pen.arc(x, y, Math.abs(a), -(angle + 0.5 * high), -(angle - 0.5 * high));
    pen.closePath();
  } else {
    const cosine = Math.cos(angle), sine = Math.sin(angle);
    for (const [u, v] of kind === TRIANGLE ? ARROW : BOX) pen.lineTo(x + u * a * cosine - v * b * sine, y - u * a * sine - v * b * cosine);
    pen.closePath();
  }
  paint(pen, colour, of(EDGE), 1);
}

/** Mark a chosen agent. */
function drawRing(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  paint(pen, null, INK, 2);
}

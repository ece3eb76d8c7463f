// Player of recordings: draws their scenes, and shows arrays of agents and curves of returns.

(async () => {
  const { shades: SHADES, opacity: TRAIL_OPACITY, longestPart: LONGEST_PART } = data.trail; // see geometry.py
  const SMOOTHEST = 0.1; // of the view: a longer move of a shape within one step is not interpolated
  const MANY = 200; // agents: from here on trails are thin
  const CAPTION = 42, MARGIN = 6; // of panels and of the curves, in pixels

  // ---- the films, their states one after the other ----
  const tags = Object.keys(data.tags);
  const tagOf = new Map(tags.flatMap(tag => data.tags[tag].map(agent => [agent, tag])));
  const colourOfTag = tag => data.colours[tag];
  const states = data.films.flatMap((film, number) => film.steps.map((_, at) => ({ film: number, at })));
  for (const film of data.films)
    for (const panel of film.panels) {
      panel.returnsOf = {};
      for (const tag of tags) panel.returnsOf[tag] = await unpack(panel.returns[tag]);
      if (panel.pictures) {
        const images = await Promise.all(panel.pictures.map(loadedImage));
        panel.sceneries = images.map(image => {
          const view = [0, image.naturalWidth, 0, image.naturalHeight];
          return { view, caption: "", images: [{ place: view, image }], polygons: [], texts: [] };
        });
        panel.sceneryAt = at => at;
        panel.rows = 0;
      } else {
        panel.sceneryAt = await unpack(panel.scenery);
        for (const { images } of panel.sceneries)
          for (const image of images) image.image = await loadedImage(image.source);
        panel.fields = await Promise.all(panel.shapes.map(unpack));
      }
    }

  // ---- what is shown ----
  let state = 0, part = 0; // the state, and the elapsed part of its time
  let playing = false, speed = 1, last = 0;
  let chosen = 0; // panel
  let agent = null, following = false;
  let camera = null; // null: the whole view; else centre and zoom
  let panels = []; // of the film: {figure, canvas, pen, ...}
  let filmShown = -1;
  const film = () => data.films[states[state].film];

  // ---- geometry ----
  /** Return the position of a shape, and its angle, between two states while the player runs. */
  function place(panel, at, row) {
    const { fields, limit } = panel;
    let x = fields[X](at, row), y = fields[Y](at, row), angle = fields[ANGLE](at, row);
    if (part > 0 && panel.next !== at && fields[KIND](panel.next, row) === fields[KIND](at, row)) {
      const toX = fields[X](panel.next, row) - x, toY = fields[Y](panel.next, row) - y;
      if (Math.abs(toX) < limit && Math.abs(toY) < limit) {
        const turn = fields[ANGLE](panel.next, row) - angle;
        x += part * toX;
        y += part * toY;
        angle += part * Math.atan2(Math.sin(turn), Math.cos(turn));
      }
    }
    return [x, y, angle];
  }

  function frameOf(shown) {
    const view = shown.scenery.view, [width, height] = [view[1] - view[0], view[3] - view[2]];
    const zoom = camera ? camera.zoom : 1;
    let x = 0.5 * (view[0] + view[1]), y = 0.5 * (view[2] + view[3]);
    if (camera) [x, y] = [view[0] + camera.x * width, view[2] + camera.y * height];
    if (following && agent !== null && shown.panel.shapesPerAgent) {
      const rows = rowsOf(shown.panel, agent).filter(row => shown.panel.fields[KIND](shown.at, row));
      if (rows.length) [x, y] = place(shown.panel, shown.at, rows[0]);
    }
    const scale = zoom * shown.width / width;
    return { scale, left: x - 0.5 * shown.width / scale, top: y + 0.5 * shown.height / scale };
  }

  const rowsOf = (panel, number) => Array.from({ length: panel.shapesPerAgent }, (_, at) => number * panel.shapesPerAgent + at);

  // ---- drawing ----
  function drawPanel(shown) {
    const { panel, pen } = shown;
    const at = shown.at = states[state].at;
    const { steps } = film();
    const follows = at + 1 < steps.length && steps[at + 1] === steps[at] + 1;
    panel.next = follows ? at + 1 : at;
    shown.scenery = panel.sceneries[panel.sceneryAt(at)];
    const view = shown.scenery.view;
    panel.limit = SMOOTHEST * Math.max(view[1] - view[0], view[3] - view[2]);
    const { scale, left, top } = shown.frame = frameOf(shown);
    const toX = x => (x - left) * scale, toY = y => (top - y) * scale;
    const pixels = devicePixelRatio || 1;
    pen.setTransform(pixels, 0, 0, pixels, 0, 0);
    pen.fillStyle = colourOf(PAPER);
    pen.fillRect(0, 0, shown.width, shown.height);
    drawScenery(pen, shown.scenery, toX, toY, scale);
    if (panel.rows) {
      const order = inOrder(shown), front = order.findIndex(row => panel.fields[LAYER](at, row) >= 0);
      drawShapes(shown, order.splice(0, front < 0 ? order.length : front), toX, toY, scale);
      drawTrails(shown, toX, toY);
      drawShapes(shown, order, toX, toY, scale);
    }
    drawTexts(pen, shown.scenery, toX, toY, scale);
    if (agent !== null) ring(shown, toX, toY, scale);
  }

  /** Return the rows of shapes that are shown, those in front last. */
  function inOrder({ panel: { fields, rows }, at }) {
    const order = [];
    let sorted = true;
    for (let row = 0; row < rows; row++)
      if (fields[KIND](at, row)) {
        if (order.length && fields[LAYER](at, row) < fields[LAYER](at, order[order.length - 1])) sorted = false;
        order.push(row);
      }
    if (!sorted) order.sort((one, other) => fields[LAYER](at, one) - fields[LAYER](at, other) || one - other);
    return order;
  }

  function drawShapes(shown, order, toX, toY, scale) {
    const { panel, pen, at, width, height } = shown, { fields } = panel;
    for (const row of order) {
      const [worldX, worldY, angle] = place(panel, at, row);
      const x = toX(worldX), y = toY(worldY), a = 0.5 * scale * fields[WIDTH](at, row), b = 0.5 * scale * fields[HEIGHT](at, row);
      const reach = fields[KIND](at, row) === SECTOR ? Math.abs(a) : 2 * Math.hypot(a, b);
      if (x + reach < 0 || y + reach < 0 || x - reach > width || y - reach > height) continue;
      drawShape(pen, field => fields[field](at, row), x, y, angle, scale);
    }
  }

  function drawTrails(shown, toX, toY) {
    const { panel, pen, at, width, height, frame } = shown, { fields } = panel;
    if (panel.shapes[TRAIL] === 0) return;
    const groups = new Map(); // colour: rows
    for (let row = 0; row < panel.rowsOfAgents; row++) {
      if (!fields[KIND](at, row) || !fields[TRAIL](at, row)) continue;
      const colour = fields[COLOUR](at, row);
      if (!groups.has(colour)) groups.set(colour, []);
      groups.get(colour).push(row);
    }
    if (!groups.size) return;
    // What happened before this state is drawn once for all frames between it and the next.
    const about = [state, theme, width, height, frame.scale, frame.left, frame.top].join();
    shown.trails ??= { picture: document.createElement("canvas"), about: "" };
    const { picture } = shown.trails;
    if (shown.trails.about !== about) {
      shown.trails.about = about;
      Object.assign(picture, { width: shown.canvas.width, height: shown.canvas.height });
      drawPast(shown, groups, picture.getContext("2d"), toX, toY);
    }
    pen.drawImage(picture, 0, 0, width, height);
    if (!part) return;
    pen.lineWidth = trailWidth(panel);
    for (const [colour, rows] of groups) {
      pen.beginPath();
      for (const row of rows) {
        const [x, y] = place(panel, at, row);
        pen.moveTo(toX(fields[X](at, row)), toY(fields[Y](at, row)));
        pen.lineTo(toX(x), toY(y));
      }
      pen.strokeStyle = mixed(colour, TRAIL_OPACITY);
      pen.stroke();
    }
  }

  // Browsers without a GPU draw lines of one pixel many times as fast as wider ones.
  const trailWidth = panel => panel.rowsOfAgents > MANY ? 1 / (devicePixelRatio || 1) : 1.5;

  function drawPast({ panel, at, scenery: { view } }, groups, pen, toX, toY) {
    const { fields } = panel, { steps } = film(), pixels = devicePixelRatio || 1;
    const limit = LONGEST_PART * Math.min(view[1] - view[0], view[3] - view[2]);
    let longest = 0;
    for (const rows of groups.values()) for (const row of rows) longest = Math.max(longest, fields[TRAIL](at, row));
    longest = Math.min(longest, steps[at]);
    pen.setTransform(pixels, 0, 0, pixels, 0, 0);
    pen.lineWidth = trailWidth(panel);
    pen.lineJoin = "bevel";
    for (let shade = 0; shade < SHADES; shade++) {
      const [oldest, newest] = [shade, shade + 1].map(number => longest - Math.round(number * longest / SHADES));
      let first = at;
      while (first > 0 && steps[at] - steps[first] < newest) first--;
      for (const [colour, rows] of groups) {
        pen.beginPath();
        for (const row of rows) {
          let x = 0, y = 0, known = false, drawing = false; // the later end of the next part
          for (let earlier = first; earlier >= 0; earlier--) {
            const age = steps[at] - steps[earlier];
            if (age > oldest || age > fields[TRAIL](at, row)) break;
            if (!fields[KIND](earlier, row)) {
              known = drawing = false;
              continue;
            }
            const oldX = fields[X](earlier, row), oldY = fields[Y](earlier, row);
            if (known && Math.hypot(x - oldX, y - oldY) < limit) {
              if (!drawing) pen.moveTo(toX(x), toY(y));
              pen.lineTo(toX(oldX), toY(oldY));
              drawing = true;
            } else drawing = false;
            [x, y, known] = [oldX, oldY, true];
          }
        }
        pen.strokeStyle = mixed(colour, TRAIL_OPACITY * (shade + 1) / SHADES);
        pen.stroke();
      }
    }
  }

  /** Mark the chosen agent. */
  function ring(shown, toX, toY, scale) {
    const { panel, pen, at } = shown;
    for (const row of panel.shapesPerAgent ? rowsOf(panel, agent).slice(0, 1) : []) {
      if (!panel.fields[KIND](at, row)) return;
      const [x, y] = place(panel, at, row);
      drawRing(pen, toX(x), toY(y), Math.max(9, 0.75 * scale * Math.abs(panel.fields[WIDTH](at, row))));
    }
  }

  // ---- layout ----
  function show(number) {
    if (filmShown === number) return;
    filmShown = number;
    element("stage").textContent = "";
    panels = data.films[number].panels.map((panel, at) => {
      const figure = make("figure", element("stage"));
      const canvas = make("canvas", figure);
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${data.title}, replica ${panel.replica}`);
      const caption = make("figcaption", figure);
      const shown = { panel, figure, canvas, pen: canvas.getContext("2d"), words: make("b", caption), returns: make("span", caption) };
      listen(shown, at);
      return shown;
    });
    chosen = Math.min(chosen, panels.length - 1);
    listAgents();
    layOut();
  }

  function layOut() {
    const stage = element("stage"), gap = 10, narrow = innerWidth <= 760;
    const wide = stage.clientWidth, high = narrow ? 0.62 * innerHeight : stage.clientHeight;
    const ratios = panels.map(({ panel: { sceneries: [{ view }] } }) => (view[3] - view[2]) / (view[1] - view[0]));
    const ratio = Math.max(...ratios);
    let best = 0;
    for (let columns = 1; columns <= panels.length; columns++) {
      const rows = Math.ceil(panels.length / columns);
      const byWidth = (wide - (columns - 1) * gap) / columns;
      const byHeight = ((high - (rows - 1) * gap) / rows - CAPTION) / ratio;
      best = Math.max(best, Math.min(byWidth, byHeight));
    }
    const width = Math.floor(Math.max(Math.min(160, wide), best)) - 2;
    const pixels = devicePixelRatio || 1;
    panels.forEach((shown, at) => {
      const height = Math.round(width * ratios[at]);
      Object.assign(shown, { width, height });
      Object.assign(shown.canvas, { width: Math.round(width * pixels), height: Math.round(height * pixels) });
      Object.assign(shown.canvas.style, { width: `${width}px`, height: `${height}px` });
      shown.figure.style.width = `${width}px`;
    });
    const { canvas } = curves;
    Object.assign(canvas, { width: Math.round(canvas.clientWidth * pixels), height: Math.round(canvas.clientHeight * pixels) });
    draw();
  }

  const short = number => {
    if (!Number.isFinite(number)) return "NaN";
    if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number).replace("-", "\u2212");
    const size = Math.abs(number);
    const text = size >= 1e6 || size < 1e-3 ? number.toExponential(2) : number.toFixed(size < 1 ? 3 : size < 100 ? 2 : 1);
    return text.replace("-", "\u2212");
  };

  let described = ""; // what the words, curves and arrays on the page are about

  function draw(everything = true) {
    show(states[state].film);
    for (const shown of panels) drawPanel(shown);
    if (everything || described !== `${state} ${chosen} ${agent}`) describe();
  }

  function describe() {
    described = `${state} ${chosen} ${agent}`;
    const { at } = states[state], step = film().steps[at];
    panels.forEach(({ panel, figure, scenery, words, returns }, number) => {
      const ended = step >= panel.length;
      const title = [film().title, panels.length > 1 ? `replica ${panel.replica}` : "", `step ${Math.min(step, panel.length)}`];
      words.textContent = title.filter(Boolean).join(" \u00b7 ") + (ended && panel.ending ? `: ${panel.ending}` : "");
      const own = scenery.caption ? `${scenery.caption}  ` : "";
      returns.textContent = own + "return " + tags.map(tag => `${tag} ${short(panel.returnsOf[tag](at))}`).join("  ");
      figure.classList.toggle("chosen", panels.length > 1 && number === chosen);
    });
    drawCurves();
    element("frame").value = state;
    element("place").textContent = `${step} / ${film().steps[film().steps.length - 1]}`;
    refreshArrays();
  }

  // ---- curves ----
  const curves = { canvas: element("curves"), picture: document.createElement("canvas"), about: "", values: [] };

  function drawCurves() {
    const { canvas, picture } = curves, pixels = devicePixelRatio || 1, width = canvas.width / pixels;
    const { steps } = film(), { at } = states[state];
    const own = returnOfAgent && returnOfAgent.panel === panels[chosen].panel && returnOfAgent.agent === agent;
    const about = [filmShown, chosen, own ? agent : "", theme, canvas.width, canvas.height].join();
    if (!width) return;
    if (curves.about !== about) {
      curves.about = about;
      const lines = panels.flatMap(({ panel }, number) => tags.map(tag =>
        ({ name: tag, of: panel.returnsOf[tag], colour: colourOfTag(tag), faint: number !== chosen })));
      if (own) lines.push({ name: `agent ${agent}`, of: step => returnOfAgent.sums[step], colour: INK, faint: false });
      Object.assign(picture, { width: canvas.width, height: canvas.height });
      plot(picture, lines, steps.length);
      const legend = element("legend");
      legend.textContent = "";
      curves.values = lines.filter(({ faint }) => !faint).map(({ name, of, colour }) => {
        const item = make("span", legend);
        make("i", item).style.background = colourOf(colour);
        const value = make("span", item);
        return step => value.textContent = `${name} ${short(of(step))}`;
      });
    }
    const pen = canvas.getContext("2d"), x = pixels * (MARGIN + (width - 2 * MARGIN) * at / Math.max(1, steps.length - 1));
    pen.drawImage(picture, 0, 0);
    pen.fillStyle = colourOf(INK);
    pen.fillRect(x - 0.5 * pixels, 0, pixels, canvas.height);
    for (const show of curves.values) show(at);
  }

  function plot(canvas, lines, count) {
    const pen = canvas.getContext("2d"), pixels = devicePixelRatio || 1;
    const width = canvas.width / pixels, height = canvas.height / pixels;
    let [low, high] = [0, 0];
    for (const { of } of lines)
      for (let step = 0; step < count; step++) {
        low = Math.min(low, of(step));
        high = Math.max(high, of(step));
      }
    if (high === low) high = low + 1;
    const toX = step => MARGIN + (width - 2 * MARGIN) * step / Math.max(1, count - 1);
    const toY = value => height - MARGIN - (height - 2 * MARGIN) * (value - low) / (high - low);
    pen.setTransform(pixels, 0, 0, pixels, 0, 0);
    pen.fillStyle = colourOf(GROUND);
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = mixed(GREY, 0.5);
    pen.fillRect(0, toY(0) - 0.5, width, 1);
    const every = Math.max(1, Math.floor(count / width));
    for (const { of, colour, faint } of [...lines].sort((one, other) => other.faint - one.faint)) {
      pen.beginPath();
      for (let step = 0; step < count; step += every) pen.lineTo(toX(step), toY(of(step)));
      pen.lineTo(toX(count - 1), toY(of(count - 1)));
      pen.lineWidth = faint ? 1 : 2;
      pen.strokeStyle = mixed(colour, faint ? 0.35 : 1);
      pen.stroke();
    }
    pen.fillStyle = mixed(INK, 0.7);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    pen.fillText(short(high), MARGIN, 3);
    pen.textBaseline = "bottom";
    pen.fillText(short(low), MARGIN, height - 3);
  }

  // ---- agents ----
  let returnOfAgent = null; // of the chosen agent: {panel, agent, sums}
  let arraysShown = null; // {panel, agent, rows: [{cell, columns, of}]}

  function listAgents() {
    const select = element("agent"), count = tagOf.size;
    if (select.options.length === count + 1) return;
    for (const tag of tags) {
      const group = make("optgroup", select);
      group.label = tag;
      for (const number of data.tags[tag]) make("option", group, `${tag} ${number}`).value = number;
    }
  }

  async function choose(number) {
    agent = number;
    if (agent === null) following = false;
    element("agent").value = agent === null ? "" : agent;
    element("follow").setAttribute("aria-pressed", following);
    await listArrays();
    draw();
  }

  /** Return what the arrays of a panel say about an agent: names, and functions of a state. */
  async function valuesOf(panel, number) {
    const found = [];
    for (const { name, ofAgents, series } of panel.arrays) {
      const of = await unpack(series);
      const columns = typeof series === "number" ? 1 : series.size[1] / (ofAgents ? tagOf.size : 1);
      const first = ofAgents ? number * columns : 0;
      found.push({
        name, ofAgents, of,
        text: at => Array.from({ length: columns }, (_, column) => short(of(at, first + column))).join(", "),
      });
    }
    return found;
  }

  async function listArrays() {
    const { panel } = panels[chosen], wanted = agent, box = element("arrays");
    if (agent === null) {
      box.replaceChildren();
      make("p", box, "Click on an agent, or choose one, to see its arrays.");
      [arraysShown, returnOfAgent] = [null, null];
      return;
    }
    const values = await valuesOf(panel, agent);
    if (wanted !== agent || panel !== panels[chosen].panel) return;
    box.replaceChildren();
    const table = make("table", box), rows = [];
    const row = name => {
      const line = make("tr", table);
      make("th", line, name);
      return make("td", line);
    };
    const rewards = values.find(({ name }) => name === "rewards");
    returnOfAgent = null;
    if (rewards) {
      const sums = [];
      film().steps.forEach((step, at) => {
        const reward = step > 0 && step <= panel.length ? rewards.of(at, agent) : 0;
        sums.push((at ? sums[at - 1] : 0) + reward);
      });
      const whole = film().steps.every((step, at) => step === at); // else rewards are missing in the sum
      if (whole) {
        returnOfAgent = { panel, agent, sums };
        rows.push({ cell: row("return"), text: at => short(sums[at]) });
      }
    }
    for (const ofAgents of [true, false])
      for (const value of values.filter(value => value.ofAgents === ofAgents))
        rows.push({ cell: row(value.name), text: value.text });
    if (panel.leftOut.length) make("p", box, `Left out, as the page would be too large: ${panel.leftOut.join(", ")}`);
    arraysShown = { panel, rows };
  }

  function refreshArrays() {
    if (!arraysShown) return;
    if (arraysShown.panel !== panels[chosen].panel) {
      arraysShown = null;
      listArrays().then(draw);
      return;
    }
    for (const { cell, text } of arraysShown.rows) cell.textContent = text(states[state].at);
  }

  /** Return the agent whose shape is under the pointer, or null. */
  function agentAt(shown, x, y) {
    const { panel, frame, at } = shown;
    if (!panel.rows || !frame) return null;
    const worldX = frame.left + x / frame.scale, worldY = frame.top - y / frame.scale, slack = 8 / frame.scale;
    let [best, nearest] = [null, Infinity];
    for (let row = 0; row < panel.rowsOfAgents; row++) {
      const kind = panel.fields[KIND](at, row);
      if (!kind) continue;
      const [ownX, ownY] = place(panel, at, row);
      const width = panel.fields[WIDTH](at, row), height = panel.fields[HEIGHT](at, row);
      let distance = Math.hypot(worldX - ownX, worldY - ownY), reach = 0.5 * Math.abs(width);
      if (kind === SEGMENT) {
        const along = ((worldX - ownX) * width + (worldY - ownY) * height) / (width * width + height * height || 1);
        const t = Math.min(1, Math.max(0, along));
        distance = Math.hypot(worldX - ownX - t * width, worldY - ownY - t * height);
        reach = 0.5 * panel.fields[LINE](at, row);
      } else if (kind === RECTANGLE) reach = 0.5 * Math.max(Math.abs(width), Math.abs(height));
      if (distance < Math.max(reach, slack) && distance < nearest) [best, nearest] = [Math.floor(row / panel.shapesPerAgent), distance];
    }
    return best;
  }

  let hovered = 0;
  async function hover(shown, event) {
    const tip = element("tip"), mine = ++hovered;
    const found = agentAt(shown, event.offsetX, event.offsetY);
    if (found === null) {
      tip.hidden = true;
      return;
    }
    const values = (await valuesOf(shown.panel, found)).filter(({ ofAgents }) => ofAgents);
    if (mine !== hovered) return;
    const lines = values.slice(0, 10).map(({ name, text }) => `${name}  ${text(shown.at)}`);
    tip.textContent = [`${tagOf.get(found) ?? ""} ${found}`, ...lines].join("\n");
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4))}px`;
  }

  // ---- camera ----
  function zoom(factor, shown = panels[chosen], x = 0.5 * shown.width, y = 0.5 * shown.height) {
    const { frame, scenery: { view } } = shown;
    const old = camera ? camera.zoom : 1, now = Math.min(200, Math.max(1, old * factor));
    if (now === 1) camera = null;
    else {
      const scale = frame.scale / old * now; // the point under the pointer stays
      const left = frame.left + x / frame.scale - x / scale, top = frame.top - y / frame.scale + y / scale;
      camera = { zoom: now, ...inView(view, left + 0.5 * shown.width / scale, top - 0.5 * shown.height / scale) };
    }
    draw(false);
  }

  /** Return a point as fractions of a view, the same for all panels. */
  const inView = (view, x, y) => ({
    x: Math.min(1, Math.max(0, (x - view[0]) / (view[1] - view[0]))),
    y: Math.min(1, Math.max(0, (y - view[2]) / (view[3] - view[2]))),
  });

  function pan(shown, x, y) {
    const { frame, scenery: { view } } = shown;
    if (!camera) return;
    const middle = [frame.left + (0.5 * shown.width - x) / frame.scale, frame.top - (0.5 * shown.height - y) / frame.scale];
    camera = { zoom: camera.zoom, ...inView(view, ...middle) };
    following = false;
    element("follow").setAttribute("aria-pressed", false);
    draw(false);
  }

  function whole() {
    camera = null;
    following = false;
    element("follow").setAttribute("aria-pressed", false);
    draw(false);
  }

  function follow() {
    if (agent === null) return;
    following = !following;
    if (following && !camera) camera = { zoom: 3, x: 0.5, y: 0.5 };
    element("follow").setAttribute("aria-pressed", following);
    draw(false);
  }

  function listen(shown, number) {
    const { canvas } = shown, fingers = new Map();
    let moved = false;
    canvas.onpointerdown = event => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      if (fingers.size === 1) moved = false;
    };
    canvas.onpointermove = event => {
      const before = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
      if (!before) return event.pointerType === "touch" ? null : hover(shown, event);
      const distance = () => {
        const [[x, y], [otherX, otherY]] = [...fingers.values()];
        return Math.hypot(x - otherX, y - otherY);
      };
      if (fingers.size === 2) {
        const old = distance();
        fingers.set(event.pointerId, now);
        const [[x, y], [otherX, otherY]] = [...fingers.values()];
        moved = true;
        zoom(distance() / old, shown, 0.5 * (x + otherX), 0.5 * (y + otherY));
      } else if (moved || Math.hypot(now[0] - before[0], now[1] - before[1]) > 3) {
        moved = true;
        fingers.set(event.pointerId, now);
        element("tip").hidden = true;
        if (camera) pan(shown, now[0] - before[0], now[1] - before[1]);
        else if (event.pointerType === "touch") scrollBy(0, before[1] - now[1]);
      }
    };
    canvas.onpointerup = canvas.onpointercancel = event => {
      fingers.delete(event.pointerId);
      if (moved || event.type === "pointercancel") return;
      chosen = number;
      choose(agentAt(shown, event.offsetX, event.offsetY));
    };
    canvas.onpointerleave = () => {
      hovered++;
      element("tip").hidden = true;
    };
    canvas.ondblclick = whole;
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      zoom(Math.exp(-0.0015 * event.deltaY * (event.deltaMode ? 30 : 1)), shown, event.offsetX, event.offsetY);
    }, { passive: false });
  }

  // ---- time ----
  const isEnd = () => state === states.length - 1 || states[state + 1].film !== states[state].film;
  const duration = () => isEnd() ? 1000 * data.secondsAtAnEnd : 1000 / data.framesPerSecond / speed;

  function tick(time) {
    if (!playing) return;
    let elapsed = Math.min(time - last, 500);
    last = time;
    while (elapsed > 0) {
      const left = (1 - part) * duration();
      if (elapsed < left) {
        part += elapsed / duration();
        break;
      }
      elapsed -= left;
      part = 0;
      state = (state + 1) % states.length;
    }
    draw(false);
    requestAnimationFrame(tick);
  }

  function run(wanted) {
    const begins = wanted && !playing;
    playing = wanted && states.length > 1;
    element("play").textContent = playing ? "Pause" : "Play";
    if (!playing) part = 0;
    if (begins && playing) {
      last = performance.now();
      requestAnimationFrame(tick);
    }
    draw();
  }

  function go(number) {
    state = (number + states.length) % states.length;
    part = 0;
    run(false);
  }

  function setSpeed(change) {
    const select = element("speed");
    select.selectedIndex = Math.min(select.options.length - 1, Math.max(0, select.selectedIndex + change));
    speed = Number(select.value);
  }

  function showTheme(name) {
    setTheme(name);
    draw();
  }

  function fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen?.().catch(() => {});
  }

  function step(change) {
    const numbers = [...tagOf.keys()].sort((one, other) => one - other);
    const at = agent === null ? (change > 0 ? -1 : 0) : numbers.indexOf(agent);
    choose(numbers[(at + change + numbers.length) % numbers.length]);
  }

  const seek = event => {
    const { width } = element("curves").getBoundingClientRect(), count = film().steps.length;
    const at = Math.round((event.offsetX - MARGIN) / Math.max(1, width - 2 * MARGIN) * (count - 1));
    go(state - states[state].at + Math.min(count - 1, Math.max(0, at)));
  };
  const clicks = {
    play: () => run(!playing), back: () => go(state - 1), forward: () => go(state + 1), follow, whole, full: fullScreen,
    closer: () => zoom(1.5), farther: () => zoom(1 / 1.5), theme: () => showTheme(otherTheme()),
    help: () => element("keys").showModal(),
  };
  for (const [id, action] of Object.entries(clicks)) element(id).onclick = action;
  element("frame").max = states.length - 1;
  element("frame").oninput = event => go(Number(event.target.value));
  element("speed").onchange = () => setSpeed(0);
  element("agent").onchange = event => choose(event.target.value === "" ? null : Number(event.target.value));
  element("curves").onpointerdown = event => {
    event.target.setPointerCapture(event.pointerId);
    seek(event);
  };
  element("curves").onpointermove = event => { if (event.buttons) seek(event); };
  element("full").hidden = !document.fullscreenEnabled;

  const keys = {
    " ": clicks.play, ArrowLeft: clicks.back, ArrowRight: clicks.forward, Home: () => go(0), End: () => go(states.length - 1),
    "+": clicks.closer, "=": clicks.closer, "-": clicks.farther, "0": whole, "<": () => setSpeed(-1), ">": () => setSpeed(1),
    "[": () => step(-1), "]": () => step(1), c: follow, d: clicks.theme, f: fullScreen, "?": clicks.help,
    Escape: () => choose(null),
  };
  const moves = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  document.onkeydown = event => {
    if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
    if (event.target.tagName === "SELECT" && event.key !== "Escape") return;
    const own = event.target.tagName === "BUTTON" && event.key === " "; // a press of that button
    const shown = panels[chosen], move = event.shiftKey && moves[event.key];
    const action = move ? () => pan(shown, 0.1 * shown.width * move[0], 0.1 * shown.height * move[1])
      : keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!action || own) return;
    event.preventDefault();
    action();
  };
  addEventListener("resize", layOut);
  dark.addEventListener("change", () => showTheme(dark.matches ? "dark" : "light"));

  draw();
  run(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  /** For pages that contain the player, and tests. */
  window.player = { isPlaying: () => playing, state: () => state, agent: () => agent, camera: () => camera, draw };
})();

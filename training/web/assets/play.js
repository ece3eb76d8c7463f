// Page of a game: pictures, controls, people, links and verification.

(async () => {
  const { program, tags, actions } = data;
  const FIELDS = data.fields.length;
  const PAUSE_AT_THE_END = 0.5; // seconds for which the end of an episode is shown
  const tagOf = new Map(Object.entries(tags).flatMap(([tag, agents]) => agents.map(agent => [agent, tag])));

  // ---- the link: seed, replicas, changed numbers, and what people did ----
  const link = new URLSearchParams(location.hash.slice(1));
  const asSeed = text => /^\d{1,19}$/.test(text) ? text : data.seed;
  const asReplicas = number => Math.max(1, Math.min(data.maxReplicas, Math.round(number)));
  const settings = {
    seed: asSeed(link.get("seed") ?? ""),
    replicas: asReplicas(Number(link.get("replicas")) || data.replicas),
    numbers: Object.fromEntries((link.get("set") || "").split(",").filter(Boolean).map(pair => pair.split(":")).map(([name, value]) => [name, Number(value)])),
  };
  /** What people did: [step, replica, agent, action or null for an agent that acts by itself again]. */
  let events = readEvents(link.get("game") || ""), replaying = events.length > 0, next = 0;

  function readEvents(text) {
    let step = 0;
    return text.split("_").filter(Boolean).map(event => {
      const [later, replica, agent, action] = event.split(".");
      step += parseInt(later, 36);
      return [step, parseInt(replica, 36), parseInt(agent, 36), action === "x" ? null : action.split("~").map(part => Number(part.replace("p", ".")))];
    });
  }
  function writtenEvents() {
    let before = 0;
    return events.map(([step, replica, agent, action]) => {
      const later = step - before;
      before = step;
      const parts = action === null ? "x" : action.map(part => String(part).replace(".", "p")).join("~");
      return [later.toString(36), replica.toString(36), agent.toString(36), parts].join(".");
    }).join("_");
  }
  function address() {
    const parts = [`seed=${settings.seed}`, `replicas=${settings.replicas}`];
    const numbers = Object.entries(settings.numbers).map(([name, value]) => `${name}:${value}`);
    if (numbers.length) parts.push(`set=${numbers.join(",")}`);
    if (events.length) parts.push(`game=${writtenEvents()}`);
    return `${location.href.split("#")[0]}#${parts.join("&")}`;
  }

  // ---- the game ----
  const loaded = await unpacked(program);
  let game, held; // actions of people by "replica agent"
  let playing = true, credit = 0, last = 0, trails = [];
  let chosen = 0; // replica
  const people = [{ agent: null }, { agent: null }];
  const pressed = new Set(), tapped = new Set(); // keys that are down, and those that went down since the last step

  function begin() {
    game = new Game(loaded, program.description, settings.replicas, settings.seed, settings.numbers);
    held = new Map();
    next = 0;
    trails = Array.from({ length: settings.replicas }, () => []);
    chosen = Math.min(chosen, settings.replicas - 1);
    layOut();
    refresh();
  }
  function restart(keep = false) {
    if (!keep) [events, replaying] = [[], false];
    else replaying = events.length > 0;
    begin();
  }

  /** Apply what people do, or did, to the actions of the step. */
  function act() {
    while (next < events.length && events[next][0] === game.step) {
      const [, replica, agent, action] = events[next++];
      if (action === null) held.delete(`${replica} ${agent}`);
      else held.set(`${replica} ${agent}`, [replica, agent, action]);
    }
    if (replaying && next >= events.length) {
      replaying = false;
      element("state").textContent = "";
    }
    if (!replaying) for (const [number, person] of people.entries()) {
      if (person.agent === null) continue;
      const key = `${chosen} ${person.agent}`, action = actionOf(person, number), before = held.get(key);
      if (before && String(before[2]) === String(action)) continue;
      held.set(key, [chosen, person.agent, action]);
      events.push([game.step, chosen, person.agent, action]);
      next = events.length;
    }
    for (const [replica, agent, action] of held.values()) {
      const { name, agents, size } = actionsOf(agent), values = game.values(name);
      values.set(action, (replica * agents.length + agents.indexOf(agent)) * size);
    }
  }
  const actionsOf = agent => actions.find(({ agents }) => agents.includes(agent));

  function release(person) {
    if (person.agent === null) return;
    if (held.delete(`${chosen} ${person.agent}`) && !replaying) {
      events.push([game.step, chosen, person.agent, null]);
      next = events.length;
    }
    person.agent = null;
  }

  // ---- keys of people ----
  const NAMES = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", " ": "space", Enter: "enter" };
  const SECOND = { left: "a", right: "d", up: "w", down: "s", space: "f", enter: "g" };
  const nameOf = key => NAMES[key] || key.toLowerCase();
  const controlsOf = agent => data.controls[tagOf.get(agent)] || {};
  const isDown = key => pressed.has(key) || tapped.has(key); // or was, if only between two steps
  function press(key) {
    pressed.add(key);
    tapped.add(key);
  }
  const waits = agent => controlsOf(agent)[""] === null; // for a key, in turns: people share those that only one of them has
  /** Return the keys that a person holds, as the environment names them. */
  function keysOf(number, agent) {
    const both = people.every(person => person.agent !== null), shared = waits(agent) ? key => key : () => "";
    return new Set(Object.keys(controlsOf(agent)).flatMap(combination => combination.split("+")).filter(name =>
      name && (isDown(`${number}:${name}`) || isDown(number === 0 ? name : SECOND[name] || shared(name)) || (!both && isDown(name)))));
  }
  function actionOf({ agent }, number) {
    const { kind, size, low, high } = actionsOf(agent), controls = controlsOf(agent), keys = keysOf(number, agent);
    const used = Object.keys(controls).filter(combination => combination && combination.split("+").every(name => keys.has(name)));
    const found = new Array(size).fill(0);
    const set = (value, add) => {
      if (typeof value === "number") found[0] = value;
      else for (const [component, part] of Object.entries(value)) found[component] = add ? found[component] + part : part;
    };
    if ((controls[""] ?? null) !== null) set(controls[""], false);
    if (kind === "box") {
      for (const name of used) set(controls[name], true);
      return found.map((value, at) => Math.min(Math.max(value, low[at]), high[at]));
    }
    for (const name of used.sort((one, other) => one.split("+").length - other.split("+").length)) set(controls[name], false);
    return found;
  }
  /** Return true if the chosen replica shows the end of an episode; its next step starts another one. */
  const isOver = () => ["terminated", "truncated"].some(name => game.values(name)?.[chosen] > 0);
  /** Return the people whose turn it is, of agents that wait for a key; at the end of an episode all of them. */
  function toMove() {
    const isActive = agent => (game.values("active")?.[chosen * data.numAgents + agent] ?? 1) > 0;
    const isWaiting = ({ agent }) => agent !== null && waits(agent) && (isOver() || isActive(agent));
    return replaying ? [] : people.filter(isWaiting);
  }
  /** Return true if a person has chosen an action that is valid; at the end of an episode any key is. */
  function hasChosen(person) {
    const number = people.indexOf(person), mask = game.values("action_mask"), [action] = actionOf(person, number);
    const choices = mask && mask.length / (settings.replicas * data.numAgents);
    const isValid = isOver() || !mask || mask[(chosen * data.numAgents + person.agent) * choices + action] > 0;
    return keysOf(number, person.agent).size > 0 && isValid;
  }
  /** Return true if people whose turn it is have not chosen; one of them is enough to start the next episode. */
  const isWaitingFor = movers => movers.length > 0 && !(isOver() ? movers.some(hasChosen) : movers.every(hasChosen));
  /** Forget the keys of a person who has moved: each press is one action. */
  function consume(person) {
    const number = people.indexOf(person);
    for (const name of keysOf(number, person.agent)) for (const key of [name, SECOND[name], `${number}:${name}`]) pressed.delete(key);
  }
  const isTyping = target => ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName) && target.type !== "range";
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const name = nameOf(event.key), plays = people.some(({ agent }, number) => agent !== null && usesKey(agent, number, name));
    if (!event.repeat) press(name);
    if (plays) event.preventDefault();
    else if (event.key === " " && event.target.tagName !== "BUTTON") {
      event.preventDefault();
      run(!playing);
    } else if (name === "." || name === "n") single();
    else if (name === "r") restart();
  });
  const usesKey = (agent, number, name) => Object.keys(controlsOf(agent)).some(combination => combination.split("+").some(key => key === name || (number === 1 && SECOND[key] === name)));
  addEventListener("keyup", event => pressed.delete(nameOf(event.key)));
  addEventListener("blur", () => {
    pressed.clear();
    tapped.clear();
  });

  // ---- pictures ----
  let panels = [];
  for (const image of data.scenery.images) image.image = await loadedImage(image.source);

  function layOut() {
    const stage = element("stage");
    stage.textContent = "";
    const shown = data.canDraw ? settings.replicas : 0, view = data.scenery.view, ratio = (view[3] - view[2]) / (view[1] - view[0]);
    if (!shown) make("p", stage, "This environment has no draw kernel: its arrays are on the right.");
    const narrow = innerWidth <= 760, wide = stage.clientWidth, high = narrow ? 0.6 * innerHeight : stage.clientHeight, gap = 8;
    let best = 0;
    for (let columns = 1; columns <= shown; columns++) {
      const rows = Math.ceil(shown / columns);
      best = Math.max(best, Math.min((wide - (columns - 1) * gap) / columns, ((high - (rows - 1) * gap) / rows - 2) / ratio));
    }
    const width = Math.floor(Math.max(60, Math.min(best, wide)) - 2), pixels = devicePixelRatio || 1;
    panels = Array.from({ length: shown }, (_, replica) => {
      const canvas = make("canvas", stage), height = Math.round(width * ratio);
      Object.assign(canvas, { width: Math.round(width * pixels), height: Math.round(height * pixels) });
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${data.title}, replica ${replica}`);
      const panel = { canvas, pen: canvas.getContext("2d"), replica, width, height, scale: width / (view[1] - view[0]) };
      listen(panel);
      return panel;
    });
  }

  function drawPanel({ pen, replica, width, height, scale, canvas }) {
    const view = data.scenery.view, toX = x => (x - view[0]) * scale, toY = y => (view[3] - y) * scale, pixels = devicePixelRatio || 1;
    pen.setTransform(pixels, 0, 0, pixels, 0, 0);
    drawScenery(pen, data.scenery, toX, toY, scale);
    const rows = data.numAgents * data.shapesPerAgent, shapes = game.values("shapes").subarray(replica * rows * FIELDS, (replica + 1) * rows * FIELDS);
    const things = game.values("things");
    if (things) {
      const each = things.length / settings.replicas;
      drawShapes(pen, things.subarray(replica * each, (replica + 1) * each), toX, toY, scale);
    }
    drawShapes(pen, shapes, toX, toY, scale, layer => layer < 0);
    drawTrails(pen, replica, shapes, rows, toX, toY, view);
    drawShapes(pen, shapes, toX, toY, scale, layer => layer >= 0);
    drawTexts(pen, data.scenery, toX, toY, scale);
    if (replica === chosen) for (const { agent } of people) if (agent !== null) {
      const at = shapeOf(shapes, agent);
      if (at >= 0) drawRing(pen, toX(shapes[at + X]), toY(shapes[at + Y]), Math.max(10, 0.75 * scale * Math.abs(shapes[at + WIDTH])));
    }
    canvas.classList.toggle("chosen", settings.replicas > 1 && replica === chosen);
  }
  function drawShapes(pen, shapes, toX, toY, scale, isDrawn = () => true) {
    const order = [];
    for (let at = 0; at < shapes.length; at += FIELDS) if (shapes[at + KIND] > 0 && isDrawn(shapes[at + LAYER])) order.push(at);
    order.sort((one, other) => shapes[one + LAYER] - shapes[other + LAYER] || one - other);
    for (const at of order) drawShape(pen, field => shapes[at + field], toX(shapes[at + X]), toY(shapes[at + Y]), shapes[at + ANGLE], scale);
  }
  /** Return where the largest shape of an agent begins, or -1. */
  function shapeOf(shapes, agent) {
    let found = -1, largest = -1;
    for (let row = agent * data.shapesPerAgent; row < (agent + 1) * data.shapesPerAgent; row++) {
      const at = row * FIELDS, kind = shapes[at + KIND], size = Math.abs(shapes[at + WIDTH]);
      if (kind <= 0 || [SEGMENT, SECTOR, NUMBER].includes(kind) || size <= largest) continue;
      [found, largest] = [at, size];
    }
    return found;
  }
  function drawTrails(pen, replica, shapes, rows, toX, toY, view) {
    const past = trails[replica], limit = data.trail.longestPart * Math.min(view[1] - view[0], view[3] - view[2]);
    for (let row = 0; row < rows; row++) {
      const at = row * FIELDS, count = Math.min(shapes[at + TRAIL], past.length);
      if (shapes[at + KIND] <= 0 || !count) continue;
      pen.lineWidth = 1.5;
      let [x, y] = [shapes[at + X], shapes[at + Y]];
      for (let age = 1; age <= count; age++) {
        const earlier = past[past.length - age], [oldX, oldY] = [earlier[2 * row], earlier[2 * row + 1]];
        if (!(Math.hypot(x - oldX, y - oldY) < limit)) break;
        pen.beginPath();
        pen.moveTo(toX(x), toY(y));
        pen.lineTo(toX(oldX), toY(oldY));
        pen.strokeStyle = mixed(shapes[at + COLOUR], data.trail.opacity * (1 - (age - 1) / count));
        pen.stroke();
        [x, y] = [oldX, oldY];
      }
    }
  }
  /** Remember where shapes are, for trails; called after each step that may be shown. */
  function remember() {
    if (!data.canDraw || !data.longestTrail) return;
    const rows = data.numAgents * data.shapesPerAgent, shapes = game.values("shapes"), timestep = game.values("timestep");
    trails.forEach((past, replica) => {
      if (timestep && timestep[replica] === 0) past.length = 0;
      const places = new Float32Array(2 * rows);
      for (let row = 0; row < rows; row++) {
        const at = (replica * rows + row) * FIELDS, shown = shapes[at + KIND] > 0;
        places[2 * row] = shown ? shapes[at + X] : NaN;
        places[2 * row + 1] = shown ? shapes[at + Y] : NaN;
      }
      past.push(places);
      if (past.length > data.longestTrail) past.shift();
    });
  }

  // ---- mouse and touch: a direction from the agent, or the choice of an agent ----
  function listen(panel) {
    const { canvas, replica } = panel;
    const steer = event => {
      for (const name of ["left", "right", "up", "down"]) pressed.delete(`0:${name}`);
      const [person] = people;
      if (person.agent === null || replica !== chosen || !event) return;
      const box = canvas.getBoundingClientRect(), view = data.scenery.view;
      const x = view[0] + (event.clientX - box.left) / panel.scale, y = view[3] - (event.clientY - box.top) / panel.scale;
      const rows = data.numAgents * data.shapesPerAgent, shapes = game.values("shapes").subarray(replica * rows * FIELDS, (replica + 1) * rows * FIELDS);
      const at = shapeOf(shapes, person.agent);
      if (at < 0) return;
      const right = x - shapes[at + X], up = y - shapes[at + Y], least = 0.4 * Math.hypot(right, up);
      if (Math.abs(right) > least) pressed.add(right > 0 ? "0:right" : "0:left");
      if (Math.abs(up) > least) pressed.add(up > 0 ? "0:up" : "0:down");
    };
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      if (replica !== chosen) {
        for (const person of people) if (person.agent !== null) { const { agent } = person; release(person); person.agent = agent; }
        chosen = replica;
      }
      panel.held = true;
      steer(event);
      refresh();
    });
    canvas.addEventListener("pointermove", event => panel.held && steer(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => {
      panel.held = false;
      steer(null);
    });
  }

  // ---- the side: numbers, people, arrays, proof ----
  const short = number => {
    if (typeof number === "bigint") return String(number);
    if (!Number.isFinite(number)) return String(number);
    return Number.isInteger(number) ? String(number) : Math.abs(number) >= 1e5 || Math.abs(number) < 1e-3 ? number.toExponential(2) : number.toPrecision(4);
  };
  function listNumbers() {
    element("numbers").textContent = "";
    for (const { name, value } of data.settable) {
      const label = make("label", element("numbers")), row = make("span", label, name), shown = make("output", row);
      const slider = make("input", label), now = settings.numbers[name] ?? value, reach = Math.abs(value) || 1;
      Object.assign(slider, { type: "range", min: value < 0 ? value - reach : 0, max: Math.max(value + reach, 2 * reach), step: "any" });
      slider.value = now;
      slider.setAttribute("aria-label", name);
      shown.textContent = short(now);
      slider.addEventListener("input", () => {
        settings.numbers[name] = Number(Number(slider.value).toPrecision(3));
        shown.textContent = short(settings.numbers[name]);
      });
      slider.addEventListener("change", () => restart());
    }
    element("constants").hidden = !data.settable.length;
  }
  function listPeople() {
    ["first", "second"].forEach((id, number) => {
      const select = element(id);
      make("option", select, "nobody").value = "";
      for (const [tag, agents] of Object.entries(tags)) {
        if (!Object.keys(data.controls[tag] || {}).length) continue;
        const group = make("optgroup", select);
        group.label = tag;
        for (const agent of agents) make("option", group, agents.length > 1 ? `${tag} ${agent}` : tag).value = agent;
      }
      select.addEventListener("change", () => {
        release(people[number]);
        people[number].agent = select.value === "" ? null : Number(select.value);
        select.blur();
        showControls();
        layOut();
        refresh();
      });
    });
    if (data.numAgents < 2) element("two").hidden = true;
  }
  const PLACES = ["left", "up", "down", "right"]; // order of buttons, after those of other keys
  function showControls() {
    const list = element("controls");
    list.textContent = "";
    people.forEach(({ agent }, number) => {
      if (agent === null) return;
      const row = make("div", list), names = new Set(Object.keys(controlsOf(agent)).flatMap(combination => combination.split("+")).filter(Boolean));
      const signs = { left: "\u2190", right: "\u2192", up: "\u2191", down: "\u2193" };
      for (const name of [...names].sort((one, other) => PLACES.indexOf(one) - PLACES.indexOf(other))) {
        const own = number === 1 ? SECOND[name] || name : name, button = make("button", row, signs[own] || own);
        button.type = "button";
        button.setAttribute("aria-label", `${name} of player ${number + 1}`);
        button.addEventListener("pointerdown", event => {
          event.preventDefault();
          button.setPointerCapture(event.pointerId);
          press(`${number}:${name}`);
        });
        for (const end of ["pointerup", "pointercancel"]) button.addEventListener(end, () => pressed.delete(`${number}:${name}`));
      }
    });
  }
  function listArrays() {
    const select = element("array"), names = [...program.description.hashed, ...data.kept.filter(name => game.numbers.has(name))];
    for (const name of names) make("option", select, name).value = name;
    select.value = names.includes("rewards") ? "rewards" : names[0];
    select.addEventListener("change", () => refresh());
  }
  function showArray() {
    const name = element("array").value, shape = game.shape(name), values = game.values(name);
    const count = values.length / settings.replicas, own = values.subarray(chosen * count, (chosen + 1) * count);
    const columns = shape.length > 2 ? shape.slice(2).reduce((product, length) => product * length, 1) : 1;
    const lines = [];
    for (let at = 0; at < own.length && lines.length < 64; at += columns)
      lines.push(`${String(at / columns).padStart(3)}  ${Array.from(own.subarray(at, at + Math.min(columns, 32)), short).join("  ")}${columns > 32 ? " \u2026" : ""}`);
    element("values").textContent = `[${shape.slice(1).join(", ")}] of replica ${chosen}\n${lines.join("\n")}`;
  }
  function refresh() {
    if (data.canDraw) {
      game.draw();
      for (const panel of panels) drawPanel(panel);
    }
    const timestep = game.values("timestep"), returns = game.values("episode.running_return"), lastReturns = game.values("episode.last_return");
    const mean = (values, agents) => agents.reduce((sum, agent) => sum + values[chosen * data.numAgents + agent], 0) / agents.length;
    element("place").textContent = `step ${timestep ? timestep[chosen] : game.step} / ${data.episodeLength}`;
    element("returns").textContent = Object.entries(tags).map(([tag, agents]) => `${tag} ${short(mean(returns, agents))} (last ${short(mean(lastReturns, agents))})`).join("   ");
    const isAsked = playing && isOver() && toMove().length > 0;
    element("state").textContent = replaying ? "replaying a recorded game" : isAsked ? "the game is over: press a key for another one" : "";
    if (element("arrays").open) showArray();
  }

  async function verify() {
    const { replicas, seed, steps, digest, inexact } = data.verify, button = element("verify"), said = element("verdict");
    if (inexact.length) {
      said.textContent = `not verified: bits may differ from those computed natively: ${inexact.join("; ")}`;
      return;
    }
    button.disabled = true;
    const began = performance.now();
    const own = new Game(loaded, program.description, replicas, seed);
    let found = own.digest();
    for (let step = 0; step < steps; step++) {
      own.advance();
      found = own.digest(found);
      if (step % 200 === 0) {
        said.textContent = `${Math.round(100 * step / steps)} %`;
        await new Promise(resolve => setTimeout(resolve));
      }
    }
    const seconds = (performance.now() - began) / 1000;
    const equal = hexadecimal(found) === digest;
    said.textContent = equal
      ? `\u2713 ${steps} steps of ${replicas} replicas: every bit as computed natively (${digest}, ${seconds.toFixed(1)} s)`
      : `\u2717 the states differ from those computed natively: ${hexadecimal(found)}, expected ${digest}`;
    said.className = equal ? "right" : "wrong";
    button.disabled = false;
  }

  // ---- time ----
  function advance() {
    try {
      game.advance(act);
      tapped.clear();
      if (data.canDraw && data.longestTrail) {
        game.draw();
        remember();
      }
    } catch (error) {
      run(false);
      element("state").textContent = error.message;
    }
  }
  function run(wanted) {
    playing = wanted;
    element("play").textContent = playing ? "Pause" : "Play";
    credit = 0;
  }
  function single() {
    run(false);
    advance();
    refresh();
  }
  function tick(time) {
    const speed = Number(element("speed").value);
    if (playing) {
      const began = performance.now();
      credit = Math.min(credit + (time - last) / 1000 * data.stepsPerSecond * speed, speed > 100 ? 1e9 : 4 * speed + 4);
      let steps = 0;
      while (credit >= 1 && playing && performance.now() - began < 12) {
        const movers = toMove();
        if (isWaitingFor(movers)) {
          tapped.clear(); // which no column, say, has room for
          break;
        }
        advance();
        movers.forEach(consume);
        credit -= isOver() && speed <= 4 ? 1 + PAUSE_AT_THE_END * data.stepsPerSecond * speed : 1;
        steps++;
      }
      if (steps) refresh();
    }
    last = time;
    requestAnimationFrame(tick);
  }
  element("seed").value = settings.seed;
  Object.assign(element("replicas"), { value: settings.replicas, max: data.maxReplicas });
  element("about").textContent = data.about;
  listPeople();
  listNumbers();
  begin();
  listArrays();
  element("play").addEventListener("click", () => run(!playing));
  element("step").addEventListener("click", single);
  element("restart").addEventListener("click", () => restart());
  element("again").addEventListener("click", () => restart(true));
  element("theme").addEventListener("click", () => { setTheme(otherTheme()); refresh(); });
  element("verify").addEventListener("click", verify);
  element("arrays").addEventListener("toggle", refresh);
  element("seed").addEventListener("change", () => {
    element("seed").value = settings.seed = asSeed(element("seed").value.trim());
    restart();
  });
  element("replicas").addEventListener("change", () => {
    element("replicas").value = settings.replicas = asReplicas(Number(element("replicas").value) || 1);
    restart();
  });
  element("link").hidden = location.protocol === "about:"; // within a notebook
  element("link").addEventListener("click", async () => {
    history.replaceState(null, "", address());
    await navigator.clipboard?.writeText(address()).catch(() => {});
    element("state").textContent = "the address of this page is the link";
  });
  addEventListener("resize", () => { layOut(); refresh(); });
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); refresh(); });
  window.warpdrive = { get game() { return game; }, get held() { return held; }, people, settings, address, advance, run, restart, refresh };
  requestAnimationFrame(time => { last = time; requestAnimationFrame(tick); });
})();

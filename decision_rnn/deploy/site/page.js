// The page: loads the runtimes and the policies that page.json names, and plays them beside each other.

import { Environment } from "./environment.js";
import { Policy } from "./policy.js";

const FRAME_MS = 12; // of a frame of 16.7 are spent on steps, the rest on drawing
const SLOWLY = 6; // numbers and curves, and the body too in a pause, are drawn at every so many frames
const PULL = 150; // newton per metre between the pointer and the torso
const MOST_FORCE = 200; // newton
const PUSH = 120; // newton of a key or button
const PUSH_SECONDS = 0.12; // for which it lasts

const find = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const format = (value) => Math.round(value).toLocaleString("en");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

/** One agent in its environment, with its pictures. */
class Player {
  constructor(policy, environment, name, limit) {
    const { conditioned } = policy.metadata.target_return;
    Object.assign(this, { policy, environment, limit, conditioned });
    this.element = find("agent").content.cloneNode(true).firstElementChild;
    find("agents").append(this.element);
    this.part("figcaption").textContent = name;
    this.part(".body").setAttribute("aria-label", `The body of ${name}`);
    this.part(".curves").setAttribute("aria-label", "Return so far and return-to-go, by step");
    this.listen(this.part(".body"));
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  reset(seed, target) {
    Object.assign(this, { target, reward: 0, steps: 0, over: false, force: null, pushed: 0, pointer: null });
    Object.assign(this, { earned: 0, lowest: 0, highest: 0, curve: [0] }); // the return so far, its range and course
    this.policy.reset(target);
    this.observation = this.environment.reset(seed);
    this.part(".verdict").textContent = "";
  }

  push(direction) {
    this.pushed = PUSH_SECONDS / this.environment.dt;
    this.force = { x: direction * PUSH, z: 0 };
  }

  async step() {
    if (this.over) return;
    const action = await this.policy.act(this.observation, this.reward);
    if (this.pointer) this.force = this.pull();
    else if (this.pushed-- <= 0) this.force = null;
    this.environment.push(this.force?.x ?? 0, this.force?.z ?? 0);
    const { observation, reward, terminated } = this.environment.step(action);
    Object.assign(this, { observation, reward });
    this.earned += reward;
    this.lowest = Math.min(this.lowest, this.earned);
    this.highest = Math.max(this.highest, this.earned);
    this.curve.push(this.earned);
    this.steps += 1;
    this.over = terminated || this.steps >= this.limit;
    if (this.over) {
      const target = this.conditioned ? `target return ${format(this.target)}, ` : "";
      const end = terminated ? "It fell after" : "It lasted all";
      const verdict = `Over: ${target}return ${format(this.earned)}. ${end} ${format(this.steps)} steps.`;
      this.part(".verdict").textContent = verdict;
    }
  }

  pull() {
    const [x, z] = [PULL * this.pointer.x, PULL * (this.pointer.z - this.environment.torso().z)];
    const scale = Math.min(1, MOST_FORCE / (Math.hypot(x, z) || 1));
    return { x: x * scale, z: z * scale };
  }

  /** Let the pointer pull the torso while it is down; its x is relative to the torso, which the camera follows. */
  listen(canvas) {
    const move = (event) => {
      const box = canvas.getBoundingClientRect();
      const { scale, bottom } = this.view;
      this.pointer = {
        x: (event.clientX - box.left - box.width / 2) / scale,
        z: (box.height - (event.clientY - box.top)) / scale + bottom,
      };
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => this.pointer && move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (this.pointer = null));
  }

  get visible() {
    const { top, bottom } = this.element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  drawNumbers() {
    const { policy, earned, steps, target } = this;
    this.part(".earned").textContent = format(earned);
    this.part(".togo").textContent = format(target - earned);
    this.part(".togo").parentElement.hidden = !this.conditioned;
    this.part(".steps").textContent = format(steps);
    this.part(".time").textContent = policy.actions ? `${format(policy.microseconds)} µs` : "–";
    this.part(".state").textContent = `${format(policy.stateBytes)} bytes`;
  }

  drawBody(theme) {
    const { pen, width, height } = fitted(this.part(".body"));
    const torso = this.environment.torso();
    const bottom = Math.max(-0.28, torso.z + 0.4 - this.environment.body.height);
    const scale = height / this.environment.body.height;
    this.view = { scale, bottom };
    const across = (x) => width / 2 + (x - torso.x) * scale;
    const up = (z) => height - (z - bottom) * scale;
    pen.fillStyle = theme.sky;
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = theme.ground;
    pen.fillRect(0, up(0), width, height);
    pen.strokeStyle = theme.quiet;
    pen.fillStyle = theme.text;
    pen.lineWidth = 1;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    const half = width / 2 / scale;
    for (let metre = Math.ceil(torso.x - half); metre <= torso.x + half; metre++) {
      line(pen, [across(metre), up(0)], [across(metre), up(0) + 7]);
      pen.fillText(`${metre} m`, across(metre), up(0) + 20);
    }
    const capsules = this.environment.capsules();
    pen.fillStyle = theme.shadow;
    pen.beginPath(); // of all parts together, so that overlaps are no darker
    for (const { from, to, radius } of capsules) {
      const reach = Math.abs(to[0] - from[0]) / 2 + radius;
      pen.ellipse(across((from[0] + to[0]) / 2), up(0) + 3, reach * scale, 3, 0, 0, 2 * Math.PI);
      pen.closePath();
    }
    pen.fill();
    pen.lineCap = "round";
    for (const { from, to, radius, colour } of capsules.reverse()) {
      const ends = [from, to].map(([x, z]) => [across(x), up(z)]);
      pen.strokeStyle = theme.outline;
      pen.lineWidth = 2 * radius * scale + 2;
      line(pen, ...ends);
      pen.strokeStyle = `rgb(${colour})`;
      pen.lineWidth = 2 * radius * scale - 1;
      line(pen, ...ends);
    }
    if (this.force) {
      pen.strokeStyle = theme.togo;
      pen.lineWidth = 4;
      const tip = [across(torso.x + this.force.x / PULL), up(torso.z + this.force.z / PULL)];
      line(pen, [across(torso.x), up(torso.z)], tip);
      pen.fillStyle = theme.togo;
      pen.beginPath();
      pen.arc(...tip, 7, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  drawCurves(theme) {
    const { pen, width, height } = fitted(this.part(".curves"));
    const { conditioned } = this;
    const target = conditioned ? this.target : 0;
    const high = Math.max(target, this.highest, conditioned ? target - this.lowest : 0, 1) * 1.08;
    const low = Math.min(0, this.lowest, conditioned ? target - this.highest : 0) * 1.08;
    const across = (step) => 8 + (step / this.limit) * (width - 16);
    const up = (value) => height - 8 - ((value - low) / (high - low)) * (height - 30);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.strokeStyle = theme.line;
    line(pen, [8, up(0)], [width - 8, up(0)]);
    const curves = [["return so far", theme.earned, [], (value) => value]];
    if (conditioned) curves.push(["return-to-go", theme.togo, [5, 4], (value) => this.target - value]);
    let left = 8;
    for (const [name, shade, dashes, of] of curves) {
      pen.strokeStyle = shade;
      pen.fillStyle = shade;
      pen.setLineDash(dashes);
      pen.lineWidth = 2;
      pen.beginPath();
      this.curve.forEach((value, step) => pen.lineTo(across(step), up(of(value))));
      pen.stroke();
      line(pen, [left, 12], [left + 22, 12]);
      pen.textAlign = "left";
      pen.fillText(name, left + 28, 16);
      left += 40 + pen.measureText(name).width;
      pen.setLineDash([]);
      pen.beginPath();
      pen.arc(across(this.steps), up(of(this.earned)), 3.5, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.textAlign = "right";
    pen.fillStyle = theme.quiet;
    pen.fillText(`${format(this.limit)} steps`, width - 8, 16);
  }
}

function line(pen, from, to) {
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}

/** The drawing context of a canvas, in CSS pixels, after fitting it to its size on the screen. */
function fitted(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { pen, width, height };
}

/** The players together: what the controls do. */
class Stage {
  constructor(players) {
    this.players = players;
    this.playing = false;
    this.owed = 0; // seconds of the environment's time that are still to be played
    this.frames = []; // when those of the last second began
    this.drawn = 0;
    this.readTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readTheme());
  }

  readTheme() {
    const names = ["sky", "ground", "outline", "shadow", "text", "quiet", "line", "earned", "togo"];
    this.theme = Object.fromEntries(names.map((name) => [name, colour(`--${name}`)]));
  }

  get over() {
    return this.players.every((player) => player.over);
  }

  restart() {
    const seed = Math.min(Math.max(Math.floor(Number(find("seed").value)) || 0, 0), 2 ** 32 - 1);
    find("seed").value = seed;
    for (const player of this.players) player.reset(seed, Number(find("target").value));
    this.owed = 0;
  }

  play(playing) {
    if (playing && this.over) this.restart();
    this.playing = playing;
    this.owed = 0;
    find("play").textContent = playing ? "Pause" : "Play";
    document.body.dataset.state = playing ? "playing" : this.over ? "over" : "paused";
  }

  async step() {
    for (const player of this.players) await player.step();
    if (this.playing && this.over) this.play(false);
  }

  /** Play the steps that a frame of so many seconds is due, and draw. */
  async frame(seconds, speed) {
    if (this.request === "restart") {
      const over = this.over;
      this.restart();
      if (over) this.play(true);
    }
    if (this.request === "step" && !this.over) await this.step();
    this.request = null;
    const { dt } = this.players[0].environment;
    const end = performance.now() + FRAME_MS;
    this.owed = Math.min(this.owed + seconds * speed, speed === Infinity ? Infinity : 0.1 + dt);
    while (this.playing && this.owed >= dt && performance.now() < end) {
      this.owed -= dt;
      await this.step();
    }
    this.draw();
  }

  draw() {
    const all = this.drawn++ % SLOWLY === 0;
    for (const player of this.players.filter(({ visible }) => visible)) {
      if (all || this.playing) player.drawBody(this.theme);
      if (!all) continue;
      player.drawCurves(this.theme);
      player.drawNumbers();
    }
  }

  run() {
    let before = performance.now();
    const next = async (now) => {
      await this.frame(Math.max(now - before, 0) / 1000, Number(find("speed").value));
      before = now;
      this.frames = [...this.frames.filter((time) => time > now - 1000), now];
      if (this.playing) find("rate").textContent = `${this.frames.length} frames a second.`;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  }
}

async function fetched(name) {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name} is missing from this folder: write the page again.`);
  return response;
}

/** Make the slider span the returns of the data, and the targets of its evaluation. */
function setRange(policies, initial) {
  const conditioned = policies.map(({ metadata }) => metadata).filter(({ target_return }) => target_return.conditioned);
  if (!conditioned.length) {
    find("target").parentElement.hidden = true;
    find("about").textContent = "This agent imitates its data and takes no target return.";
    return;
  }
  const returns = conditioned.flatMap(({ training, target_return }) => {
    const { return_min: low, return_max: high, target_returns: usual } = training.provenance;
    return [low, high, ...(usual ?? []), target_return.default].map(Number).filter(Number.isFinite);
  });
  if (Number.isFinite(initial)) returns.push(initial);
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(...returns) - Math.min(...returns) || 1)) - 2);
  const first = Number(initial ?? conditioned[0].target_return.default);
  const [min, max] = [Math.floor(Math.min(...returns) / unit) * unit, Math.ceil(Math.max(...returns) / unit) * unit];
  Object.assign(find("target"), { step: unit, min, max });
  find("target").value = Number.isFinite(first) ? first : max;
  find("target-value").textContent = format(find("target").value);
}

function listen(stage) {
  const act = {
    play: () => stage.play(!stage.playing),
    step: () => {
      stage.play(false);
      stage.request = "step";
    },
    restart: () => (stage.request = "restart"),
    left: () => stage.players.forEach((player) => player.push(-1)),
    right: () => stage.players.forEach((player) => player.push(1)),
  };
  for (const [id, action] of Object.entries(act)) find(id).addEventListener("click", action);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  find("seed").addEventListener("change", act.restart);
  find("target").addEventListener("input", () => (find("target-value").textContent = format(find("target").value)));
  find("target").addEventListener("change", act.restart);
  const keys = { " ": act.play, s: act.step, r: act.restart, a: act.left, d: act.right };
  addEventListener("keydown", (event) => {
    const typing = event.target.matches(`input[type=number], select${event.key === " " ? ", button" : ""}`);
    const action = keys[event.key.toLowerCase()];
    if (!action || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
}

function listLicences(vendored) {
  const items = vendored.flatMap(({ name, version, licence, url }) => {
    const link = Object.assign(document.createElement("a"), { href: url, textContent: `${name} ${version}` });
    return [", ", link, ` (${licence})`];
  });
  find("licences").append("With ", ...items.slice(1), "; their licences are in this folder's licences/.");
}

async function main() {
  const page = await (await fetched("page.json")).json();
  listLicences(page.vendored);
  const [{ default: loadMujoco }, ort, xml] = await Promise.all([
    import("./runtimes/mujoco.js"),
    import("./runtimes/ort.wasm.min.mjs"),
    fetched("body.xml").then((response) => response.text()),
  ]);
  ort.env.wasm.numThreads = 1; // more need headers that static hosts do not send
  const mujoco = await loadMujoco();
  const players = [];
  for (const { policy: file, name, metadata } of page.agents) {
    const environment = new Environment(mujoco, xml, page.environment_id);
    const bytes = new Uint8Array(await (await fetched(file)).arrayBuffer());
    const policy = await Policy.load(ort, bytes, metadata);
    players.push(new Player(policy, environment, name, page.steps));
  }
  setRange(players.map((player) => player.policy), page.target_return);
  find("seed").value = page.seed;
  const stage = new Stage(players);
  for (const id of ["controls", "keys"]) find(id).hidden = false;
  find("message").hidden = true;
  stage.restart();
  listen(stage);
  stage.play(!still.matches);
  stage.run();
}

main().catch((error) => {
  find("message").textContent = `The page cannot be shown: ${error.message ?? error}`;
  find("message").hidden = false;
  find("message").setAttribute("role", "alert");
  find("agents").replaceChildren();
  document.body.dataset.state = "failed";
});

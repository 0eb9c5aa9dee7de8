// Gymnasium's planar MuJoCo environments, version 5, in the browser: the same frame skip, observation, reward, health
// and reset noise. Sources: gymnasium/envs/mujoco/{hopper,walker2d,half_cheetah}_v5.py with their default settings.

const VELOCITY_LIMIT = 10; // of observed velocities, in the environments with health
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n; // of PCG64
const MASK64 = (1n << 64n) - 1n;
const MASK128 = (1n << 128n) - 1n;

const BODIES = {
  "Hopper-v5": {
    frameSkip: 4,
    controlCost: 1e-3,
    noise: 5e-3,
    healthy: { z: [0.7, Infinity], angle: [-0.2, 0.2], state: 100 },
    height: 2.4, // metres of the picture
  },
  "Walker2d-v5": {
    frameSkip: 4,
    controlCost: 1e-3,
    noise: 5e-3,
    healthy: { z: [0.8, 2.0], angle: [-1, 1], state: Infinity },
    height: 2.4,
  },
  "HalfCheetah-v5": { frameSkip: 5, controlCost: 0.1, noise: 0.1, healthy: null, height: 1.7 },
};

/** Numbers of NumPy's `default_rng(seed)`, which Gymnasium's reset(seed) draws from; 0 <= seed < 2^32. */
export class Generator {
  constructor(seed) {
    const words = seedSequence(seed).map(BigInt);
    const [high, low, inHigh, inLow] = [0, 2, 4, 6].map((i) => words[i] | (words[i + 1] << 32n));
    this.increment = (((inHigh << 65n) | (inLow << 1n)) & MASK128) | 1n;
    this.state = 0n;
    this.advance();
    this.state = (this.state + ((high << 64n) | low)) & MASK128;
    this.advance();
  }

  advance() {
    this.state = (this.state * MULTIPLIER + this.increment) & MASK128;
  }

  /** In [0, 1), the same numbers as NumPy's. */
  random() {
    this.advance();
    const mixed = (this.state >> 64n) ^ (this.state & MASK64);
    const turn = this.state >> 122n;
    const output = ((mixed >> turn) | (mixed << (64n - turn))) & MASK64;
    return Number(output >> 11n) / 2 ** 53;
  }

  uniform(low, high) {
    return low + (high - low) * this.random();
  }

  /** Of the standard normal distribution, by Box and Muller; NumPy draws other numbers of it. */
  normal() {
    return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random());
  }
}

/** NumPy's SeedSequence(seed).generate_state(8). */
function seedSequence(seed) {
  let constant = 0x43b0d7e5;
  const hash = (value, multiplier) => {
    value ^= constant;
    constant = Math.imul(constant, multiplier);
    value = Math.imul(value, constant);
    return (value ^ (value >>> 16)) >>> 0;
  };
  const pool = [seed, 0, 0, 0].map((word) => hash(word, 0x931e8875));
  for (let from = 0; from < 4; from++) {
    for (let to = 0; to < 4; to++) {
      if (from === to) continue;
      const other = hash(pool[from], 0x931e8875);
      const mixed = (Math.imul(0xca01f9dd, pool[to]) - Math.imul(0x4973f715, other)) >>> 0;
      pool[to] = (mixed ^ (mixed >>> 16)) >>> 0;
    }
  }
  constant = 0x8b51f9dd;
  return Array.from({ length: 8 }, (_, i) => hash(pool[i % 4], 0x58f38ded));
}

export class Environment {
  /** `mujoco` is the loaded module of @mujoco/mujoco, `xml` the text of the body's model. */
  constructor(mujoco, xml, id) {
    this.mujoco = mujoco;
    this.body = BODIES[id];
    this.model = mujoco.MjModel.from_xml_string(xml);
    this.data = new mujoco.MjData(this.model);
    this.dt = this.model.opt.timestep * this.body.frameSkip;
    this.start = Float64Array.from(this.model.qpos0);
  }

  /** Begin an episode; returns the observation. With one seed, positions are Gymnasium's, and velocities too where
   * they are uniform, as of hopper and walker2d; those of halfcheetah are other numbers of the same distribution. */
  reset(seed) {
    const { noise, healthy } = this.body;
    const generator = new Generator(seed);
    this.mujoco.mj_resetData(this.model, this.data);
    const positions = this.start.map((value) => value + generator.uniform(-noise, noise));
    const velocities = Float64Array.from({ length: this.model.nv }, () =>
      healthy ? generator.uniform(-noise, noise) : noise * generator.normal(),
    );
    return this.place(positions, velocities);
  }

  /** Set the state; returns the observation. */
  place(positions, velocities) {
    this.data.qpos.set(positions);
    this.data.qvel.set(velocities);
    this.mujoco.mj_forward(this.model, this.data);
    return this.observation();
  }

  observation() {
    const observed = Float64Array.of(...this.data.qpos.subarray(1), ...this.data.qvel);
    if (!this.body.healthy) return observed;
    const first = this.model.nq - 1;
    return observed.map((value, i) =>
      i < first ? value : Math.min(Math.max(value, -VELOCITY_LIMIT), VELOCITY_LIMIT),
    );
  }

  /** One step of the environment; `action` holds numbers in [-1, 1]. */
  step(action) {
    const { frameSkip, controlCost } = this.body;
    const before = this.data.qpos[0];
    this.data.ctrl.set(action);
    for (let i = 0; i < frameSkip; i++) this.mujoco.mj_step(this.model, this.data);
    const speed = (this.data.qpos[0] - before) / this.dt;
    const healthy = this.isHealthy();
    const cost = controlCost * action.reduce((sum, value) => sum + value * value, 0);
    const reward = speed + (this.body.healthy && healthy ? 1 : 0) - cost;
    return { observation: this.observation(), reward, terminated: !healthy };
  }

  isHealthy() {
    const { healthy } = this.body;
    if (!healthy) return true;
    const [, height, angle, ...joints] = this.data.qpos;
    return (
      height > healthy.z[0] &&
      height < healthy.z[1] &&
      angle > healthy.angle[0] &&
      angle < healthy.angle[1] &&
      [angle, ...joints, ...this.data.qvel].every((value) => Math.abs(value) < healthy.state)
    );
  }

  /** Let a force in newton act on the torso in the following steps. */
  push(x, z) {
    this.data.xfrc_applied.set([x, 0, z], 6); // six numbers for every body; body 0 is the world, 1 the torso
  }

  /** Where the torso is: x and z in metres. */
  torso() {
    const place = this.data.xpos;
    return { x: place[3], z: place[5] };
  }

  /** The capsules of the body: ends, radius in metres and colour. All that these bodies are made of. */
  capsules() {
    const { geom_xpos: place, geom_xmat: axes } = this.data;
    const { geom_size: size, geom_rgba: rgba, ngeom, geom_bodyid: owner } = this.model;
    const found = [];
    for (let i = 0; i < ngeom; i++) {
      if (owner[i] === 0) continue; // the floor
      const [x, z, radius, half] = [place[3 * i], place[3 * i + 2], size[3 * i], size[3 * i + 1]];
      const [across, up] = [half * axes[9 * i + 2], half * axes[9 * i + 8]];
      const colour = [0, 1, 2].map((part) => Math.round(255 * rgba[4 * i + part]));
      found.push({ from: [x - across, z - up], to: [x + across, z + up], radius, colour });
    }
    return found;
  }
}
